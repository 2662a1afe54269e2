import CanopyEngine
import CanopyTesting
import CanopyTree
import GRDB
import Synchronization
import Testing

@testable import CanopySQLite

/// Errors of SQLite at each statement of an operation.
@Suite(.timeLimit(.minutes(20))) struct FaultTests {
  /// Makes one statement of the writing connection fail.
  private final class Fault: Sendable {
    private let statements = Steps()

    init(at number: Int, in store: SQLiteStore) async throws {
      let (pool, statements) = (store.pool, statements)
      try await pool.writeWithoutTransaction { db in
        db.trace { _ in if statements.next() == number { pool.interrupt() } }
      }
    }

    /// Ends the tracing. Returns the number of statements that were executed.
    func end(_ store: SQLiteStore) async throws -> Int {
      try await store.pool.writeWithoutTransaction { $0.trace(options: []) }
      return statements.next() - 1
    }
  }

  /// An observer that makes one transaction of a connection fail when it commits.
  private final class FailingCommit: TransactionObserver, Sendable {
    struct Planned: Error {}
    private let left: Mutex<Int>

    /// Creates an observer that fails at the commit with the given number, from 1.
    init(_ number: Int) {
      left = Mutex(number)
    }

    var hasFailed: Bool { left.withLock { $0 <= 0 } }

    func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { true }
    func databaseDidChange(with event: DatabaseEvent) {}
    func databaseDidCommit(_ db: Database) {}
    func databaseDidRollback(_ db: Database) {}

    func databaseWillCommit() throws {
      let isNow = left.withLock {
        $0 -= 1
        return $0 == 0
      }
      if isNow { throw Planned() }
    }
  }

  private let big = Node(
    children: (0..<30).map { (Key(index: $0), Node(String(repeating: "b", count: 400))) })

  private func fill(_ store: SQLiteStore) async throws -> (root: Node, sequence: Int64) {
    for (number, write) in [("a", big), ("b", 1), ("c", 2), ("a/3", 7), ("b", .absent)].enumerated()
    {
      var commit = try commit(Int64(number) + 1, write.0, write.1)
      commit.origin = try WriteOrigin(client: "c", number: Int64(number) + 1, seen: 0)
      try store.append([commit], after: Int64(number))
    }
    return try await store.tree()
  }

  private var configuration: SQLiteStore.Configuration {
    var configuration = SQLiteStore.Configuration()
    configuration.checkpointStepRows = 10
    configuration.retainedCommits = 2
    return configuration
  }

  private func checkDurability(_ store: SQLiteStore) async throws {
    let synchronous = try await store.pool.writeWithoutTransaction {
      try Int.fetchOne($0, sql: "PRAGMA synchronous")
    }
    #expect(synchronous == 2)
    #expect(!store.isUnsynced.withLock { $0 })
  }

  /// Fills a store and runs a checkpoint. Returns whether it failed.
  private func checkpoint(_ store: SQLiteStore, after arm: () async throws -> Void) async throws
    -> Bool
  {
    let tree = try await fill(store)
    try await arm()
    var isFailed = false
    do { try await store.checkpoint(tree.root, through: tree.sequence) } catch { isFailed = true }
    return isFailed
  }

  /// Checks that an append is durable, and that the next checkpoint succeeds.
  private func goOn(_ store: SQLiteStore) async throws {
    let before = try await store.tree()
    try store.append([commit(before.sequence + 1, "z", 1)], after: before.sequence)
    try await checkDurability(store)
    let (root, sequence) = try await store.tree()
    try await store.checkpoint(root, through: sequence)
    #expect(try await store.checkpointRoot() == root)
    #expect(try await store.problems().isEmpty)
  }

  @Test func `after an error in any statement of a checkpoint, appends are durable`()
    async throws
  {
    var random = SeededGenerator(printingSeedFor: "FaultTests.statements")
    var (failures, number, isOver) = (0, 0, false)
    while !isOver {
      // Every statement is tried in time, and the first ones each time.
      number += number < 10 ? 1 : Int.random(in: 1...4, using: &random)
      let (folder, fault) = (try Folder(), number)
      let isFailed = try await folder.withStore(configuration) { store in
        let armed = Mutex<Fault?>(nil)
        let isFailed = try await checkpoint(store) {
          let fault = try await Fault(at: fault, in: store)
          armed.withLock { $0 = fault }
        }
        isOver = try await (armed.withLock { $0 }?.end(store) ?? 0) < fault
        try await goOn(store)
        return isFailed
      }
      if isFailed { failures += 1 }
    }
    print("statements of a checkpoint: \(number - 1), that failed: \(failures)")
    #expect(failures > 10)
  }

  @Test
  func
    `after any transaction of a checkpoint that could not be committed, appends wait for the disk`()
    async throws
  {
    var (failures, isOver) = (0, false)
    while !isOver {
      let (folder, observer) = (try Folder(), FailingCommit(failures + 1))
      try await folder.withStore(configuration) { store in
        let isFailed = try await checkpoint(store) {
          store.pool.add(transactionObserver: observer)
        }
        store.pool.remove(transactionObserver: observer)
        #expect(isFailed == observer.hasFailed)
        isOver = !isFailed
        try await goOn(store)
      }
      failures += 1
    }
    #expect(failures > 5)
  }

  @Test func `an append that fails at any statement is stored completely or not at all`()
    async throws
  {
    var (failures, number, isOver) = (0, 0, false)
    while !isOver {
      number += 1
      let (folder, fault) = (try Folder(), number)
      try await folder.withStore(configuration) { store in
        let (_, last) = try await fill(store)
        var commits = [try commit(last + 1, "x", 1), try commit(last + 2, "y", 2)]
        commits[0].origin = try WriteOrigin(client: "c", number: 9, seen: 3)
        commits[1].keyTime = 5_000_000
        let armed = try await Fault(at: fault, in: store)
        var isFailed = false
        do { try store.append(commits, after: last) } catch { isFailed = true }
        isOver = try await armed.end(store) < fault
        let stored = try store.resolveAppend(after: last)
        #expect(stored.count == 0 || stored.count == 2)
        if !isFailed { #expect(stored.count == 2) } else { failures += 1 }
        if stored.isEmpty { try store.append(commits, after: last) }
        #expect(try await store.load().lastTime == 5_000_000)
        #expect(store.tail.withLock { $0.sequence } == last + 2)
        try await goOn(store)
      }
      // The next start finds the commits that canopy.tail requires.
      #expect(try await folder.withStore(configuration) { try await $0.tree().sequence } >= 8)
    }
    print("statements of an append: \(number - 1), that failed: \(failures)")
    #expect(failures > 3)
  }
}
