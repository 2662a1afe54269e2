import CanopyAccounts
import CanopyEngine
import CanopyLineServer
import CanopySession
import CanopySocial
import CanopyTesting
import CanopyTree
import Logging
import NIOCore

/// One process of the server: the engine, the operations and the connections. A crash ends it, and another one begins
/// on the same disk.
///
/// `@unchecked Sendable`: the simulation has one thread.
final class Server: @unchecked Sendable {
  let engine: Engine
  let operations: Operations
  private let journal: SimulatedJournal
  private let connections: LineConnections
  private let loops: [SimulatedLoop]
  private var nextLoop = 0

  /// The token of the administrator, which no client uses. It must exist before a simulation begins.
  static let token = Result {
    let folder = try TemporaryFolder()
    return try AdministratorToken.loadOrCreate(in: folder.path)
  }

  private init(_ journal: SimulatedJournal, _ engine: Engine, _ operations: Operations) {
    self.journal = journal
    self.engine = engine
    self.operations = operations
    connections = LineConnections(operations)
    loops = (1...2).map { SimulatedLoop("server loop \($0)") }
  }

  /// The time in milliseconds since 1970.
  static let now: @Sendable () -> Int64 = {
    1_700_000_000_000 + Scheduler.shared.now / 1_000_000
  }

  /// Starts a process.
  static func start(
    on disk: SimulatedDisk, accounts store: InMemoryAccountStore, checkpointEvery: Int
  ) async throws -> Server {
    let journal = SimulatedJournal(disk)
    let rules = try RulesKeeper(folder: nil, initial: .open)
    let logger = SimulationLogHandler.logger
    var configuration = Engine.Configuration()
    configuration.indexPlan = Layout.indexPlan
    configuration.indexPlan.formUnion(rules.indexPlan)
    configuration.checkpointEvery = checkpointEvery
    configuration.checkpointAfter = .seconds(2)
    configuration.elapsed = { .nanoseconds(Scheduler.shared.now) }
    configuration.threadTime = { .zero }
    let clock = SimulatedClock()
    let engine = try await Engine(
      journal: journal, configuration: configuration, now: now, clock: clock,
      random: { Scheduler.shared.word() }, logger: logger)
    try await rules.begin(at: engine.snapshot.sequence, recordingIn: journal, logger: logger)
    var settings = AccountSettings()
    settings.hashParameters = .cheapest
    let environment = AccountEnvironment(
      now: now,
      random: { count in (0..<count).map { _ in UInt8(Scheduler.shared.random(below: 256)) } })
    let accounts = AccountService(
      store: store, hasher: PasswordHasher(function: LineHash(), concurrentMax: 2),
      settings: settings, environment: environment)
    let operations = Operations(
      engine: engine, accounts: accounts, administratorToken: try token.get(),
      disconnectStore: journal, rules: rules, limits: Limits(), version: "simulation", now: now,
      logger: logger)
    let server = Server(journal, engine, operations)
    Task.detached { await engine.run() }
    Task.detached { await operations.unfinishedWork.run(clock: clock) }
    try await accounts.recoverPending { uid in
      guard let uid = try? Key(uid) else { return false }
      return Users.username(of: uid, in: engine.root) != nil
    }
    try await operations.carryOutAbandoned()
    return server
  }

  /// Accepts a connection on its loop.
  func accept(_ channel: SimulatedChannel) throws {
    try connections.addHandlers(to: channel)
  }

  /// Returns the loop of the next connection.
  func takeLoop() -> SimulatedLoop {
    nextLoop += 1
    return loops[nextLoop % loops.count]
  }

  /// Ends the process. It may go on computing, but nothing of that reaches the disk or the network.
  func die() {
    journal.die()
    engine.stop()
  }
}

/// Writes the lines of the log of the parts into the log of the simulation.
struct SimulationLogHandler: LogHandler {
  var metadata: Logger.Metadata = [:]
  var logLevel = Logger.Level.notice

  static var logger: Logger { Logger(label: "canopy.simulation") { _ in SimulationLogHandler() } }

  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  func log(event: LogEvent) {
    let all = (event.metadata ?? [:]).sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }
    Scheduler.shared.note("log \(event.level) \(event.message) \(all.joined(separator: " "))")
  }
}
