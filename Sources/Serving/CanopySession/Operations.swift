public import CanopyAccounts
public import CanopyEngine
public import CanopyIdentity
public import CanopyMetrics
public import CanopySocial
public import CanopyTree
public import CanopyWire
internal import Foundation
public import Logging
internal import Synchronization

/// Carries out requests. It is the same for all connections and protocols, and has no state of a connection.
///
/// Reads answer at once from the current tree. Writes go to the engine and answer when they are durable.
/// Account requests wait for password hashes and the store. Safe to use from any thread.
public final class Operations: Sendable {
  /// The name of the database.
  public let namespace: NamespaceName
  /// The operations of the default namespace, which has the blog and the accounts; nil if these are they.
  let home: Operations?
  /// The other databases of the server that are open.
  public let namespaces: Namespaces
  /// The engine.
  public let engine: Engine
  let accounts: AccountService
  /// Answers the requests of Auth clients, and verifies identity tokens; nil for a server without them.
  public let identityService: IdentityService?
  let administratorToken: AdministratorToken
  /// The passes to the console.
  let passes: AdministratorPasses
  /// The address of the console.
  public let consoleAddress: ConsoleAddress
  /// The bounds on requests, replies and connections.
  public let limits: Limits
  let version: String
  /// The time in milliseconds since 1970.
  public let now: @Sendable () -> Int64
  /// Returns so many random bytes, for secrets.
  public let randomBytes: RandomBytes
  /// The log.
  public let logger: Logger
  let disconnectStore: any DisconnectStore
  /// The rules in force.
  public let rules: RulesKeeper
  /// The logins of all connections.
  public let sessions: SessionRegistry
  /// The metrics of the server.
  public let metrics: MetricsRegistry
  /// The last lines of the log.
  let logLines: LogLines
  /// The backups of the server; nil for a server that makes none.
  let backups: (any BackupOperations)?
  /// The open connections of all protocols.
  public let clientRegistry: ClientRegistry
  /// The memory that connections of all protocols may make the server hold.
  public let memory: MemoryBudget
  /// The bounds on the writes of users and networks; nil for none.
  public let quotas: WriteQuotas?
  /// The free space of the disk with the data.
  public let freeSpace: FreeSpace
  /// The bound on the memory of the trees; nil for none.
  public let tree: TreeBound?
  /// Counts the memory of the tree of this namespace; nil without a bound.
  let treeCount: TreeCount?
  /// The bytes that users have stored; nil for no bound, and in other namespaces than the default one.
  public let storage: UserStorage?
  /// The steps of work that takes more than one commit. Run it as long as the engine runs.
  public let unfinishedWork: UnfinishedWorkRunner
  /// Bounds the posts and comments that a user's renamings change: 500 at once, then 50 a second. One with a long text
  /// counts once for each started 4 KiB.
  ///
  /// RENAME is a short request that changes all posts and comments of its user. Without a bound one connection
  /// would keep the writer busy, the journal would grow by megabytes for each of its lines, and everyone who watches the
  /// posts would receive all of their texts again.
  let renames = Mutex(
    RateLimiter<Key>(attemptsMax: 500, windowMilliseconds: 10_000, keysMax: 10_000))
  /// Whether the log has a line about a clock that was set back.
  let hasLoggedClock = Atomic(false)
  /// The on-disconnect writes that failed and are tried again.
  let disconnectRetries = DisconnectRetries()
  let preparedEnds = PreparedEnds()
  /// Bounds the lines of the log about on-disconnect writes that are not made.
  let droppedWriteLines = Mutex(LogLineLimit())
  /// The order of writes with `ONCE` after a refusal for a reason that passes.
  let writeOrder = WriteOrder()
  /// The turns of work that takes long: see `beside`.
  let longWork: TurnQueue
  /// Admits one caller of `hashing` at a time, which takes many turns of `longWork`.
  let hashWork: TurnQueue
  /// The turns of hashing values of at most `shortHashBytesMax`.
  let shortHashWork: TurnQueue
  /// The turns of decoding texts of `longTextBytes` to `hugeTextBytes`: see `decodeBeside`.
  let textWork: TurnQueue
  /// Admits one decoding of a longer text of each network at a time, which takes many turns of `longWork`.
  let decodings: NetworkTurns
  /// The turns of computing events. They are others than those of `longWork`: a long read waits in its turn until the
  /// events before it are sent.
  let eventWork: TurnQueue
  /// The turns of tasks that read and encode less than that. There is a turn for each core but one, and at least one. A
  /// task that waits for its turn blocks no thread, so other tasks go on.
  public let shortWork: TurnQueue
  /// Notifies other nodes of changes of accounts; nil if there are none, and in other namespaces than the default one.
  let accountMarks: AccountMarks?
  /// Called when the namespace is closed.
  private let closeHandlers = Mutex<[@Sendable () -> Void]>([])

