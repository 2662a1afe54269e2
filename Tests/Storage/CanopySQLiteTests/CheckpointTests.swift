import CanopyEngine
import CanopySocial
import CanopyTesting
import CanopyTree
import Foundation
import GRDB
import Synchronization
import Testing

@testable import CanopySQLite

@Suite(.timeLimit(.minutes(20))) struct CheckpointTests {
  let folder: Folder

  init() throws {
    folder = try Folder()
  }

  /// Appends one commit for each pair of a location and a value.
  private func append(
    _ store: SQLiteStore, _ writes: [(String, Node)]
  ) async throws -> (root: Node, sequence: Int64) {
    for (location, value) in writes {
      let last = try await store.number("SELECT coalesce(max(sequence), 0) FROM commits")
      try store.append([commit(last + 1, location, value)], after: last)
    }
    return try await store.tree()
  }

  private func big(_ count: Int, _ bytes: Int = 400) -> Node {
    let text = Node(String(repeating: "b", count: bytes))
    return Node(children: (0..<count).map { (Key(index: Int32($0)), text) })
  }

  @Test func `a small branch is one row, and a large one is a row for each child`() async throws {
    try await folder.withStore { store in
      let tree = try await append(store, [("small", big(3)), ("big", big(40)), ("leaf", 7)])
      try await store.checkpoint(tree.root, through: tree.sequence)
      let rows = try await store.leaves()
      #expect(
        Set(rows.keys) == Set((0..<40).map { "big/\($0)" } + ["small", "leaf"]))
      #expect(rows["leaf"] == "7")
      #expect(try await store.load().checkpoint == tree.sequence)
      #expect(try await store.checkpointRoot() == tree.root)
    }
  }

  @Test func `a change of a stored row takes one look-up and one write, and a new row one write`()
    async throws
  {
    try await folder.withStore { store in
      var tree = try await append(
        store, [("big", big(100)), ("other", big(100))])
      try await store.checkpoint(tree.root, through: tree.sequence)
      var writes: [(String, Node)] = []
      for number in 0..<100 {
        writes.append(("big/\(number)/stars/ada", true))
        writes.append(("big/\(number)/count", 1))
        writes.append(("new/\(number)", big(1)))
        writes.append(("other/\(number)/stars/ada", true))
      }
      tree = try await append(store, writes)
      let statements = Steps()
      try await store.pool.writeWithoutTransaction { db in
        db.trace { event in
          if case .statement(let statement) = event, statement.sql.contains("leaves") {
            _ = statements.next()
          }
        }
      }
      try await store.checkpoint(tree.root, through: tree.sequence)
      try await store.pool.writeWithoutTransaction { $0.trace(options: []) }
      let count = statements.next() - 1
      // Two for each of 200 rows, one for each of 100 new ones, and some where a list begins.
      #expect(500...520 ~= count, "\(count)")
      #expect(try await store.checkpointRoot() == tree.root)
      #expect(try await store.leaves().count == 300)
    }
  }

  @Test func `a row that grows is split, and its branch stays complete`() async throws {
    try await folder.withStore { store in
      var tree = try await append(store, [("a", big(3))])
      try await store.checkpoint(tree.root, through: tree.sequence)
      #expect(try await store.leaves().count == 1)
      tree = try await append(
        store, (100..<150).map { ("a/\($0)", big(1, 300)) })
      try await store.checkpoint(tree.root, through: tree.sequence)
      #expect(try await store.leaves().count == 53)
      #expect(try await store.checkpointRoot() == tree.root)
      tree = try await append(store, (1..<150).map { ("a/\($0)", Node.absent) })
      try await store.checkpoint(tree.root, through: tree.sequence)
      #expect(try await store.leaves().count == 1)
      #expect(try await store.checkpointRoot() == tree.root)
    }
  }

  @Test func `the priority of a branch in several rows is added, changed and removed`() async throws
  {
    try await folder.withStore { store in
      for (writes, row) in [
        ([("a", big(40)), ("a/.priority", 5)], "5"), ([("a/.priority", "p")], "\"p\""),
        ([("a/x", 1)], "\"p\""), ([("a/.priority", .absent)], nil),
        ([("a", big(50).withPriority(6))], "6"), ([("a", big(50))], nil),
        ([("a", big(2).withPriority(6))], nil), ([("a", 5)], nil),
      ] as [([(String, Node)], String?)] {
        let tree = try await append(store, writes)
        try await store.checkpoint(tree.root, through: tree.sequence)
        #expect(try await store.leaves()["a/.priority"] == row)
        #expect(try await store.checkpointRoot() == tree.root)
        #expect(try await store.problems().isEmpty)
      }
    }
  }

  @Test func `a priority survives a crash while its branch has no rows`() async throws {
    let crashes = Crashes()
    let root = try await folder.withStore(crashes.configuration(of: folder)) { store in
      try await withEngine(store) { engine in
        for (path, value) in [("q/x", big(12, 1_000)), ("q/.priority", 5), ("y/y", 1), ("y/x", 1)]
          as [(String, Node)]
        {
          _ = try await engine.transact { _ in
            Decision(try .set(Location(path), WriteValue(value)), ())
          }
        }
        let snapshot = engine.snapshot
        let (root, sequence) = (snapshot.root, snapshot.sequence)
        try await store.checkpoint(root, through: sequence)
        // All rows of the only child are removed before the first new one is inserted.
        _ = try await engine.transact { _ in
          Decision(try .set(Location("q/x"), WriteValue(big(16, 1_000))), ())
        }
        let nextSnapshot = engine.snapshot
        let (next, last) = (nextSnapshot.root, nextSnapshot.sequence)
        try await store.checkpoint(next, through: last)
        return next
      }
    }
    #expect(root.child("q").priority == 5)
    let all = crashes.folders
    #expect(all.count > 40)
    var empty = 0
    for crashed in all.suffix(34) {
      try await crashed.withStore { store in
        let leaves = try await store.leaves()
        if leaves.keys.filter({ $0.hasPrefix("q/") }) == ["q/.priority"] { empty += 1 }
        #expect(try await store.problems().isEmpty)
        #expect(try await store.tree().root.child("q").priority == 5)
      }
    }
    #expect(empty > 0)
    #expect(try await all.last?.withStore { try await $0.checkpointRoot() } == root)
  }

  @Test func `the configured commits are kept, and the journal continues after them`()
    async throws
  {
    var configuration = SQLiteStore.Configuration()
    configuration.retainedCommits = 10
    let folder = folder
    try await folder.withStore(configuration) { store in
      let tree = try await append(store, (0..<25).map { ("n/\($0)", Node(Int64($0))) })
      try await store.checkpoint(tree.root, through: 20)
      #expect(try await store.number("SELECT min(sequence) FROM commits") == 16)
      #expect(try await store.number("SELECT max(sequence) FROM commits") == 25)
      #expect(try await store.problems().isEmpty)
    }
    configuration.retainedCommits = 1
    try await folder.withStore(configuration) { store in
      let tree = try await store.tree()
      try await store.checkpoint(tree.root, through: 25)
      #expect(try await store.number("SELECT count(*) FROM commits") == 1)
    }
    try await folder.withStore { store in
      #expect(try await store.tree().sequence == 25)
      try store.append([commit(26, "m", 1)], after: 25)
      #expect(try await store.tree().root.child("n").childCount == 25)
      #expect(try await store.problems().isEmpty)
    }
  }

  @Test func `a checkpoint of a commit that was altered on the disk keeps every value`()
    async throws
  {
    try await folder.withStore { store in
      let before = try await append(store, [("a/x1", "old"), ("b", big(40))])
      try await store.checkpoint(before.root, through: before.sequence)
      let tree = try await append(store, [("a/x1", "new"), ("c", 1)])
      let altered = before.sequence + 1
      try await store.pool.write { db in
        let body = try #require(
          try Data.fetchOne(
            db, sql: "SELECT body FROM commits WHERE sequence = ?", arguments: [altered]))
        var changed = body
        let place = try #require(body.firstRange(of: Data("x1".utf8)))
        changed[place.upperBound - 1] = UInt8(ascii: "2")
        try db.execute(
          sql: "UPDATE commits SET body = CAST(? AS TEXT), time = ? WHERE sequence = ?",
          arguments: [changed, Int64.max / 2, altered])
      }
      let error = await #expect(throws: StoreError.self) {
        try await store.checkpoint(tree.root, through: tree.sequence)
      }
      #expect(error?.sentence.contains("commit \(altered), or the one before it,") == true)
      #expect(try await store.checkpointRoot() == tree.root)
      let keyTime = try await store.pool.read { try Meta.read($0).keyTime }
      #expect(try #require(keyTime) < Int64.max / 2)
      // The next one goes on after it.
      let next = try await append(store, [("a/x1", 2)])
      try await store.checkpoint(next.root, through: next.sequence)
      #expect(try await store.checkpointRoot() == next.root)
    }
  }

  @Test func `an altered time of the last commit forgets no write that may be sent again`()
    async throws
  {
    try await folder.withStore { store in
      var first = try commit(1, "a", 1)
      first.origin = try WriteOrigin(client: "c", number: 1, seen: 0)
      try store.append([first], after: 0)
      try store.append([try commit(2, "b", 1)], after: 1)
      let tree = try await store.tree()
      try await store.pool.write {
        try $0.execute(
          sql: "UPDATE commits SET time = ? WHERE sequence = 2", arguments: [Int64.max / 2])
      }
      await #expect(throws: StoreError.self) {
        try await store.checkpoint(tree.root, through: 1)
      }
      #expect(try await store.number("SELECT count(*) FROM client_writes") == 1)
    }
  }

  @Test func `the next checkpoint completes the work of a failed one`() async throws {
    struct Planned: Error {}
    var configuration = SQLiteStore.Configuration()
    configuration.checkpointStepRows = 1
    let steps = Steps()
    configuration.afterStep = { if steps.next() == 3 { throw Planned() } }
    try await folder.withStore(configuration) { store in
      let tree = try await append(store, [("a", big(30)), ("b", 1), ("c", 2)])
      await #expect(throws: Planned.self) {
        try await store.checkpoint(tree.root, through: tree.sequence)
      }
      #expect(try await store.number("SELECT value FROM meta WHERE name = 'checkpoint'") == 0)
      #expect(try await store.checkpointRoot() != tree.root)
      try await store.checkpoint(tree.root, through: tree.sequence)
      #expect(try await store.checkpointRoot() == tree.root)
      #expect(try await store.load().checkpoint == tree.sequence)
    }
  }

  @Test(
    arguments: [
      "synchronous = NORMAL", "BEGIN", "INTO leaves", "COMMIT", "synchronous = FULL", "INTO meta",
    ])
  func `appends are durable after a checkpoint was cancelled at any statement`(
    statement: String
  ) async throws {
    try await folder.withStore { store in
      let tree = try await append(store, [("a", big(30))])
      let step = Gate()
      let checkpoint = Task {
        await step.pass()
        try await store.checkpoint(tree.root, through: tree.sequence)
      }
      try await store.pool.writeWithoutTransaction { db in
        db.trace { if "\($0)".contains(statement) { checkpoint.cancel() } }
      }
      step.open()
      await #expect(throws: CancellationError.self) { try await checkpoint.value }
      let synchronous = try await store.pool.writeWithoutTransaction { db in
        db.trace(options: [])
        return try Int.fetchOne(db, sql: "PRAGMA synchronous")
      }
      #expect(synchronous == 2)
      #expect(try await store.tree().root == tree.root)
    }
  }

  @Test func `an append restores the level of synchronization if a step failed to`() async throws {
    try await folder.withStore { store in
      // The state after a step whose last statement has failed.
      store.isUnsynced.withLock { $0 = true }
      try await store.pool.writeWithoutTransaction {
        try $0.execute(sql: "PRAGMA synchronous = NORMAL")
      }
      try store.append([commit(1, "n", 1)], after: 0)
      let synchronous = try await store.pool.writeWithoutTransaction {
        try Int.fetchOne($0, sql: "PRAGMA synchronous")
      }
      #expect(synchronous == 2)
      #expect(!store.isUnsynced.withLock { $0 })
    }
  }

  @Test func `a row with many changes is written once`() async throws {
    try await folder.withStore { store in
      let many = Node(children: (0..<200).map { (Key(index: $0), 1) })
      var tree = try await append(store, [("a/b", many), ("a/z", big(40))])
      try await store.checkpoint(tree.root, through: tree.sequence)
      tree = try await append(store, (0..<200).map { ("a/b/\($0)", 2) } + [("a/c", 3)])
      let changes = Steps()
      try await store.pool.writeWithoutTransaction { db in
        db.trace { event in
          let isChange = ["INTO leaves", "UPDATE leaves", "DELETE FROM leaves"]
            .contains { "\(event)".contains($0) }
          if isChange { _ = changes.next() }
        }
      }
      try await store.checkpoint(tree.root, through: tree.sequence)
      // The row and a new one.
      #expect(changes.next() == 3, "the number of the first is 1")
      #expect(try await store.checkpointRoot() == tree.root)
    }
  }

  @Test func `new keys after all existing ones need one look-up`() async throws {
    var looks: [Int] = []
    for count in [10, 500] {
      let folder = try Folder()
      try await folder.withStore { store in
        // In several rows, and with another row after them.
        var tree = try await append(store, [("a", big(40)), ("b", 1)])
        try await store.checkpoint(tree.root, through: tree.sequence)
        tree = try await append(store, (100..<100 + count).map { ("a/n\($0)", 1) })
        let selects = Steps()
        try await store.pool.writeWithoutTransaction { db in
          db.trace { if "\($0)".contains("FROM leaves") { _ = selects.next() } }
        }
        try await store.checkpoint(tree.root, through: tree.sequence)
        looks.append(selects.next() - 1)
        #expect(try await store.checkpointRoot() == tree.root)
      }
    }
    print("looks for rows: \(looks)")
    #expect(looks[0] == looks[1])
    #expect(looks[0] <= 3)
  }

  @Test func `a location without rows needs no removal`() async throws {
    let folder = try Folder()
    try await folder.withStore { store in
      var tree = try await append(store, [("a", big(40)), ("z", 1)])
      try await store.checkpoint(tree.root, through: tree.sequence)
      tree = try await append(store, (100..<300).map { ("a/n\($0)", 1) })
      let removals = Steps()
      try await store.pool.writeWithoutTransaction { db in
        db.trace { if "\($0)".contains("DELETE FROM leaves") { _ = removals.next() } }
      }
      try await store.checkpoint(tree.root, through: tree.sequence)
      #expect(removals.next() == 1, "the number of the first is 1")
      // A location with rows does need one.
      tree = try await append(store, [("a", .absent), ("z", .absent)])
      try await store.checkpoint(tree.root, through: tree.sequence)
      #expect(removals.next() > 2)
    }
  }

  @Test func `the cache of the writer is small, because each commit searches it`() async throws {
    let folder = try Folder()
    try await folder.withStore { store in
      let size = try await store.pool.writeWithoutTransaction {
        try Int.fetchOne($0, sql: "PRAGMA cache_size")
      }
      // In KiB.
      #expect(size == -8192)
    }
  }

  @Test func `a row between new keys is found, even if keys sort around the slash`()
    async throws
  {
    for old in ["a/n", "a/n!", "a/n/x", "a/n0", "a/m", "a/o", "a/n1/x", "a/n.", "a"]
    where (try? Path(old)) != nil {
      let folder = try Folder()
      try await folder.withStore { store in
        var tree = try await append(store, [("a/big", big(40)), ("z", 1), (old, big(2))])
        try await store.checkpoint(tree.root, through: tree.sequence)
        tree = try await append(
          store, ["a/m1", "a/n", "a/n!x", "a/n1", "a/n0/y", "a/o/p"].map { ($0, 7) })
        try await store.checkpoint(tree.root, through: tree.sequence)
        #expect(try await store.checkpointRoot() == tree.root, "\(old)")
        #expect(try await store.problems().isEmpty, "\(old)")
      }
    }
  }

  @Test func `the cost of a star in a checkpoint does not depend on the number of posts`()
    async throws
  {
    var written: [Int] = []
    for posts in [100, 2_000] {
      let folder = try Folder()
      var configuration = SQLiteStore.Configuration()
      // One step even on a slow machine.
      configuration.uptime = { 0 }
      try await folder.withStore(configuration) { store in
        let body = String(repeating: "b", count: 300)
        let nodes = (0..<posts).map { number -> (Key, Node) in
          let post = json(
            #"{"author":"ada","body":"\#(body)","createdAt":5,"starCount":0,"title":"t","uid":"u"}"#
          )
          return (Key(index: Int32(number)), post)
        }
        let all = Node(children: nodes)
        let users = json(#"{"u":{"username":"ada"},"v":{"username":"bob"}}"#)
        let start = Node(children: [
          (Key("posts"), all), (Key("users"), users),
          (Key("user-posts"), Node(children: [(Key("u"), all)])),
        ])
        try await store.replace(.root, with: start) { _ in }
        let changes = try await withEngine(store) { engine in
          _ = try await engine.transact { try Posts.toggleStar(Key(index: 50), by: "v", in: &$0) }
          let before = try await store.totalChanges()
          let snapshot = engine.snapshot
          let (root, sequence) = (snapshot.root, snapshot.sequence)
          try await store.checkpoint(root, through: sequence)
          return try await store.totalChanges() - before
        }
        written.append(changes)
        #expect(try await store.checkpointRoot() == (try await store.tree().root))
      }
    }
    print("rows written by a checkpoint after one star: \(written)")
    #expect(written[0] == written[1])
    // They include the number and the time of the checkpoint, and the sum of the rows, each with the checksum.
    #expect(written[0] <= 9)
  }
}
