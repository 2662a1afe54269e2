public import CanopyAccounts
public import CanopyEngine
public import CanopyIdentity
public import CanopySession
import CanopySocial
public import CanopyTree
public import Logging
import Synchronization

/// The parts of a server behind its listener. The test controls time, journal, accounts and hashing.
public final class LineParts: Sendable {
  /// The time, for accounts, tokens and commits.
  public let clock = ManualClock()
  /// The clock of the engine's waits.
  public let waits = StepClock()
  /// The journal.
  public let journal: FaultyJournal<InMemoryJournal>
  /// The accounts.
  public let accountStore = InMemoryAccountStore()
  /// The hash function.
  public let hash = LineHash()
  /// The log.
  public let log = LineLog()
  /// The lines of the log that LOG shows. Only a test adds some.
  public let logLines: LogLines
  /// The engine. The caller runs it with `run`.
  public let engine: Engine
  /// The service of the accounts.
  public let accounts: AccountService
  /// The administrator's token, for `AUTH`.
  public let administratorToken: AdministratorToken
  /// The operations that every connection uses.
  public let operations: Operations
  /// The service of identity tokens; nil for a server without them.
  public var identityService: IdentityService? { operations.identityService }
  /// The codes of e-mails that were made.
  public let codes: IssuedCodes
  /// The rules in force.
  public let rules: RulesKeeper
  private let hasher: PasswordHasher

  /// The number of passwords that wait to be hashed.
  public var hashesWaiting: Int { hasher.load.waiting }

  /// Creates the parts.
  ///
  /// - Parameters:
  ///   - journal: a journal; that of an earlier server for a restart.
  ///   - rulesFolder: the folder that stores the rules; nil to store them nowhere.
  ///   - identity: the settings of identity tokens; nil for a server without them.
  ///   - namespaces: the namespaces besides the default one; nil for none.
  ///   - quotas: the bounds on writes; nil for none.
  ///   - storageBytesMax: the bytes that a user may store; nil for no bound.
  public init(
    limits: Limits = Limits(), settings: AccountSettings = AccountSettings(),
    engine configuration: Engine.Configuration = .forTests, hashersMax: Int = 2,
    journal: FaultyJournal<InMemoryJournal> = FaultyJournal(), rulesFolder: String? = nil,
    identity: IdentitySettings? = nil, namespaces: MemoryNamespaces? = nil,
    namespaceSettings: Namespaces.Settings = Namespaces.Settings(),
    quotas: WriteQuotas? = nil, freeSpace: FreeSpace = FreeSpace(), storageBytesMax: Int? = nil
  ) async throws {
    self.journal = journal
    rules = try RulesKeeper(folder: rulesFolder)
    let clock = clock
    logLines = LogLines(now: { clock.now })
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
    let environment = AccountEnvironment(
      now: { clock.now }, random: { count in random.withLock { $0.bytes(count) } })
    let accounts = AccountService(
      store: accountStore, hasher: hasher, settings: settings, environment: environment)
    self.accounts = accounts
    administratorToken = try Self.token.get()
    try await rules.begin(at: engine.snapshot.sequence, recordingIn: journal, logger: log.logger)
    let codes = IssuedCodes()
    self.codes = codes
    var keys: IdentityKeys?
    if identity != nil {
      let folder = try TemporaryFolder()
      keys = try await IdentityKeys.loadOrCreate(in: folder.path, environment: environment)
    }
    operations = Operations(
      engine: engine, accounts: accounts,
      identityService: { [log] loginsEnded in
        guard let identity, let keys else { return nil }
        return IdentityService(
          accounts: accounts, keys: keys, settings: identity, environment: environment,
          deliver: { codes.add($0) }, loginsEnded: loginsEnded,
          failed: { log.logger.error("the store failed", metadata: ["error": "\($0)"]) })
      },
      administratorToken: administratorToken,
      disconnectStore: journal, rules: rules, limits: limits,
      version: "test", now: { clock.now }, logger: log.logger,
      logLines: logLines, namespaceSource: namespaces, namespaceSettings: namespaceSettings,
      quotas: quotas, freeSpace: freeSpace,
      tree: limits.treeMax > 0
        ? TreeBound(bytesMax: limits.treeMax, logger: log.logger) : nil,
      storage: storageBytesMax.map { [engine] in UserStorage(of: engine, bytesMax: $0) })
  }

  /// A logger whose lines from the level `info` on LOG shows.
  public var keptLogger: Logger {
    Logger(label: "canopy.test") { [logLines] _ in
      logLines.handler(before: SwiftLogNoOpLogHandler())
    }
  }

  /// Runs the engine and the steps of unfinished work until the engine stops.
  public func run() async {
    await withTaskGroup(of: Void.self) { group in
      group.addTask { [operations, waits] in await operations.unfinishedWork.run(clock: waits) }
      await engine.run()
      await operations.namespaces.closeAll()
      group.cancelAll()
    }
  }

  private static let token = Result {
    let folder = try TemporaryFolder()
    return try AdministratorToken.loadOrCreate(in: folder.path)
  }
}

/// The codes of e-mails that a server has made. Safe to use from any thread.
public final class IssuedCodes: Sendable {
  private let codes = Mutex<[IssuedCode]>([])

  func add(_ code: IssuedCode) { codes.withLock { $0.append(code) } }

  /// All codes, oldest first.
  public var all: [IssuedCode] { codes.withLock { $0 } }
}
