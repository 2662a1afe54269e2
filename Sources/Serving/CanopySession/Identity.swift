internal import CanopyAccounts
internal import CanopyEngine
internal import CanopyIdentity
public import CanopyRules
public import CanopyTree
internal import Synchronization

/// The user of a connection.
public enum Identity: Sendable {
  /// No user has logged in.
  case anonymous
  /// A user has logged in.
  case user(UserSession)
  /// The administrator, whom the rules do not bind.
  case administrator

  /// Returns a caller whom the administrator describes: the rules see `auth` as it is given.
  ///
  /// - Parameter auth: the value of `auth`. Its `uid` is the user, if it is a key.
  public static func described(auth: Node) -> Identity {
    let uid = auth.child(uidKey).stringValue.flatMap { try? Key($0) } ?? unnamed
    return .user(
      UserSession(uid: uid, email: "", token: "", expiresAt: .max, auth: auth))
  }

  private static let uidKey: Key = "uid"
  /// The user of a described caller without a uid.
  private static let unnamed: Key = "unnamed"

  /// An estimate of the memory of the login.
  public var memoryBytes: Int { session?.memoryBytes ?? 0 }

  /// The login; nil without a user.
  var session: UserSession? {
    if case .user(let session) = self { session } else { nil }
  }

  /// Returns the owner of a write.
  ///
  /// - Parameters:
  ///   - address: the address of the client.
  ///   - turns: its connection and its network.
  func owner(at address: String, _ turns: TurnGroup?) -> WriteOwner {
    switch self {
    case .administrator: .server
    case .user(let session): .user(session.uid, network: turns?.network)
    case .anonymous: .address(address, network: turns?.network)
    }
  }

  /// Returns the caller as the rules see it, or nil for the administrator. An expired or revoked session
  /// counts as anonymous.
  ///
  /// - Parameter now: milliseconds since 1970.
  public func caller(at now: Int64) -> RuleCaller? {
    switch self {
    case .administrator: return nil
    case .user(let session) where session.isValid(at: now):
      var caller = session.caller
      caller.now = now
      return caller
    case .user, .anonymous: return RuleCaller(auth: nil, now: now)
    }
  }
}

/// A login on one connection, by a session token or by an identity token. It ends when its token expires or is revoked on
/// any connection.
public final class UserSession: Sendable {
  /// The identifier of the user.
  public let uid: Key
  let email: String
  /// The uid as text: the owner of writes that may be sent again.
  let owner: String
  let token: String
  /// The end of the login in milliseconds since 1970.
  public let expiresAt: Int64
  /// The user as the rules see it; the time is to be set.
  let caller: RuleCaller
  /// An estimate of its memory: that of the token, and of the claims as values.
  let memoryBytes: Int
  private let revocation: Revocation
  private let lineage: Mutex<Lineage>
  private let outdated = Atomic(false)

  /// The bytes of a login besides its token and its claims. By the growth of a release process (RSS), a connection with a
  /// session token took 3.8 KiB, and one with an identity token of 4 KB 8.3 KiB.
  private static let baseBytes = 2 * 1024
  /// The memory of claims for each byte of their JSON.
  private static let memoryPerClaimByte = 4

  /// Creates the login of a session token.
  convenience init(
    uid: Key, email: String, token: String, expiresAt: Int64, provider: String = "password"
  ) {
    self.init(
      uid: uid, email: email, token: token, expiresAt: expiresAt,
      auth: Self.auth(uid: uid, email: email, provider: provider))
  }

  /// Creates the login of an identity token.
  ///
  /// - Throws: `TreeError` if the uid is not a key, which a verified identity never has.
  convenience init(_ identity: VerifiedIdentity, token: String) throws(TreeError) {
    self.init(
      uid: try Key(identity.uid), email: identity.claims.child(Self.emailKey).stringValue ?? "",
      token: token, expiresAt: identity.expiresAt, auth: identity.auth)
  }

  /// - Parameter auth: the value of `auth` in the rules.
  init(uid: Key, email: String, token: String, expiresAt: Int64, auth: Node) {
    self.uid = uid
    owner = uid.text
    self.email = email
    self.token = token
    self.expiresAt = expiresAt
    caller = RuleCaller(auth: auth, now: 0)
    var claims = ByteBudget(.max / 8)
    _ = auth.fits(budget: &claims)
    memoryBytes =
      Self.baseBytes + token.utf8.count + Self.memoryPerClaimByte * claims.used.json
    revocation = Revocation()
    lineage = Mutex(Lineage(revocation))
  }