  /// Creates the operations on an engine.
  ///
  /// - Parameters:
  ///   - identityService: creates the service of identity tokens. The service calls its parameter, `loginsEnded`, when a request
  ///     has ended the logins of a user; it must have the accounts and the clock of the other parameters.
  ///   - disconnectStore: keeps on-disconnect writes until their connection ends.
  ///   - rules: authorize requests to the tree. The engine must keep their indexes.
  ///   - version: the version of the program, for HELLO.
  ///   - now: milliseconds since 1970; sessions expire by it.
  ///   - metrics: takes the measurements of all connections.
  ///   - logLines: the last lines of the log.
  ///   - backups: the backups of the server; nil for a server that makes none.
  ///   - namespaceSource: the other databases; nil for none.
  ///   - quotas: the bounds on the writes of users and networks; nil for none.
  ///   - freeSpace: the free space of the disk, which the caller measures.
  ///   - tree: the bound on the memory of the trees; nil for none. The engine does not run yet, or is idle.
  ///   - storage: the bytes that users have stored; nil for no bound.
  public init(
    engine: Engine, accounts: AccountService,
    identityService: (_ loginsEnded: @escaping @Sendable (_ uid: String) async -> Void) ->
      IdentityService? = { _ in nil },
    administratorToken: AdministratorToken, disconnectStore: any DisconnectStore,
    rules: RulesKeeper, limits: Limits, version: String,
    now: @escaping @Sendable () -> Int64, logger: Logger,
    metrics: MetricsRegistry = MetricsRegistry(), logLines: LogLines = LogLines(),
    backups: (any BackupOperations)? = nil, namespaceSource: (any NamespaceSource)? = nil,
    namespaceSettings: Namespaces.Settings = Namespaces.Settings(),
    quotas: WriteQuotas? = nil, freeSpace: FreeSpace = FreeSpace(),
    tree: TreeBound? = nil, storage: UserStorage? = nil
  ) {
    namespace = .default
    home = nil
    let lines = EndedConnectionLines(now: now)
    let namespaces = Namespaces(
      namespaceSource, namespaceSettings, tree: tree, now: now, logger: logger,
      endedConnectionLines: lines)
    self.namespaces = namespaces
    self.engine = engine
    self.accounts = accounts
    let sessions = SessionRegistry()
    self.sessions = sessions
    let marks = AccountMarks(engine, logger)
    accountMarks = marks
    self.identityService = identityService { uid in
      marks?.add(uid)
      guard let uid = try? Key(uid) else { return }
      await Operations.reauthorize(sessions.revokeAll(uid), in: [engine] + namespaces.engines)
    }
    self.administratorToken = administratorToken
    randomBytes = AccountEnvironment.live.random
    passes = AdministratorPasses(
      environment: AccountEnvironment(now: now, random: randomBytes))
    consoleAddress = ConsoleAddress()
    self.disconnectStore = disconnectStore
    self.rules = rules
    self.limits = limits
    memory = MemoryBudget(bytesMax: limits.memoryMax, lines: lines)
    self.quotas = quotas
    self.freeSpace = freeSpace
    self.tree = tree
    treeCount = tree.map { TreeCount(of: engine, in: $0) }
    self.storage = storage
    self.version = version
    self.metrics = metrics
    self.logLines = logLines
    self.backups = backups
    clientRegistry = ClientRegistry()
    self.now = now
    self.logger = logger
    longWork = TurnQueue(width: 1, charging: engine.elapsed)
    hashWork = TurnQueue(width: 1, charging: engine.elapsed)
    shortHashWork = TurnQueue(width: 1, charging: engine.elapsed)
    textWork = TurnQueue(width: 1)
    decodings = NetworkTurns()
    eventWork = TurnQueue(width: 1)
    shortWork = TurnQueue(width: ProcessInfo.processInfo.activeProcessorCount - 1)
    unfinishedWork = UnfinishedWorkRunner(engine: engine, rules: rules, logger: logger) { uid in
      do { try await accounts.deleteAccount(uid: uid.text) } catch AccountError.notFound {}
      await Operations.reauthorize(sessions.revokeAll(uid), in: [engine] + namespaces.engines)
    }
    accounts.add(
      AccountObserver { uid in
        marks?.add(uid)
        if let uid = try? Key(uid) { sessions.noteChange(of: uid) }
      } sessionsEnded: { uid, tokens in
        marks?.add(uid)
        guard let uid = try? Key(uid) else { return }
        await Operations.reauthorize(
          sessions.revoke(uid, tokens: tokens), in: [engine] + namespaces.engines)
      })
    if engine.isShared { _ = engine.takeMarks { [weak self] in self?.take($0) } }
  }

