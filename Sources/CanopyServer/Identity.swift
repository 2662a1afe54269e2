internal import CanopyTree
internal import Synchronization

/// Who a connection is.
enum Identity: Sendable {
  case anonymous
  case user(UserSession)
  case administrator
}

/// A login on one connection. It ends when its token is revoked, on whichever connection that
/// happens, or expires.
final class UserSession: Sendable {
  let uid: Key
  let email: String
  let token: String
  let expiresAt: Int64
  private let revoked = Atomic(false)

  init(uid: Key, email: String, token: String, expiresAt: Int64) {
    self.uid = uid
    self.email = email
    self.token = token
    self.expiresAt = expiresAt
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
    state.withLock { $0.end(session.uid) { $0 === session } }
  }

  /// Ends the logins with this token, which the store has forgotten already.
  func revoke(_ uid: Key, token: String) {
    state.withLock { state in
      state.revocations += 1
      state.end(uid) { $0.token == token }
    }
  }

  /// Ends all logins of an account, whose tokens the store has forgotten already.
  func revokeAll(_ uid: Key) {
    state.withLock { state in
      state.revocations += 1
      state.end(uid) { _ in true }
    }
  }
}

extension SessionRegistry.State {
  fileprivate mutating func end(_ uid: Key, where matches: (UserSession) -> Bool) {
    guard let list = sessions[uid] else { return }
    for session in list where matches(session) { session.revoke() }
    let rest = list.filter { !matches($0) }
    sessions[uid] = rest.isEmpty ? nil : rest
  }
}
