public import CanopyRules
public import CanopyTree
internal import Synchronization

/// The user of a connection.
public enum Identity: Sendable {
  /// Nobody has logged in.
  case anonymous
  /// A user has logged in.
  case user(UserSession)
  /// The administrator, whom the rules do not bind.
  case administrator

  /// The login; nil without a user.
  var session: UserSession? {
    if case .user(let session) = self { session } else { nil }
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

/// A login on one connection. It ends when its token expires or is revoked on any connection.
public final class UserSession: Sendable {
  /// The identifier of the user.
  public let uid: Key
  let email: String
  let token: String
  /// The end of the login in milliseconds since 1970.
  public let expiresAt: Int64
  /// The user as the rules see it; the time is to be set.
  let caller: RuleCaller
  private let revoked = Atomic(false)

  init(uid: Key, email: String, token: String, expiresAt: Int64) {
    self.uid = uid
    self.email = email
    self.token = token
    self.expiresAt = expiresAt
    caller = RuleCaller(auth: Self.auth(uid: uid, email: email), now: 0)
  }

  private static let emailKey: Key = "email"

  /// Returns the value of `auth` in the rules for a user.
  static func auth(uid: Key, email: String?) -> Node {
    let token: [(Key, Node)] = email.map { [(emailKey, Node($0))] } ?? []
    return RuleCaller.auth(uid: uid.text, token: Node(children: token))
  }

  func revoke() {
    revoked.store(true, ordering: .releasing)
  }

  /// Whether the login has neither expired nor been revoked.
  ///
  /// - Parameter now: milliseconds since 1970.
  public func isValid(at now: Int64) -> Bool {
    now < expiresAt && !revoked.load(ordering: .acquiring)
  }
}

/// The logins that connections hold at present, so that revoking a token takes effect at once on all
/// of them. Safe to use from any thread.
public final class SessionRegistry: Sendable {
  fileprivate struct State {
    var sessions: [Key: [UserSession]] = [:]
    var revocations = 0
  }

  private let state = Mutex(State())

  /// The number of logins.
  public var count: Int { state.withLock { $0.sessions.values.reduce(0) { $0 + $1.count } } }

  /// The number of revocations so far. If it is the same before a token is checked and after its login is
  /// added, no revocation came in between.
  var revocations: Int { state.withLock { $0.revocations } }

  /// Adds a login that a connection begins.
  func add(_ session: UserSession) {
    state.withLock { $0.sessions[session.uid, default: []].append(session) }
  }

  /// Removes a login that a connection ends.
  public func remove(_ session: UserSession) {
    _ = state.withLock { $0.end(session.uid) { $0 === session } }
  }

  /// Revokes the logins with a token that the store no longer has, and returns them.
  func revoke(_ uid: Key, token: String) -> [UserSession] {
    state.withLock { state in
      state.revocations += 1
      return state.end(uid) { $0.token == token }
    }
  }

  /// Revokes all logins of an account whose tokens the store no longer has, and returns them.
  func revokeAll(_ uid: Key) -> [UserSession] {
    state.withLock { state in
      state.revocations += 1
      return state.end(uid) { _ in true }
    }
  }
}

extension SessionRegistry.State {
  fileprivate mutating func end(
    _ uid: Key, where matches: (UserSession) -> Bool
  ) -> [UserSession] {
    guard let list = sessions[uid] else { return [] }
    let ended = list.filter(matches)
    for session in ended { session.revoke() }
    let rest = list.filter { !matches($0) }
    sessions[uid] = rest.isEmpty ? nil : rest
    return ended
  }
}
