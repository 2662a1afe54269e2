import CanopyEngine
import CanopyTesting
import CanopyTree
import Dispatch
import Foundation
import GRDB
import Synchronization
import Testing

@testable import CanopySQLite

/// The bound on the work of one background step, which occupies the writer.
@Suite(.timeLimit(.minutes(20))) struct StepTests {
  let folder: Folder

  init() throws {
    folder = try Folder()
  }

  /// The size of the write-ahead log after each step. The log has all bytes that a step wrote.
  private final class Log: Sendable {
    private let state = Mutex<(last: Int, steps: [Int])>((0, []))
    private let path: String

    init(_ folder: Folder) {
      path = folder.database + "-wal"
    }

    private var bytes: Int {
      (try? FileManager.default.attributesOfItem(atPath: path))?[.size] as? Int ?? 0
    }

    /// Forgets the steps so far.
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
    // Only the bytes limit a step, so that the number of steps is always the same.
    configuration.uptime = { 0 }
    return configuration
  }

  /// The bytes of the pages that steps change in addition: one for each row, and the inner pages.
  private static let slack = 64 * 4_120

  @Test func `the bytes of commits limit their removal in a step`() async throws {
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
      #expect(try await store.wholeHistory(through: 20).map(\.sequence) == [20])
      #expect(try #require(log.steps.max()) < 300_000 + 256 * 1_024 + Self.slack)
      #expect(log.steps.count >= 19)
    }
  }

  @Test func `the removal of a large commit does not write its pages`() async throws {
    let log = Log(folder)
    var kept = configuration(log)
    kept.retainedCommits = 100
    try await folder.withStore(kept) { store in
      let text = String(repeating: "x", count: 900_000)
      for number in 1...5 as ClosedRange<Int64> {
        try store.append([commit(number, "n", Node("\(number)" + text))], after: number - 1)
      }
      try await store.checkpoint(try await store.tree().root, through: 5)
    }
    try await folder.withStore(configuration(log)) { store in
      try store.append([commit(6, "n", 6)], after: 5)
      log.reset()
      try await store.dropCommits(upTo: 5) {}
      #expect(try await store.wholeHistory(through: 6).map(\.sequence) == [6])
      #expect(log.steps.count == 5)
      // An overwritten commit would need 220 pages.
      #expect(try #require(log.steps.max()) < 20 * 4_120, "\(log.steps)")
    }
  }

  @Test func `the bytes of steps are synchronized before they exceed the limit`() async throws {
    var configuration = SQLiteStore.Configuration()
    configuration.unsyncedBytesMax = 100_000
    let unsyncedMax = Mutex(0)
    let opened = Opened()
    configuration.afterStep = {
      let bytes = opened.store?.logCopier?.unsyncedBytes ?? 0
      unsyncedMax.withLock { $0 = max($0, bytes) }
    }
    try await folder.withStore(configuration) { store in
      opened.store = store
      defer { opened.store = nil }
      let text = Node(String(repeating: "x", count: 9_000))
      let many = Node(children: (0..<200).map { (Key(index: $0), text) })
      try store.append([commit(1, "a", many)], after: 0)
      try await store.checkpoint(try await store.tree().root, through: 1)
      let copier = try #require(store.logCopier)
      #expect(unsyncedMax.withLock { $0 } < 100_000)
      // A step below the limit stays unsynchronized, and the next append synchronizes it.
      copier.noteSynced()
      try await store.step { db, _ in
        try db.execute(sql: "INSERT OR REPLACE INTO meta(name, value) VALUES ('settled', 7)")
      }
      #expect(copier.unsyncedBytes > 0 && copier.unsyncedBytes < 20_000)
      try store.append([commit(2, "b", 1)], after: 1)
      #expect(copier.unsyncedBytes == 0)
    }
  }

  @Test func `no step begins while the log is copied`() async throws {
    let opened = Opened()
    let during = Steps()
    var configuration = SQLiteStore.Configuration()
    configuration.durability = .relaxed
    configuration.logFramesMax = 20
    // A step reads the clock when it begins.
    configuration.uptime = {
      if opened.store?.logCopier?.isCopying == true { _ = during.next() }
      return 0
    }
    try await folder.withStore(configuration) { store in
      opened.store = store
      defer { opened.store = nil }
      let copier = try #require(store.logCopier)
      let gate = DispatchSemaphore(value: 0)
      copier.queue.async { gate.wait() }
      for number in 1...50 as ClosedRange<Int64> {
        try store.append([commit(number, "n/\(number)", Node(number))], after: number - 1)
      }
      #expect(copier.isCopying)
      let root = try await store.tree().root
      let checkpoint = Task { try await store.checkpoint(root, through: 50) }
      for _ in 0..<1_000 { await Task.yield() }
      gate.signal()
      try await checkpoint.value
      #expect(during.next() == 1, "only this call")
      #expect(try await store.checkpointRoot() == root)
    }
  }

  /// The store of a test, for the hooks in its configuration.
  private final class Opened: Sendable {
    private let state = Mutex<SQLiteStore?>(nil)

    var store: SQLiteStore? {
      get { state.withLock { $0 } }
      set { state.withLock { $0 = newValue } }
    }
  }

  @Test func `a row whose branch has grown is split, and the other rows are written in steps`()
    async throws
  {
    let log = Log(folder)
    try await folder.withStore(configuration(log)) { store in
      try store.append([commit(1, "list/0", "the first")], after: 0)
      try await store.checkpoint(json(#"{"list":{"0":"the first"}}"#), through: 1)
      #expect(try await store.leaves() == ["list/0": #""the first""#])
      // The first two commits give one row. The third makes it much too large.
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
    // The commit is one large row, so it is kept.
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

  @Test func `a step ends after its time, but writes at least one row`() async throws {
    let steps = Steps()
    let clock = Mutex(0.0)
    var configuration = SQLiteStore.Configuration()
    configuration.checkpointStepSeconds = 1
    configuration.afterStep = { _ = steps.next() }
    // At each reading of the clock, half of the time has passed.
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

  @Test func `writes of clients are removed in steps`() async throws {
    let steps = Steps()
    var configuration = SQLiteStore.Configuration()
    configuration.checkpointStepRows = 10
    // No time passes, so rows alone end a step.
    configuration.uptime = { 0 }
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
