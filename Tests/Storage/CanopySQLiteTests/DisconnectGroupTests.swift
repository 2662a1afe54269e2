import CanopyEngine
import CanopyRows
import CanopyTesting
import Dispatch
import GRDB
import Testing

@testable import CanopySQLite

/// Changes of on-disconnect writes that wait for the writer together.
@Suite(.timeLimit(.minutes(20))) struct DisconnectGroupTests {
  private func add(_ store: SQLiteStore, _ request: String) async throws -> DisconnectWriteID? {
    try await store.changeDisconnectWrites(
      adding: ("administrator", request), exceptions: [:], removing: [])
  }

  /// Makes some changes while the writer is held, and returns the results and the number of transactions.
  private func changes(
    _ requests: [String], _ store: SQLiteStore
  ) async -> (results: [Result<DisconnectWriteID?, any Error>], transactions: Int) {
    let transactions = Steps()
    let hold = DispatchSemaphore(value: 0)
    store.pool.asyncWriteWithoutTransaction { db in
      hold.wait()
      db.trace { if "\($0)".hasPrefix("COMMIT") { _ = transactions.next() } }
    }
    var tasks: [Task<DisconnectWriteID?, any Error>] = []
    for (i, request) in requests.enumerated() {
      tasks.append(Task { try await add(store, request) })
      // The first is taken at once, and waits for the writer.
      while store.disconnectChanges.state != (true, i) {
        await Task.yield()
      }
    }
    hold.signal()
    var results: [Result<DisconnectWriteID?, any Error>] = []
    for task in tasks { results.append(await task.result) }
    return (results, transactions.next() - 1)
  }

  @Test func `changes that wait together are one transaction, with ids in their order`()
    async throws
  {
    try await Folder().withStore { store async throws in
      let requests = (0..<100).map { "SET /a \($0)" }
      let (results, transactions) = await changes(requests, store)
      #expect(transactions <= 2, "the first, and all that waited behind it")
      #expect(try results.map { try $0.get() } == (1...100).map { $0 })
      #expect(try await store.disconnectWrites().map(\.request) == requests)
      #expect(try await store.problems().isEmpty)
    }
  }

  @Test func `a change that fails leaves the others of its transaction`() async throws {
    try await Folder().withStore { store async throws in
      try await store.damage(
        """
        CREATE TRIGGER no BEFORE INSERT ON disconnect_writes WHEN NEW.request = 'bad'
        BEGIN SELECT RAISE(ABORT, 'no'); END
        """)
      let (results, _) = await changes(["a", "b", "bad", "c"], store)
      #expect(results.map { (try? $0.get()) != nil } == [true, true, false, true])
      #expect(try await store.disconnectWrites().map(\.request) == ["a", "b", "c"])
      #expect(try await store.problems().isEmpty)
    }
  }

  @Test func `an error that ends the transaction fails all of its changes`() async throws {
    try await Folder().withStore { store async throws in
      try await store.damage(
        """
        CREATE TRIGGER no BEFORE INSERT ON disconnect_writes WHEN NEW.request = 'bad'
        BEGIN SELECT RAISE(ROLLBACK, 'no'); END
        """)
      let (results, _) = await changes(["a", "b", "bad", "c"], store)
      #expect(results.map { (try? $0.get()) != nil } == [true, false, false, false])
      #expect(try await store.disconnectWrites().map(\.request) == ["a"])
      _ = try await add(store, "d")
      #expect(try await store.disconnectWrites().map(\.request) == ["a", "d"])
    }
  }

  @Test func `a group ends at its bounds`() {
    func groups(_ bytes: [Int]) -> [Int] {
      var queue = DisconnectChangeQueue<Int>()
      for (i, count) in bytes.enumerated() {
        let text = String(repeating: "x", count: count)
        let change = DisconnectChange(added: ("", text), group: nil, exceptions: [:], removed: [])
        #expect(queue.add(change, i) == (i == 0))
      }
      var groups: [Int] = []
      while let group = queue.takeGroup() { groups.append(group.count) }
      #expect(!queue.isBeingMade && queue.count == 0)
      return groups
    }
    #expect(groups([]) == [])
    #expect(groups([Int](repeating: 1, count: 256)) == [256])
    #expect(groups([Int](repeating: 1, count: 257)) == [256, 1])
    #expect(groups([262_143, 1, 1]) == [2, 1])
    #expect(groups([262_144, 1, 1]) == [1, 2])
    #expect(groups([1_000_000, 1_000_000]) == [1, 1])
  }
}
