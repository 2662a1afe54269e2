import CanopyEngine
import CanopyTesting
import Testing

@testable import CanopySQLite

/// A data folder for the contract suites.
final class SQLiteFixture: StoreFixture {
  static let refusesUnknownDisconnectWrites = false

  private let folder: Folder

  init() async throws {
    folder = try Folder()
  }

  func open(_ settings: StoreSettings) async throws -> SQLiteStore {
    var configuration = SQLiteStore.Configuration()
    configuration.retainedCommits = settings.retainedCommits
    configuration.retainedMilliseconds = settings.retainedMilliseconds
    configuration.checkpointStepRows = settings.stepRows
    configuration.checkpointBatchLocations = settings.batchLocations
    configuration.afterStep = settings.afterStep
    configuration.durability = .relaxed
    return try SQLiteStore(folder: folder.path, configuration: configuration)
  }

  func close(_ store: SQLiteStore) async throws { try store.close() }

  func problems(of store: SQLiteStore) async throws -> [String] { try await store.problems() }

  func commitCount(of store: SQLiteStore) async throws -> Int64 {
    try await store.number("SELECT count(*) FROM commits")
  }
}

/// The requirements that every store satisfies.
@Suite(.timeLimit(.minutes(20))) struct StoreContractTests {
  @Test(arguments: JournalContract<SQLiteFixture>.checks)
  func `the journal satisfies the contract`(check: ContractCheck<SQLiteFixture>) async throws {
    try await check.run()
  }

  @Test(arguments: HistoryContract<SQLiteFixture>.checks)
  func `the history satisfies the contract`(check: ContractCheck<SQLiteFixture>) async throws {
    try await check.run()
  }

  @Test(arguments: ClientWriteContract<SQLiteFixture>.checks)
  func `the writes of clients satisfy the contract`(
    check: ContractCheck<SQLiteFixture>
  ) async throws {
    try await check.run()
  }

  @Test(arguments: CheckpointContract<SQLiteFixture>.checks)
  func `checkpoints satisfy the contract`(check: ContractCheck<SQLiteFixture>) async throws {
    try await check.run()
  }

  @Test(arguments: DisconnectContract<SQLiteFixture>.checks)
  func `on-disconnect writes satisfy the contract`(
    check: ContractCheck<SQLiteFixture>
  ) async throws {
    try await check.run()
  }
}
