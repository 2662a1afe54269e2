import CanopyEngine
import CanopyTesting
import CanopyTree
import Foundation
import GRDB
import Logging
import Synchronization
import Testing

@testable import CanopySQLite

/// Reading earlier commits from the store.
@Suite(.timeLimit(.minutes(20))) struct HistoryTests {
  let folder: Folder

  init() throws {
    folder = try Folder()
  }

  @Test func `commits have their before-images, also after a restart`() async throws {
    let random = SeededGenerator(printingSeedFor: "HistoryTests.images")
    let folder = folder
    let before = try await folder.withStore { store in
      try await store.makeRandomCommits(200, random)
      let commits = try await store.wholeHistory()
      #expect(commits.map(\.sequence) == Array(1...200))
      try checkBeforeImages(of: commits)
      return commits
    }
    let crashed = try await folder.withStore { store in
      #expect(try await store.wholeHistory(through: 200) == before)
      let (root, sequence) = try await store.tree()
      try await store.checkpoint(root, through: sequence)
      #expect(try await store.wholeHistory(through: 200) == before, "folded or not")
      return try folder.crashed()
    }
    try await crashed.withStore { store async throws in
      #expect(try await store.wholeHistory(through: 200) == before)
      #expect(try await store.problems().isEmpty)
    }
  }

  @Test func `a page ends at a commit that cannot be read, and reads only the requested images`()
    async throws
  {
    try await folder.withStore { store in
      try store.append(try (1...7).map { try commit($0, "n", Node($0)) }, after: 0)
      try store.append(try (8...10).map { try commit($0, "a/b", Node($0)) }, after: 7)
      try await store.damage("UPDATE commits SET before = '[1' WHERE sequence <= 6")
      let place = try Path("a")
      func page(_ first: Int64, _ last: Int64) async throws -> HistoryPage {
        try await store.history(after: first, through: last) { locations in
          locations.contains { $0.path.hasPrefix(place) }
        }
      }
      #expect(try await page(0, 10).read == 1...10)
      // The history ends at a before-image that cannot be read.
      #expect(try await store.history(after: 0, through: 3) { _ in true }.read == nil)
      try await store.damage("DELETE FROM commits WHERE sequence = 9")
      // The predecessor of commit 10 is missing, so its checksum cannot be checked.
      #expect(try await page(0, 10).read == nil)
    }
  }

  @Test func `a file of the first schema is opened, and its commits have no before-images`()
    async throws
  {
    let queue = try DatabaseQueue(path: folder.database)
    try Schema.migrator.migrate(queue, upTo: "1")
    try await queue.write { db in
      for sequence in 1...6 {
        try db.execute(
          sql: "INSERT INTO commits VALUES (?, ?, ?)",
          arguments: [sequence, 1_000 + sequence, "[[[\"a/n\(sequence % 3)\"],\(sequence)]]"])
      }
      try db.execute(sql: "INSERT INTO leaves VALUES ('a', '{\"n1\":1,\"n2\":2}')")
      try db.execute(sql: "UPDATE meta SET value = 2 WHERE name = 'checkpoint'")
    }
    try queue.close()
    for run in 0..<2 {
      try await folder.withStore { store async throws in
        #expect(try await store.problems().isEmpty)
        #expect(try await store.disconnectWrites().isEmpty)
        let commits = try await store.wholeHistory(through: 6)
        #expect(commits.map(\.sequence) == Array(1...6))
        #expect(commits.allSatisfy { $0.beforeImage == nil })
        #expect(
          commits.map { $0.assignments.map(\.location.text) }
            == (1...6).map { ["a/n\($0 % 3)"] })
        try await withEngine(store) { engine in
          let place = Path.root.child("a")
          for (form, isExact) in [(EventForm.child, false), (.value, false), (.sync, true)] {
            let start = await engine.start(Listening(place, form: form))
            // All were made by the older program or before this run.
            #expect(try await (engine.changes(since: 3, to: start) != nil) == isExact)
            let newest = try await engine.changes(since: start.sequence, to: start)
            #expect(newest == [])
          }
          let start = await engine.start(Listening(place, form: .sync))
          if run == 0 {
            #expect(
              try await engine.changes(since: 4, to: start)
                == [
                  .put([
                    Assignment(try Path("n0"), 6), Assignment(try Path("n2"), 5),
                  ])
                ])
            _ = try await engine.transact { _ in
              Decision(try .set(Location("a/n0"), WriteValue(7)), ())
            }
          }
          // Later commits have before-images.
          let child = await engine.start(Listening(place, form: .value))
          let changes = try await engine.changes(since: 6, to: child)
          #expect(changes?.count == 1)
        }
      }
    }
  }

  @Test func `a listener cannot resume across an import`() async throws {
    try await folder.withStore { store in
      let replicas = EventForm.allCases.map { Replica(Listening(.root, form: $0)) }
      try await withEngine(store) { engine in
        _ = try await engine.transact { _ in
          Decision(try .set(Location("a"), WriteValue(1)), ())
        }
        for replica in replicas { _ = await replica.start(engine) }
      }
      try await store.replace(Path("b"), with: 2) { _ in }
      #expect(try await store.wholeHistory().isEmpty)
      try await withEngine(store) { engine in
        for replica in replicas {
          #expect(try #require(try await replica.resume(engine)).isAnew)
          #expect(replica.problem(engine.root) == nil)
        }
        _ = try await engine.transact { _ in
          Decision(try .set(Location("c"), WriteValue(3)), ())
        }
        for replica in replicas {
          #expect(replica.problem(engine.root) == nil)
          #expect(try #require(try await replica.resume(engine)).isAnew == false)
        }
      }
      #expect(try await store.wholeHistory().map(\.sequence) == [3])
    }
  }

  @Test(arguments: [
    "DELETE FROM commits WHERE sequence = 3",
    "UPDATE commits SET body = '[[[\"n\"],8]]' WHERE sequence = 3",
    "UPDATE commits SET checksum = 0 WHERE sequence = 3",
  ])
  func `from before a damaged commit that the checkpoint has, a listener gets the present state`(
    sql: String
  ) async throws {
    try await folder.withStore { store in
      try await withEngine(store) { engine in
        for i in 1...8 {
          _ = try await engine.transact { _ in
            Decision(try .set(Location("n"), WriteValue(Node(Int64(i)))), ())
          }
        }
      }
      try await store.checkpoint(try await store.tree().root, through: 6)
      try await store.damage(sql, isSealed: false)
    }
    try await folder.withStore { store in
      try await withEngine(store) { engine in
        let start = await engine.start(Listening(.root, form: .value))
        for since in 0..<3 as Range<Int64> {
          let changes = try await engine.changes(since: since, to: start)
          #expect(changes == nil, "\(since)")
        }
        for since in 4...7 as ClosedRange<Int64> {
          let changes = try await engine.changes(since: since, to: start)
          #expect(changes?.count == 1, "\(since)")
        }
      }
      #expect(try await !store.problems().isEmpty)
    }
  }

  @Test func `the history ends at an unreadable before-image, with a warning`() async throws {
    let lines = Mutex<[String]>([])
    var configuration = SQLiteStore.Configuration()
    configuration.logger = Logger(label: "test") { _ in
      LogLines { line in lines.withLock { $0.append(line) } }
    }
    try await folder.withStore(configuration) { store in
      try await withEngine(store) { engine in
        for i in 1...3 {
          _ = try await engine.transact { _ in
            Decision(try .set(Location("n"), WriteValue(Node(Int64(i)))), ())
          }
        }
      }
      try await store.damage("UPDATE commits SET before = '[1' WHERE sequence = 2")
      #expect(try await store.wholeHistory(through: 3).map(\.sequence) == [3])
      #expect(
        lines.withLock { $0 }.contains { $0.hasPrefix("the history ends at a damaged commit") })
      #expect(try await store.wholeHistory(after: 2, through: 3).count == 1)
      // Only resuming needs the before-image.
      #expect(try await store.tree().root == json(#"{"n":3}"#))
    }
  }
}

extension Engine {
  /// Returns the current sequence number, from which a listener would resume.
  fileprivate func start(_ listening: Listening) async -> ListenStart {
    let (id, start) = await withCheckedContinuation { continuation in
      listen(listening) { _ in
      } started: {
        continuation.resume(returning: ($0, $1))
      }
    }
    if let id { unlisten(id) }
    return start
  }
}
