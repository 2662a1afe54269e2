import CanopyEngine
import CanopyRows
import CanopyTesting
import CanopyTree
import GRDB
import Synchronization
import Testing

@testable import CanopySQLite

/// The bound on the stored writes that clients may send again.
struct ClientWriteBoundTests {
  let folder: Folder

  init() throws {
    folder = try Folder()
  }

  private func configuration(keeping rows: Int) -> SQLiteStore.Configuration {
    var configuration = SQLiteStore.Configuration()
    configuration.clientWritesMax = rows
    return configuration
  }

  private func write(_ sequence: Int64, by client: String, of owner: String?) throws -> Commit {
    var commit = try commit(sequence, "n", Node(sequence))
    commit.origin = try WriteOrigin(client: client, number: sequence, seen: 0)
    commit.origin?.owner = owner
    return commit
  }

  /// Stores a write of each owner, in this order; nil is a row of an earlier version.
  private func fill(_ store: SQLiteStore, _ owners: [String?]) throws {
    for (index, owner) in owners.enumerated() {
      let sequence = Int64(index) + 1
      // Names that sort in another order than the numbers.
      let client = owner == nil ? "old" : "name-\((index * 7) % owners.count)"
      try store.append([write(sequence, by: client, of: owner)], after: sequence - 1)
    }
  }

  private func read(_ store: SQLiteStore) async throws -> [Int64] {
    try await store.load().clientWrites.map(\.sequence)
  }

  private func rows(_ store: SQLiteStore) async throws -> [Int64] {
    try await store.pool.read {
      try Int64.fetchAll($0, sql: "SELECT sequence FROM client_writes ORDER BY sequence")
    }
  }

  private static let owners =
    ["bob", nil, "ada", "ada", "ada", "ada-b", "ada", ".anonymous", "ada", "ada"] as [String?]

  @Test(
    arguments: [
      (10, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]), (9, [1, 2, 4, 5, 6, 7, 8, 9, 10]),
      (7, [1, 2, 6, 7, 8, 9, 10]), (5, [1, 2, 6, 8, 10]), (3, [6, 8, 10]), (1, [10]),
    ] as [(Int, [Int64])])
  func `a start reads the newest writes of each owner, and a checkpoint removes the others`(
    rowsMax: Int, kept: [Int64]
  ) async throws {
    try await folder.withStore { try fill($0, Self.owners) }
    try await folder.withStore(configuration(keeping: rowsMax)) { store in
      #expect(try await read(store) == kept)
      #expect(try await rows(store).count == 10)
      try await store.checkpoint(try await store.tree().root, through: 10)
      #expect(try await rows(store) == kept)
      #expect(try await read(store) == kept)
      #expect(try await store.problems().isEmpty)
    }
  }

  @Test func `the rows are removed in steps of bounded rows and time, by their keys`() async throws
  {
    let steps = Mutex<[Int]>([])
    let deleted = Mutex(0)
    let clock = Mutex(0.0)
    var configuration = configuration(keeping: 5)
    configuration.checkpointStepRows = 10
    configuration.afterStep = {
      let count = deleted.withLock { count in
        defer { count = 0 }
        return count
      }
      steps.withLock { $0.append(count) }
    }
    // A step ends at the time after which it has removed three rows.
    configuration.uptime = { clock.withLock { $0 } }
    try await folder.withStore(configuration) { store in
      try fill(store, Array(repeating: "eve", count: 35))
      try await store.pool.writeWithoutTransaction { db in
        db.trace { event in
          guard "\(event)".hasPrefix("DELETE FROM client_writes") else { return }
          deleted.withLock { $0 += 1 }
          clock.withLock { $0 += 0.001 }
        }
      }
      try await store.forgetClientWrites {}
      try await store.pool.writeWithoutTransaction { $0.trace(options: []) }
      #expect(try await rows(store) == [31, 32, 33, 34, 35])
    }
    let counts = steps.withLock { $0 }
    #expect(counts.reduce(0, +) == 30)
    #expect(counts.allSatisfy { 1...4 ~= $0 }, "\(counts)")
  }

  @Test func `a client whose row is gone is unknown, and one whose row is there is recognised`()
    async throws
  {
    try await folder.withStore { try fill($0, ["eve", "eve", "eve"]) }
    try await folder.withStore(configuration(keeping: 1)) { store in
      let writes = try await store.load().clientWrites
      #expect(writes.map(\.origin.number) == [3])
      try await withEngine(store) { engine async throws in
        for (number, isKnown) in [(3, true), (1, false)] as [(Int64, Bool)] {
          let client = "name-\((Int(number - 1) * 7) % 3)"
          var origin = try WriteOrigin(client: client, number: number, seen: 0)
          origin.owner = "eve"
          let result = await withCheckedContinuation { continuation in
            engine.submit(
              { _ in Decision(try .set(Location("m"), WriteValue(Node(number))), ()) },
              once: origin
            ) { continuation.resume(returning: $0) }
          }
          switch result {
          case .success: #expect(!isKnown)
          case .failure(let error):
            #expect(isKnown && error as? RepeatedWrite == RepeatedWrite(sequence: 3))
          }
        }
      }
    }
  }

  @Test func `a start checks each row that it reads once, and ignores damage in the others`()
    async throws
  {
    try await folder.withStore { store in
      try fill(store, ["eve", "eve", "eve"])
      try await store.damage(
        "UPDATE client_writes SET time = time + 1 WHERE sequence = 1", isSealed: false)
      await #expect(throws: StoreError.self) { try await store.load() }
    }
    try await folder.withStore(configuration(keeping: 2)) { store in
      let computed = Mutex(0)
      try await store.pool.barrierWriteWithoutTransaction { _ in }
      try await store.pool.read { db in
        db.trace {
          if "\($0)".contains("canopy_checksum('client_writes'") { computed.withLock { $0 += 1 } }
        }
      }
      #expect(try await read(store) == [2, 3])
      #expect(computed.withLock { $0 } == 0, "SQL does not compute the checksums as well")
      try await store.damage(
        "UPDATE client_writes SET time = time + 1 WHERE sequence = 2", isSealed: false)
      let error = await #expect(throws: StoreError.self) { try await store.load() }
      expectAdvice(error, mentions: "a write that a client may send again", "--accept-loss")
    }
  }

  @Test func `the share is the largest with which all owners fit`() {
    var counts = [0, 0, 0, 0]
    func total(_ share: Int) -> Int { counts.reduce(0) { $0 + min($1, share) } }
    for number in 0..<5 * 5 * 5 * 5 {
      counts = [number % 5, number / 5 % 5, number / 25 % 5, number / 125].map { $0 + 1 }
      for rowsMax in 4...counts.reduce(0, +) {
        let share = ClientWriteBound.share(of: counts, rowsMax: rowsMax)
        #expect(total(share) <= rowsMax)
        #expect(share >= 5 || total(share + 1) > rowsMax)
      }
    }
  }
}
