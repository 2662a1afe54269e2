import CanopyAccounts
import CanopyBackup
import CanopyEngine
import CanopyLineServer
import CanopySession
import CanopySocial
import CanopyTesting
import CanopyTree
import Logging
import ServiceLifecycle
import Synchronization

@testable import CanopySQLite

/// A server on a data folder, composed as the program composes it, with small bounds so that a short run has
/// checkpoints, copies of the write-ahead log and removals of commits.
final class DiskServer: Sendable {
  let store: SQLiteStore
  let engine: Engine
  let accounts: AccountService
  let clock: ManualClock
  let log: LineLog
  private let operations: Operations
  private let token: AdministratorToken
  private let running: Task<Void, Never>

  private init(
    _ store: SQLiteStore, _ engine: Engine, _ accounts: AccountService, _ operations: Operations,
    _ token: AdministratorToken, _ clock: ManualClock, _ log: LineLog
  ) {
    self.token = token
    self.store = store
    self.engine = engine
    self.accounts = accounts
    self.operations = operations
    self.clock = clock
    self.log = log
    running = Task { await engine.run() }
  }

  /// Opens the folder, and carries out what an earlier server has left.
  ///
  /// - Parameters:
  ///   - change: plants a defect in the settings of the store.
  ///   - rules: the rules without a file of rules.
  ///   - hasher: the hasher of passwords; a cheap one without it.
  ///   - journal: returns the journal of the engine for the store; a defective one to plant a defect.
  static func start(
    _ folder: String, clock: ManualClock, seed: UInt64,
    _ change: (inout SQLiteStore.Configuration) -> Void = { _ in }, rules: InitialRules = .blog,
    hasher: PasswordHasher = PasswordHasher(function: LineHash(), concurrentMax: 2),
    hashParameters: HashParameters = .cheapest,
    journal: (SQLiteStore) -> any Journal = { $0 }
  ) async throws -> DiskServer {
    let log = LineLog()
    let store = try SQLiteStore(folder: folder, configuration: settings(log, change))
    let server: DiskServer
    do {
      var settings = AccountSettings()
      settings.hashParameters = hashParameters
      let random = SeededBytes(seed: seed)
      let accounts = AccountService(
        store: store, hasher: hasher, settings: settings,
        environment: AccountEnvironment(now: { clock.now }, random: { random($0) }))
      let rules = try RulesKeeper(folder: store.folder, initial: rules)
      server = try await compose(store, journal(store), accounts, rules, clock, random, log)
    } catch {
      try? store.close()
      throw error
    }
    do {
      try await server.recover()
      return server
    } catch {
      try? await server.stop()
      throw error
    }
  }

  private static func settings(
    _ log: LineLog, _ change: (inout SQLiteStore.Configuration) -> Void
  ) -> SQLiteStore.Configuration {
    var settings = SQLiteStore.Configuration()
    settings.logger = log.logger
    settings.logFramesMax = 70
    settings.logStepFramesMax = 40
    settings.checkpointStepRows = 16
    settings.checkpointStepSeconds = .infinity
    settings.retainedCommits = 6
    settings.retainedMilliseconds = 0
    settings.unsyncedBytesMax = 64 * 1024
    change(&settings)
    return settings
  }

  private static func compose(
    _ store: SQLiteStore, _ journal: any Journal, _ accounts: AccountService,
    _ rules: RulesKeeper, _ clock: ManualClock, _ random: SeededBytes, _ log: LineLog
  ) async throws -> DiskServer {
    var configuration = Engine.Configuration.forTests
    configuration.indexPlan = Layout.indexPlan
    configuration.indexPlan.formUnion(rules.indexPlan)
    configuration.checkpointEvery = 9
    let engine = try await Engine(
      journal: journal, configuration: configuration, now: { clock.now }, clock: HastyClock(),
      random: { random.word() }, logger: log.logger)
    try await rules.begin(at: engine.snapshot.sequence, recordingIn: store, logger: log.logger)
    let token = try AdministratorToken.loadOrCreate(in: store.folder)
    let operations = Operations(
      engine: engine, accounts: accounts, administratorToken: token,
      disconnectStore: store, rules: rules, limits: Limits(), version: "test",
      now: { clock.now }, logger: log.logger)
    return DiskServer(store, engine, accounts, operations, token, clock, log)
  }

  private func recover() async throws {
    try await accounts.recoverPending { [engine] uid in
      guard let key = try? Key(uid) else { return false }
      return Users.username(of: key, in: engine.root) != nil
    }
    try await operations.carryOutAbandoned()
  }

  /// Listens while `body` runs. `body` receives a function that connects.
  func serve(_ body: (Port) async throws -> Void) async throws {
    var configuration = LineServer.Configuration()
    configuration.port = 0
    configuration.threads = 1
    configuration.shutdownSeconds = 1
    configuration.timeoutSeconds = 3_600
    let (ports, announce) = AsyncStream.makeStream(of: Int.self)
    let server = LineServer(operations, configuration: configuration, logger: log.logger) {
      announce.yield($1)
    }
    let group = ServiceGroup(services: [server], logger: log.logger)
    let serving = Task {
      defer { announce.finish() }
      try await group.run()
    }
    guard let port = await ports.first(where: { _ in true }) else { return try await serving.value }
    let result: Result<Void, any Error>
    do { result = .success(try await body(Port(number: port, token: token))) } catch {
      result = .failure(error)
    }
    // On-disconnect writes that fail are tried again until the engine stops.
    engine.stop()
    await group.triggerGracefulShutdown()
    _ = await serving.result
    try result.get()
  }

  /// The port of a server that listens.
  struct Port: Sendable {
    let number: Int
    let token: AdministratorToken

    func connect() async throws -> LineSocketClient { try await LineSocketClient(port: number) }

    func connectAsAdministrator() async throws -> LineSocketClient {
      let client = try await connect()
      try await client.value("AUTH \(token.text)")
      return client
    }
  }

  /// Makes a backup of the served folder. Returns the number of its last commit.
  func backUp(to place: String, number: Int) throws -> Int64 {
    let maker = BackupMaker(
      folder: store.folder, isServed: true, namespaces: { [] }, program: "test",
      now: { [clock] in clock.now }, pace: .unlimited)
    let made = try maker.make(in: place + "/work-\(number)") { _ in place + "/\(number).tar" }
    return made.description.databases.first?.sequence ?? -1
  }

  /// Stops the engine, and closes the folder.
  func stop() async throws {
    engine.stop()
    await running.value
    try store.close()
  }
}