  /// Creates the operations on another database of a server. They share everything with those of the default one but
  /// the engine, the on-disconnect writes and the rules.
  ///
  /// - Parameter treeBytes: the bytes of the tree, which were counted and added to the bound; nil without a bound.
  init(
    namespace: NamespaceName, _ parts: NamespaceParts, treeBytes: Int? = nil, of home: Operations
  ) {
    self.namespace = namespace
    self.home = home
    namespaces = home.namespaces
    engine = parts.engine
    accounts = home.accounts
    identityService = home.identityService
    administratorToken = home.administratorToken
    passes = home.passes
    consoleAddress = home.consoleAddress
    randomBytes = home.randomBytes
    limits = home.limits
    version = home.version
    now = home.now
    var logger = home.logger
    logger[metadataKey: "namespace"] = "\(namespace)"
    self.logger = logger
    disconnectStore = parts.disconnectStore
    rules = parts.rules
    sessions = home.sessions
    metrics = home.metrics
    logLines = home.logLines
    backups = home.backups
    clientRegistry = home.clientRegistry
    memory = home.memory
    quotas = home.quotas
    freeSpace = home.freeSpace
    tree = home.tree
    treeCount = home.tree.map { TreeCount(of: parts.engine, in: $0, counted: treeBytes) }
    storage = nil
    longWork = home.longWork
    hashWork = home.hashWork
    shortHashWork = home.shortHashWork
    textWork = home.textWork
    decodings = home.decodings
    eventWork = home.eventWork
    shortWork = home.shortWork
    // Only the default namespace has users.
    unfinishedWork = UnfinishedWorkRunner(
      engine: parts.engine, rules: parts.rules, logger: logger
    ) { _ in }
    accountMarks = nil
    if engine.isShared { _ = engine.takeMarks { [weak self] in self?.take($0) } }
  }

  /// Returns the error for the client. An error that no module declares is logged, and the client gets
  /// `INTERNAL`.
  public func wireError(_ error: any Error) -> WireError {
    if let known = WireError(error) { return known }
    logger.error("a request failed", metadata: ["error": "\(error)"])
    return WireError(.internalError, "the server made a mistake; its log says more")
  }

  /// Returns the user of a connection.
  ///
  /// - Throws: `WireError` if no user has logged in, or the session has ended.
  func user(_ identity: Identity) throws(WireError) -> Key {
    try session(of: identity).uid
  }

  /// Returns the login of a connection.
  ///
  /// - Throws: `WireError` if no user has logged in, or the session has ended.
  func session(of identity: Identity) throws(WireError) -> UserSession {
    if case .administrator = identity { throw .userNeeded }
    guard case .user(let session) = identity else { throw .loginNeeded }
    guard session.isValid(at: now()) else { throw .sessionEnded }
    return session
  }

  func requireAdministrator(_ identity: Identity) throws(WireError) {
    guard case .administrator = identity else { throw .administratorNeeded }
  }

  /// Returns the user that a request names.
  func find(
    _ reference: UserReference, as identity: Identity, in root: Node
  ) throws -> Key {
    switch reference {
    case .me: try user(identity)
    case .uid(let text): try Users.find(uid: text, in: root)
    case .username(let name): try Users.find(username: name, in: root)
    }
  }

  /// Adds a closure that is called once, when the namespace has been closed. The default namespace is never closed.
  public func onClose(_ body: @escaping @Sendable () -> Void) {
    closeHandlers.withLock { $0.append(body) }
  }

  /// Removes and returns the closures of `onClose`.
  func takeCloseHandlers() -> [@Sendable () -> Void] {
    closeHandlers.withLock { handlers in
      defer { handlers = [] }
      return handlers
    }
  }
}
