public import CanopyAccounts
public import CanopyEngine
public import CanopySession
import CanopySocial
public import CanopyTree
import Foundation
import Synchronization

/// What stands behind a listener, with everything that comes from outside in the test's hand.
public final class LineParts: Sendable {
  /// The time, for accounts, tokens and commits.
  public let clock = ManualClock()
  /// The clock by which the engine waits and rests.
  public let waits = StepClock()
  /// The journal.
  public let journal: LineJournal
  /// The accounts.
  public let accountStore = LineAccountStore()
  /// The hash function: the cheapest.
  public let hash = LineHash()
  /// Everything that was logged.
  public let log = LineLog()
  /// The engine; the caller runs it, with `run`.
  public let engine: Engine
  /// The accounts' service.
  public let accounts: AccountService
  /// What AUTH takes for the administrator.
  public let administratorToken: AdministratorToken
  /// The operations that every connection uses.
  public let operations: Operations
  /// The rules in force.
  public let rules: RulesKeeper
  private let hasher: PasswordHasher

  /// Passwords that wait for others to be hashed.
  public var hashesWaiting: Int { hasher.load.waiting }

  /// The parts.
  ///
  /// - Parameters:
  ///   - journal: that of an earlier server, to be started again with.
  ///   - rulesFolder: where rules are kept; nil to keep them nowhere.
  public init(
    limits: Limits = Limits(), settings: AccountSettings = AccountSettings(),
    engine configuration: Engine.Configuration = .forTests, hashersMax: Int = 2,
    journal: LineJournal = LineJournal(), rulesFolder: String? = nil
  ) async throws {
    self.journal = journal
    rules = try RulesKeeper(folder: rulesFolder)
    let clock = clock
    let random = Mutex(SeededGenerator(seed: 1))
    var settings = settings
    settings.hashParameters = .cheapest
    var configuration = configuration
    configuration.indexPlan = Layout.indexPlan
    configuration.indexPlan.formUnion(rules.indexPlan)
    engine = try await Engine(
      journal: journal, configuration: configuration, now: { clock.now }, clock: waits,
      random: { random.withLock { $0.next() } }, logger: log.logger)
    hasher = PasswordHasher(function: hash, concurrentMax: hashersMax)
    accounts = AccountService(
      store: accountStore, hasher: hasher,
      settings: settings,
      environment: AccountEnvironment(
        now: { clock.now }, random: { count in random.withLock { $0.bytes(count) } }))
    administratorToken = try Self.token.get()
    try await rules.begin(at: engine.snapshot.sequence, recordingIn: journal)
    operations = Operations(
      engine: engine, accounts: accounts, administratorToken: administratorToken,
      disconnectStore: journal, rules: rules, limits: limits,
      version: "test", now: { clock.now }, logger: log.logger)
  }

  /// Runs the engine, and beside it the steps of unfinished work, until the engine is stopped.
  public func run() async {
    await withTaskGroup(of: Void.self) { group in
      group.addTask { [operations, waits] in await operations.unfinishedWork.run(clock: waits) }
      await engine.run()
      group.cancelAll()
    }
  }

  private static let token = Result {
    let folder = FileManager.default.temporaryDirectory.path + "/canopy-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    return try AdministratorToken.loadOrCreate(in: folder)
  }
}
