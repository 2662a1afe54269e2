public import CanopyAccounts
public import CanopyEngine
internal import CanopySocial
public import CanopyTree
internal import CanopyWire
public import Logging
internal import NIOCore

/// What carries out requests: the same for every connection, and without any state of one.
///
/// Reads answer into the connection's output at once, from the engine's current tree. Writes are
/// submitted to the engine and answer when they are durable. Session requests wait for the hashing of
/// passwords and the store.
public final class LineService: Sendable {
  let engine: Engine
  let accounts: AccountService
  let administratorToken: AdministratorToken
  let limits: Limits
  let version: String
  let now: @Sendable () -> Int64
  let logger: Logger
  let disconnectStore: any DisconnectStore
  let rules: RulesKeeper
  let sessions = SessionRegistry()
  /// Hashes large values for CAS, one at a time: it takes a core for as long.
  let hashing = TurnQueue(width: 1)
  let hubs: LoopLocals<EventHub>
  let caches = LoopLocals { loop in
    NIOLoopBoundBox.makeBoxSendingValue(EntryCache(), eventLoop: loop)
  }
  let lists = LoopLocals { loop in
    NIOLoopBoundBox.makeBoxSendingValue(ListCache(), eventLoop: loop)
  }

  /// A service.
  ///
  /// - Parameters:
  ///   - disconnectStore: where on-disconnect writes are kept until their connection ends.
  ///   - rules: judge the requests to the tree. The engine must keep their indexes.
  ///   - version: the version of the program, for HELLO.
  ///   - now: milliseconds since 1970; the end of tokens is judged by it.
  public init(
    engine: Engine, accounts: AccountService, administratorToken: AdministratorToken,
    disconnectStore: any DisconnectStore, rules: RulesKeeper, limits: Limits, version: String,
    now: @escaping @Sendable () -> Int64, logger: Logger
  ) {
    self.engine = engine
    self.accounts = accounts
    self.administratorToken = administratorToken
    self.disconnectStore = disconnectStore
    self.rules = rules
    rules.begin(at: engine.snapshot.sequence)
    self.limits = limits
    hubs = LoopLocals { loop in
      EventHub(loop: loop, engine: engine, bytesMax: limits.replyBytesMax)
    }
    self.version = version
    self.now = now
    self.logger = logger
  }

  /// How a request fits in with the others of its connection.
  func kind(of request: Request) -> RequestKind {
    switch request {
    case .hello, .ping, .help, .whoAmI, .show, .comments, .recent, .posts, .top, .profile, .info,
      .rules:
      .read
    case .get(_, let options):
      options.query.order == .key || !options.hasQuery ? .read : .exclusive
    case .count(_, let query): query.order == .key || query == .all ? .read : .exclusive
    case .signUp, .logIn, .authenticate, .logOut, .changePassword, .quit, .watch, .listen,
      .listenToInfo, .unlisten, .onDisconnect, .setRules, .explain:
      .exclusive
    case .compareAndSet(let location, _, _), .once(_, .compareAndSet(let location, _, _)):
      // A large value is hashed beside the engine, and a later write must not overtake that. (If it
      // grows in the moment before it is compared, or by a write that is under way, one can.)
      isSmall(location) ? .write : .exclusive
    case .rename, .post, .edit, .delete, .star, .comment, .uncomment, .set, .update, .remove, .push,
      .once:
      .write
    }
  }

  /// Whether a request begins or ends a subscription.
  func isAboutEvents(_ request: Request) -> Bool {
    switch request {
    case .watch, .listen, .listenToInfo, .unlisten: true
    default: false
    }
  }

  /// Whether a request is of no use to anybody when its connection has gone.
  ///
  /// What ends sessions is carried out all the same: a thief who cuts the line must not keep a login
  /// that its owner has just ended. And an on-disconnect write that has begun to be kept must be known
  /// of, to be made. Rules that have begun to be replaced are replaced.
  func endsWithItsConnection(_ request: Request) -> Bool {
    switch request {
    case .changePassword, .logOut, .onDisconnect, .setRules: false
    default: true
    }
  }

  /// The error for the wire; one that nobody declared is logged and told as the server's fault.
  func wireError(_ error: any Error) -> WireError {
    if let known = WireError(error) { return known }
    logger.error("a request failed", metadata: ["error": "\(error)"])
    return WireError(.internalError, "the server made a mistake; its log says more")
  }
}
