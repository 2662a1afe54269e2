internal import CanopyRules
internal import CanopyTree
internal import Synchronization

/// Who a connection is.
enum Identity: Sendable {
  case anonymous
  case user(UserSession)
  case administrator

  /// The login, of a user.
  var session: UserSession? {
    if case .user(let session) = self { session } else { nil }
  }

  /// Who this is to the rules; nil for the administrator, whom they do not bind. Whose session has
  /// ended is nobody.
  func caller(at now: Int64) -> RuleCaller? {
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

/// A login on one connection. It ends when its token is revoked, on whichever connection that
/// happens, or expires.
final class UserSession: Sendable {
  let uid: Key
  let email: String
  let token: String
  let expiresAt: Int64
  /// Who the user is to the rules, at no time yet.
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

  /// What rules know of a user as `auth`.
  static func auth(uid: Key, email: String?) -> Node {
    let token: [(Key, Node)] = email.map { [(emailKey, Node($0))] } ?? []
    return RuleCaller.auth(uid: uid.text, token: Node(children: token))
  }

  func revoke() {
    revoked.store(true, ordering: .releasing)
  }

  func isValid(at now: Int64) -> Bool {
    now < expiresAt && !revoked.load(ordering: .acquiring)
  }
}

/// The logins that connections hold at present, so that revoking a token takes effect at once on all
/// of them.
final class SessionRegistry: Sendable {
  fileprivate struct State {
    var sessions: [Key: [UserSession]] = [:]
    var revocations = 0
  }

  private let state = Mutex(State())

  /// The number of logins.
  var count: Int { state.withLock { $0.sessions.values.reduce(0) { $0 + $1.count } } }

  /// How often tokens have been revoked. If this has not changed between asking whether a token is
  /// valid and adding its login, it was valid then.
  var revocations: Int { state.withLock { $0.revocations } }

  /// Notes that a connection took on a login.
  func add(_ session: UserSession) {
    state.withLock { $0.sessions[session.uid, default: []].append(session) }
  }

  /// Notes that a connection gave its login up.
  func remove(_ session: UserSession) {
    _ = state.withLock { $0.end(session.uid) { $0 === session } }
  }

  /// Ends the logins with this token, which the store has forgotten already. Returns them.
  func revoke(_ uid: Key, token: String) -> [UserSession] {
    state.withLock { state in
      state.revocations += 1
      return state.end(uid) { $0.token.hasSameBytes(as: token) }
    }
  }

  /// Ends all logins of an account, whose tokens the store has forgotten already. Returns them.
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
