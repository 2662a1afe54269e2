import CanopyEngine
import CanopyTesting
import CanopyTree
import Foundation
import GRDB
import Synchronization
import Testing

@testable import CanopySQLite

/// The work of one background step, which holds the writer, whatever the sizes.
@Suite(.timeLimit(.minutes(5))) struct StepTests {
  let folder: Folder

  init() throws {
    folder = try Folder()
  }

  /// Measures the write-ahead log between steps: all bytes that a step wrote are in it.
  private final class Log: Sendable {
    private let state = Mutex<(last: Int, steps: [Int])>((0, []))
    private let path: String

    init(_ folder: Folder) {
      path = folder.database + "-wal"
    }

    private var bytes: Int {
      (try? FileManager.default.attributesOfItem(atPath: path))?[.size] as? Int ?? 0
    }

    /// Begins anew.
    func reset() {
      state.withLock { $0 = (bytes, []) }
    }

    func note() {
      state.withLock { state in
        state.steps.append(bytes - state.last)
        state.last = bytes
      }
    }

    /// The bytes that each step wrote.
    var steps: [Int] { state.withLock { $0.steps } }
  }

  private func configuration(_ log: Log) -> SQLiteStore.Configuration {
    var configuration = SQLiteStore.Configuration()
    configuration.retainedCommits = 1
    configuration.durability = .relaxed
    configuration.afterStep = { log.note() }
    // By bytes alone, so that the number of steps is always the same.
    configuration.uptime = { 0 }
    return configuration
  }

  /// A page for each row that is changed somewhere, and those above it.
  private static let slack = 64 * 4_120

  @Test func `commits are dropped by their bytes, not by their number`() async throws {
    let log = Log(folder)
    try await folder.withStore(configuration(log)) { store in
      try await store.pool.writeWithoutTransaction {
        try $0.execute(sql: "PRAGMA wal_autocheckpoint = 0")
      }
      let text = String(repeating: "x", count: 300_000)
      for number in 1...20 as ClosedRange<Int64> {
        try store.append([commit(number, "n", Node("\(number)" + text))], after: number - 1)
      }
      let root = try await store.tree().root
      log.reset()
      try await store.checkpoint(root, through: 20)
      #expect(try await store.commits(after: 0, through: 20).map(\.sequence) == [20])
      #expect(try #require(log.steps.max()) < 300_000 + 256 * 1_024 + Self.slack)
      #expect(log.steps.count >= 19)
    }
  }

  @Test func `a row whose branch has grown is split, and the rest is folded in steps`() async throws
  {
    let log = Log(folder)
    try await folder.withStore(configuration(log)) { store in
      try store.append([commit(1, "list/0", "the first")], after: 0)
      try await store.checkpoint(json(#"{"list":{"0":"the first"}}"#), through: 1)
      #expect(try await store.leaves() == ["list/0": #""the first""#])
      // Two commits make a row of it, which the third one has outgrown by far.
      try store.append(
        [commit(2, "list", json(#"{".priority":5,"0":"a","1":"b"}"#))], after: 1)
      try await store.checkpoint(try await store.tree().root, through: 2)
      #expect(try await store.leaves().keys.sorted() == ["list"])
      let text = Node(String(repeating: "x", count: 500))
      let more = try (1...5_000).map {
        Assignment(try Path("list/n\($0)"), text)
      }.sorted { $0.location < $1.location }
      try store.append([Commit(sequence: 3, time: 0, assignments: more)], after: 2)
      let root = try await store.tree().root
      log.reset()
      try await store.checkpoint(root, through: 3)
      #expect(try await store.checkpointRoot() == root)
      #expect(root.child("list").priority == 5)
      #expect(try await store.leaves().count == 5_003)
      // 2.5 MB in steps of a quarter.
      #expect(log.steps.count > 9)
      #expect(try #require(log.steps.max()) < 2 * 256 * 1_024 + Self.slack)
      #expect(try await store.problems().isEmpty)
    }
  }

  @Test(arguments: [#"{".value":7,".priority":"p"}"#, "7"])
  func `a leaf that became a large branch keeps its priority after a crash at any step`(
    leaf: String
  ) async throws {
    let crashes = Crashes()
    let expected = try await folder.withStore(crashes.configuration(of: folder)) { store in
      try await withEngine(store) { engine in
        _ = try await engine.transact { _ in
          Decision(try .set(Location("a/b"), WriteValue(json(leaf))), ())
        }
        let snapshot = engine.snapshot
        let (first, one) = (snapshot.root, snapshot.sequence)
        try await store.checkpoint(first, through: one)
        let text = Node(String(repeating: "x", count: 5_000))
        for key in ["x/y", "x/z", "w", "v"] {
          _ = try await engine.transact { _ in
            Decision(try .set(Location("a/b/" + key), WriteValue(text)), ())
          }
        }
        let nextSnapshot = engine.snapshot
        let (next, last) = (nextSnapshot.root, nextSnapshot.sequence)
        try await store.checkpoint(next, through: last)
        return next
      }
    }
    #expect(expected.at(try Path("a/b")).priority == json(leaf).priority)
    #expect(crashes.folders.count > 8)
    for (index, crashed) in crashes.folders.enumerated() {
      try await crashed.withStore { store in
        let root = try await store.tree().root
        if root.at(try Path("a/b")).isBranch { #expect(root == expected, "step \(index)") }
        #expect(try await store.problems().isEmpty)
      }
    }
  }

  @Test func `a large subtree is removed and replaced in steps of bounded bytes`() async throws {
    let log = Log(folder)
    var configuration = configuration(log)
    // The commit is one large row.
    configuration.retainedCommits = 10
    try await folder.withStore(configuration) { store in
      let text = Node(String(repeating: "x", count: 6_000))
      let many = Node(children: (0..<600).map { (Key(index: $0), text) })
      try store.append([commit(1, "a", many)], after: 0)
      log.reset()
      try await store.checkpoint(try await store.tree().root, through: 1)
      #expect(log.steps.count > 12)
      // Whole pages are written, also of those that are emptied.
      #expect(try #require(log.steps.max()) < 4 * 256 * 1_024, "\(log.steps)")
      try store.append([commit(2, "a", 1)], after: 1)
      log.reset()
      try await store.checkpoint(try await store.tree().root, through: 2)
      #expect(log.steps.count > 12)
      // Whole pages are written, also of those that are emptied.
      #expect(try #require(log.steps.max()) < 4 * 256 * 1_024, "\(log.steps)")
      #expect(try await store.leaves() == ["a": "1"])
    }
  }

  @Test func `a step ends when its time is over, after one row at least`() async throws {
    let steps = Steps()
    let clock = Mutex(0.0)
    var configuration = SQLiteStore.Configuration()
    configuration.checkpointStepSeconds = 1
    configuration.afterStep = { _ = steps.next() }
    // Each look at the clock finds that half of the time has passed.
    configuration.uptime = {
      clock.withLock {
        $0 += 0.5
        return $0
      }
    }
    try await folder.withStore(configuration) { store in
      let text = Node(String(repeating: "x", count: 9_000))
      let many = Node(children: (0..<40).map { (Key(index: $0), text) })
      try store.append([commit(1, "a", many)], after: 0)
      try await store.checkpoint(try await store.tree().root, through: 1)
      #expect(try await store.checkpointRoot() == (try await store.tree().root))
    }
    #expect(steps.next() > 20)
  }

  @Test func `writes of clients are forgotten a few at a time`() async throws {
    let steps = Steps()
    var configuration = SQLiteStore.Configuration()
    configuration.checkpointStepRows = 10
    configuration.afterStep = { _ = steps.next() }
    try await folder.withStore(configuration) { store in
      let month = SQLiteStore.clientMilliseconds
      for number in 1...35 as ClosedRange<Int64> {
        var commit = try commit(number, "n", Node(number))
        commit.time = number > 32 ? month * 2 : 5
        commit.origin = try WriteOrigin(client: "c\(number % 4)", number: number, seen: 0)
        try store.append([commit], after: number - 1)
      }
      try await store.forgetClientWrites {}
      #expect(try await store.number("SELECT count(*) FROM client_writes") == 3)
      #expect(try await store.number("SELECT min(sequence) FROM client_writes") == 33)
    }
    #expect(steps.next() == 5, "32 in tens, and this look")
  }
}
