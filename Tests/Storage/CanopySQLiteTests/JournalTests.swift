import CanopyEngine
import CanopyTesting
import CanopyTree
import Foundation
import GRDB
import Testing

@testable import CanopySQLite

struct JournalTests {
  let folder: Folder

  init() throws {
    folder = try Folder()
  }

  @Test func `a new folder is empty`() async throws {
    try await folder.withStore { store in
      let state = try await store.load()
      #expect(state.tree.root.isAbsent)
      #expect(state.checkpoint == 0)
      #expect(state.sequence == 0)
      #expect(try await store.problems().isEmpty)
    }
  }

  @Test func `commits are read as they were written`() async throws {
    var random = SeededGenerator(printingSeedFor: "JournalTests")
    let writes = RandomWrites()
    var commits: [Commit] = []
    for sequence in 1...200 {
      let assignments = writes.next(&random).items.map { Assignment($0.location, $0.value.node) }
      commits.append(
        Commit(
          sequence: Int64(sequence), time: Int64.random(in: 0...(1 << 48) - 2, using: &random),
          assignments: assignments))
    }
    let special: [Node] = [
      Node(Int64.max), Node(Int64.min), Node(1 << 53 + 1), Node(-0.5) ?? 0,
      Node(Double.leastNonzeroMagnitude) ?? 0,
      Node(1.7976931348623157e308) ?? 0, Node(String(repeating: "é🌳\"\\\u{1}", count: 100_000)),
      Node("\u{0}"), Node("e\u{301}"), Node("\u{E9}"), Node(5).withPriority("p"),
      json(#"{".priority":-1.5,"a":{".value":false,".priority":"z"}}"#), .absent, true,
    ]
    for node in special {
      let sequence = Int64(commits.count + 1)
      commits.append(Commit(sequence: sequence, time: 0, assignments: [Assignment(.root, node)]))
    }
    let all = commits
    try await folder.withStore { store in
      try store.append(Array(all[..<1]), after: 0)
      try store.append(Array(all[1..<200]), after: 1)
      try store.append(Array(all[200...]), after: 200)
    }
    try await folder.withStore { store in
      let state = try await store.load()
      #expect(state.tree.root == all.folded())
      #expect(state.sequence == Int64(all.count))
      #expect(state.lastTime == all.map(\.time).max())
      let loaded = try await store.commits(after: 0, through: .max)
      #expect(loaded.count == all.count)
      for (loaded, commit) in zip(loaded, all) { #expect(loaded == commit) }
      #expect(try await store.problems().isEmpty)
    }
  }

  @Test func `keys that sort around the slash have separate subtrees`() async throws {
    let keys = ["a", "a!", "a-b", "a0", "a/b", "a%", "a'", "a\"", "a 🌳", "A", "1", "01"]
    for key in keys {
      let value = json(#"{"x":{"y":"\#(String(repeating: "t", count: 9_000))"},"z":1}"#)
      let commits = [
        Commit(
          sequence: 1, time: 0,
          assignments: try keys.filter { $0 != "a/b" }.map { Assignment(try Path($0), value) }),
        Commit(sequence: 2, time: 0, assignments: [Assignment(try Path(key + "/z"), 2)]),
        Commit(sequence: 3, time: 0, assignments: [Assignment(try Path(key), .absent)]),
      ]
      let folder = try Folder()
      try await folder.withStore { store in
        for (i, commit) in commits.enumerated() {
          try store.append([commit], after: Int64(i))
          let root = commits[...i].folded()
          try await store.checkpoint(root, through: Int64(i + 1))
          #expect(try await store.checkpointRoot() == root)
          #expect(try await store.problems().isEmpty)
        }
      }
    }
  }

  @Test func `an append after a wrong number is refused, and the error has the missed commits`()
    async throws
  {
    try await folder.withStore { store in
      let commits = try (1...5).map { try commit($0, "n", Node($0)) }
      try store.append(Array(commits[..<3]), after: 0)
      for last in [0, 1, 2, 4, 9] as [Int64] {
        do {
          try store.append([commit(last + 1, "x", 1)], after: last)
          Issue.record("the append after \(last) succeeded")
        } catch JournalError.conflict(let missed) {
          #expect(missed == commits[..<3].filter { $0.sequence > last })
        }
      }
      try store.append(Array(commits[3...]), after: 3)
      #expect(try await store.commits(after: 0, through: .max) == commits)
    }
  }

  @Test func `an append with existing or non-consecutive numbers stores nothing`() async throws {
    try await folder.withStore { store in
      try store.append([commit(1, "n", 1)], after: 0)
      #expect(throws: (any Error).self) {
        try store.append([commit(2, "n", 2), commit(2, "n", 3)], after: 1)
      }
      #expect(try await store.load().sequence == 1)
      #expect(try await store.number("SELECT count(*) FROM commits") == 1)
    }
  }

  @Test func `the writes of an engine survive a restart`() async throws {
    var random = SeededGenerator(printingSeedFor: "JournalTests.engine")
    let run = (0..<30).map { _ in RandomWrites().next(&random) }
    let folder = folder
    var roots: [Node] = []
    for _ in 0..<2 {
      roots.append(
        try await folder.withStore { store in
          try await withEngine(store) { engine in
            for write in run { _ = try await engine.transact { _ in Decision(write, ()) } }
            return engine.root
          }
        })
      try await folder.withStore { store async throws in
        #expect(try await store.tree().root == roots.last)
        #expect(try await store.tree().sequence == Int64(run.count * roots.count))
      }
    }
  }

  @Test func `a commit is one row`() async throws {
    try await folder.withStore { store in
      let post = json(#"{"title":"t","body":"b"}"#)
      let before = try await store.totalChanges()
      try store.append(
        [
          Commit(
            sequence: 1, time: 5,
            assignments: [
              Assignment(try Path("posts/p"), post), Assignment(try Path("user-posts/u/p"), post),
            ])
        ], after: 0)
      #expect(try await store.totalChanges() - before == 1)
      #expect(try await store.number("SELECT count(*) FROM commits") == 1)
      #expect(try await store.number("SELECT count(*) FROM leaves") == 0)
      let body = try await store.pool.read {
        try String.fetchOne($0, sql: "SELECT body FROM commits")
      }
      #expect(body?.components(separatedBy: "title").count == 2, "a shared value is stored once")
    }
  }

  @Test(arguments: SQLiteStore.Durability.allCases)
  func `an append waits for the disk or the operating system, as configured`(
    durability: SQLiteStore.Durability
  ) async throws {
    var configuration = SQLiteStore.Configuration()
    configuration.durability = durability
    let folder = folder
    let crashed = try await folder.withStore(configuration) { store in
      try store.append([commit(1, "n", 1)], after: 0)
      try await store.checkpoint(json(#"{"n":1}"#), through: 1)
      let synchronous = try await store.pool.writeWithoutTransaction {
        try Int.fetchOne($0, sql: "PRAGMA synchronous")
      }
      #expect(synchronous == (durability == .full ? 2 : 1))
      try store.append([commit(2, "n", 2)], after: 1)
      return try folder.crashed()
    }
    // In both cases it survives the end of the process.
    try await crashed.withStore { store async throws in
      #expect(try await store.tree().root == json(#"{"n":2}"#))
    }
  }

  @Test func `a journal with a gap is refused`() async throws {
    try await folder.withStore { store in
      try store.append(try (1...5).map { try commit($0, "n", Node($0)) }, after: 0)
      try await store.damage("DELETE FROM commits WHERE sequence = 3")
      let error = await #expect(throws: StoreError.self) { try await store.load() }
      expectAdvice(error, mentions: "commit 3", "backup")
      #expect(throws: StoreError.self) { try store.append([], after: 1) }
    }
  }

  @Test func `each commit is passed on before the next one is read`() async throws {
    try await folder.withStore { store in
      try store.append(try (1...9).map { try commit($0, "n", Node($0)) }, after: 0)
      // From the last to the first, so that all commits after the damaged one are damaged as well.
      for damaged in (1...9).reversed() as ReversedCollection<ClosedRange<Int64>> {
        try await store.damage("UPDATE commits SET body = '[' WHERE sequence = ?", [damaged])
        try await store.pool.read { db in
          var handedOn: [Int64] = []
          #expect(throws: StoreError.self) {
            try SQLiteStore.forEachCommit(db, after: 0) { handedOn.append($0.sequence) }
          }
          #expect(handedOn == Array(1..<damaged))
        }
      }
    }
  }

  @Test(
    arguments: [
      "", "[", "[[[\"n\"],1]", "[[[\"n\"],]]", "{}", "[[[\"n$\"],1]]", "[[[\"n\"],1]] x",
      "[[[\"n\"],{\".sv\":\"timestamp\"}]]", "[[[\"n\"],1e999]]",
    ])
  func `the error of an unreadable commit has its number`(body: String) async throws {
    try await folder.withStore { store in
      try store.append(try (1...3).map { try commit($0, "n", Node($0)) }, after: 0)
      try await store.damage("UPDATE commits SET body = ? WHERE sequence = 2", [body])
      let error = await #expect(throws: StoreError.self) { try await store.load() }
      expectAdvice(error, mentions: "commit 2", "backup")
      #expect(try await store.problems().count == 1)
    }
  }

  @Test(
    arguments: [
      ("n", ""), ("n", "{"), ("n", "1 2"), ("n", "NaN"), ("a$b", "1"), ("a//b", "1"),
      ("m/x", "1"),
    ])
  func `an invalid row of the checkpoint is refused`(
    path: String, value: String
  ) async throws {
    try await folder.withStore { store in
      try store.append([commit(1, "m", 1)], after: 0)
      try await store.checkpoint(json(#"{"m":1}"#), through: 1)
      try await store.damage("INSERT INTO leaves(path, value) VALUES(?, ?)", [path, value])
      #expect(try await !store.problems().isEmpty)
    }
  }
}

extension SQLiteStore {
  /// Returns the number of rows that the writer has changed since the store was opened.
  func totalChanges() async throws -> Int {
    try await pool.writeWithoutTransaction { $0.totalChangesCount }
  }
}
