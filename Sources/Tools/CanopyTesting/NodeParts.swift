import CanopyAccounts
public import CanopyEngine
public import CanopySession
import CanopySocial
import CanopyTree
import Synchronization

/// The parts of one node of a server, which shares its journal, its on-disconnect writes and its accounts with others.
public final class NodeParts: Sendable {
  /// The time of the node.
  public let clock: ManualClock
  /// The journal of the node.
  public let journal: NodeJournal
  /// The engine. The caller runs it.
  public let engine: Engine
  /// The operations that every connection of the node uses.
  public let operations: Operations
  /// The log.
  public let log = LineLog()
  /// The clock of the engine's waits.
  public let waits: StepClock?

  /// Creates a node.
  ///
  /// - Parameters:
  ///   - node: its number.
  ///   - accountStore: the accounts of all nodes.
  ///   - clock: the time of the node.
  ///   - waits: the clock of the engine's waits; nil for the machine's.
  public init(
    _ memory: SharedMemory, node: Int, accountStore: InMemoryAccountStore,
    clock: ManualClock = ManualClock(), waits: StepClock? = nil
  ) async throws {
    self.clock = clock
    self.waits = waits
    let random = Mutex(SeededGenerator(seed: UInt64(node + 1)))
    let waiting: any Clock<Duration> = waits ?? ContinuousClock()
    journal = NodeJournal(memory, node: node, clock: waiting, seed: UInt64(node + 1))
    let rules = try RulesKeeper(folder: nil)
    var configuration = Engine.Configuration.forTests
    configuration.followAfter = .milliseconds(20)
    configuration.indexPlan = Layout.indexPlan
    configuration.indexPlan.formUnion(rules.indexPlan)
    engine = try await Engine(
      journal: journal, configuration: configuration, now: { clock.now }, clock: waiting,
      random: { random.withLock { $0.next() } }, logger: log.logger)
    try rules.begin(following: engine, logger: log.logger)
    var settings = AccountSettings()
    settings.hashParameters = .cheapest
    let environment = AccountEnvironment(
      now: { clock.now }, random: { count in random.withLock { $0.bytes(count) } })
    let accounts = AccountService(
      store: accountStore, hasher: PasswordHasher(function: LineHash(), concurrentMax: 2),
      settings: settings, environment: environment)
    operations = Operations(
      engine: engine, accounts: accounts, administratorToken: try Self.token.get(),
      disconnectStore: journal, rules: rules, limits: Limits(), version: "test",
      now: { clock.now }, logger: log.logger)
  }

  private static let token = Result {
    let folder = try TemporaryFolder()
    return try AdministratorToken.loadOrCreate(in: folder.path)
  }
}