  /// Whether the token is a session token, which the store can revoke by itself.
  var isRevocable: Bool { TokenDigest(token: token) != nil }

  private static let emailKey: Key = "email"

  /// Returns the value of `auth` in the rules for a user. An account without an e-mail address has an empty one.
  static func auth(uid: Key, email: String?, provider: String = "password") -> Node {
    let token: [(Key, Node)] = email.map { $0.isEmpty ? [] : [(emailKey, Node($0))] } ?? []
    return RuleCaller.auth(uid: uid.text, provider: provider, token: Node(children: token))
  }

  func revoke() {
    revocation.make()
  }

  /// Whether the account may have changed since the claims were read. A front end that authenticates each request then
  /// checks the token again.
  public var isOutdated: Bool { outdated.load(ordering: .acquiring) }

  func noteChange() {
    outdated.store(true, ordering: .releasing)
  }

  /// Whether the rules see the same user in another login, besides the time at which its claims were read.
  func hasSameClaims(as other: UserSession) -> Bool {
    Self.lastingAuth(of: caller) == Self.lastingAuth(of: other.caller)
  }

  private static let tokenPath = Path.root.child("token")
  /// The claims that depend on the time at which they are read: those of a session token differ each time.
  private static let passingClaims: [Key] = ["iat", "exp"]

  private static func lastingAuth(of caller: RuleCaller) -> Node {
    passingClaims.reduce(caller.auth ?? .absent) {
      $0.setting(.absent, at: tokenPath.child($1))
    }
  }

  /// Calls a closure when the session is revoked, on any thread; at once if it was revoked before. The closure must
  /// return at once, and must not use the sessions.
  public func onRevocation(_ body: @escaping @Sendable () -> Void) {
    revocation.observe(body)
  }

  /// Notes that the connection of this session has renewed it, as by a new password or by `CONFIRM`. The user is the
  /// same. The on-disconnect writes of the connection belong to the new session from now on.
  func isSucceeded(by session: UserSession) {
    let lineage = lineage.withLock { $0 }
    lineage.current.withLock { $0 = session.revocation }
    session.lineage.withLock { $0 = lineage }
  }

  /// Whether another session has succeeded this one or was succeeded by it, so that on-disconnect writes of both belong
  /// to the last of them.
  func sharesLineage(with other: UserSession) -> Bool {
    lineage.withLock { $0 } === other.lineage.withLock { $0 }
  }

  /// Whether on-disconnect writes of this session may still be made. It must not be revoked; or its own connection
  /// has renewed it, as by a new password, and the new session is not revoked. A session that has only expired keeps its
  /// writes.
  var mayFinish: Bool {
    let lineage = lineage.withLock { $0 }
    return !lineage.current.withLock { $0 }.isMade
  }

  /// Whether the login has neither expired nor been revoked.
  ///
  /// - Parameter now: milliseconds since 1970.
  public func isValid(at now: Int64) -> Bool {
    now < expiresAt && !revocation.isMade
  }
}

/// Whether a session was revoked. Safe to use from any thread.
private final class Revocation: Sendable {
  private let flag = Atomic(false)
  private let observers = Mutex<[@Sendable () -> Void]>([])

  var isMade: Bool { flag.load(ordering: .acquiring) }

  func make() {
    flag.store(true, ordering: .releasing)
    for body in observers.withLock({ observers in
      defer { observers = [] }
      return observers
    }) {
      body()
    }
  }

  func observe(_ body: @escaping @Sendable () -> Void) {
    let isLate = observers.withLock { observers in
      if isMade { return true }
      observers.append(body)
      return false
    }
    if isLate { body() }
  }
}

/// The successive sessions of a connection that renews its session. Only the last one counts.
///
/// It holds the revocation and not the sessions, so earlier sessions are freed.
private final class Lineage: Sendable {
  let current: Mutex<Revocation>

  init(_ first: Revocation) {
    current = Mutex(first)
  }
}

/// The logins that connections hold at present. A revoked token ends all of its logins at once. Safe to use from any
/// thread.
public final class SessionRegistry: Sendable {
  fileprivate struct State {
    var sessions: [Key: [ObjectIdentifier: UserSession]] = [:]
    /// The sessions with on-disconnect writes that wait.
    var armed: [Key: [ObjectIdentifier: Armed]] = [:]
    var counts = Counts()
  }

  /// The numbers of events that concern logins. If they are the same before a token is checked and after its login is
  /// added, there was no such event in between.
  struct Counts: Sendable {
    var revocations = 0
    var changes = 0
  }

  fileprivate struct Armed {
    let session: UserSession
    /// The number of its writes.
    var count = 0
  }

  private let state = Mutex(State())

  /// The number of logins.
  public var count: Int { state.withLock { $0.sessions.values.reduce(0) { $0 + $1.count } } }

  /// The numbers of events so far.
  var counts: Counts { state.withLock { $0.counts } }

  /// Returns the tokens of the logins of an account, one for each connection. Secrets. O(logins of the account).
  func tokens(of uid: Key) -> [String] {
    state.withLock { $0.sessions[uid]?.values.map(\.token) ?? [] }
  }

  /// Returns the tokens of all logins of an account, those with on-disconnect writes that wait too. Secrets.
  func allTokens(of uid: Key) -> Set<ByteString> {
    state.withLock { state in
      Set((state.sessions[uid] ?? [:]).values.map { ByteString($0.token) })
        .union((state.armed[uid] ?? [:]).values.map { ByteString($0.session.token) })
    }
  }

  /// The accounts with logins.
  var uids: [Key] {
    state.withLock { Array(Set($0.sessions.keys).union($0.armed.keys)) }
  }

  /// Adds a login that a connection begins. O(1).
  func add(_ session: UserSession) {
    state.withLock { $0.sessions[session.uid, default: [:]][ObjectIdentifier(session)] = session }
  }

  /// Removes a login that a connection ends. O(1). That does not revoke it: earlier writes of the connection are still
  /// made as writes of that user.
  public func remove(_ session: UserSession) {
    state.withLock { state in
      state.sessions[session.uid]?[ObjectIdentifier(session)] = nil
      if state.sessions[session.uid]?.isEmpty == true { state.sessions[session.uid] = nil }
    }
  }

  /// The number of on-disconnect writes that wait and have a session.
  var armedCount: Int {
    state.withLock { state in
      state.armed.values.reduce(0) { $0 + $1.values.reduce(0) { $0 + $1.count } }
    }
  }

  /// Notes that one more on-disconnect write of a session waits. O(1).
  func keep(_ session: UserSession) {
    state.withLock { state in
      state.armed[session.uid, default: [:]][
        ObjectIdentifier(session), default: Armed(session: session)
      ].count += 1
    }
  }

  /// Notes that one on-disconnect write of a session no longer waits. O(1).
  func release(_ session: UserSession) {
    state.withLock { state in
      let id = ObjectIdentifier(session)
      guard let count = state.armed[session.uid]?[id]?.count else { return }
      assert(count > 0, "a session without on-disconnect writes is released")
      state.armed[session.uid]?[id]?.count = count - 1
      guard count <= 1 else { return }
      state.armed[session.uid]?[id] = nil
      if state.armed[session.uid]?.isEmpty == true { state.armed[session.uid] = nil }
    }
  }

  /// Revokes the logins with a token that the store no longer has, and returns them.
  func revoke(_ uid: Key, token: String) -> [UserSession] {
    state.withLock { state in
      state.counts.revocations += 1
      return state.revoke(uid) { $0.token.hasSameBytes(as: token) }
    }
  }

  /// Revokes the logins with some tokens that the store no longer has, and returns them. O(logins of the account), with a
  /// digest for each.
  func revoke(_ uid: Key, tokens: Set<TokenDigest>) -> [UserSession] {
    state.withLock { state in
      state.counts.revocations += 1
      return state.revoke(uid) { TokenDigest(token: $0.token).map(tokens.contains) ?? false }
    }
  }

  /// Notes that an account may have changed, so that the claims of its logins may be others. O(logins of the account).
  func noteChange(of uid: Key) {
    state.withLock { state in
      state.counts.changes += 1
      for session in (state.sessions[uid] ?? [:]).values { session.noteChange() }
    }
  }

  /// Revokes all logins of an account whose tokens the store no longer has, and returns them.
  func revokeAll(_ uid: Key) -> [UserSession] {
    state.withLock { state in
      state.counts.revocations += 1
      return state.revoke(uid) { _ in true }
    }
  }
}

extension SessionRegistry.State {
  /// Revokes the sessions of an account that match, and returns those that connections hold.
  fileprivate mutating func revoke(
    _ uid: Key, where matches: (UserSession) -> Bool
  ) -> [UserSession] {
    for armed in (armed[uid] ?? [:]).values where matches(armed.session) {
      armed.session.revoke()
    }
    guard let all = sessions.removeValue(forKey: uid) else { return [] }
    let rest = all.filter { !matches($0.value) }
    if !rest.isEmpty { sessions[uid] = rest }
    let ended = all.values.filter(matches)
    for session in ended { session.revoke() }
    return ended
  }
}
