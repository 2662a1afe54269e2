public import CanopyRules
public import CanopyTree
internal import Synchronization

/// The user of a verified token, as the rules see it.
public struct VerifiedIdentity: Sendable {
  /// The identifier of the user: `auth.uid`.
  public let uid: String
  /// The method of the login: `auth.provider`. One of `password`, `custom` and `anonymous`.
  public let provider: String
  /// The claims of the token: `auth.token`. Claims whose names are not valid keys are left out.
  public let claims: Node
  /// The time at which the token expires, in milliseconds since 1970.
  public let expiresAt: Int64
  /// The time of the login in seconds since 1970.
  public let loginTime: Int64
  /// Whether the token is an unsigned one of an emulator, whose user need not have an account.
  public let isUnsigned: Bool
  /// The value of `auth` in rules, with `uid`, `token` and `provider`.
  public let auth: Node

  init(
    uid: String, provider: String, claims: Node, expiresAt: Int64, loginTime: Int64,
    isUnsigned: Bool
  ) {
    self.uid = uid
    self.provider = provider
    self.claims = claims
    self.expiresAt = expiresAt
    self.loginTime = loginTime
    self.isUnsigned = isUnsigned
    auth = RuleCaller.auth(uid: uid, provider: provider, token: claims)
  }

  /// The time of the login; nil for an unsigned token, whose login does not end.
  public var endableLoginTime: Int64? { isUnsigned ? nil : loginTime }

  /// The claims of the custom token with which the login began, as the text of a JSON object; nil for another login.
  /// They are the claims that the server does not set.
  var customClaims: String? {
    guard provider.hasSameBytes(as: "custom") else { return nil }
    var members: [(Key, Node)] = []
    claims.forEachChild { key, node in
      if !IdentityService.reservedClaims.contains(key.text) { members.append((key, node)) }
      return true
    }
    return members.isEmpty ? "{}" : Node(children: members).json()
  }

  /// Returns the caller for the rules.
  ///
  /// - Parameter now: milliseconds since 1970.
  public func caller(at now: Int64) -> RuleCaller {
    RuleCaller(auth: auth, now: now)
  }
}

/// The reason why a token is refused.
public enum IdentityProblem: Error, Sendable, Equatable {
  /// The token is malformed, of another project, or not signed by this server.
  case invalid
  /// The token has expired.
  case expired
  /// The logins of the user have ended: by a new password or address, or because the user signed out everywhere.
  case revoked
  /// An administrator has disabled the account.
  case disabled
  /// The account does not exist any more.
  case missing
  /// The custom token is malformed, has expired, or is not signed by this server.
  case invalidCustomToken
  /// The last login is too long ago for a change that a stolen token must not make.
  case loginTooOld

  /// One sentence that says what to do.
  public var sentence: String {
    switch self {
    case .invalid: "the token is not valid; log in again"
    case .expired: "the token has expired; get a new one with the refresh token"
    case .revoked: "the token was revoked; log in again"
    case .disabled: "this account is disabled; ask an administrator to enable it"
    case .missing: "the account does not exist any more; sign up again"
    case .invalidCustomToken: "the custom token is not valid; ask the administrator for a new one"
    case .loginTooOld: "this needs a recent login; log in again, or prove your password again"
    }
  }
}

/// The tokens that were verified last, so that a client that sends its token with each request costs one verification of
/// a signature in an hour.
///
/// There are two generations: if the younger one is full, the older one is dropped and the younger one becomes the older
/// one. So each operation is O(1), and a token that is in use stays. Bounded by its capacity. Safe to use from any thread.
final class VerifiedTokens: Sendable {
  private struct State {
    var young: [[UInt8]: VerifiedIdentity] = [:]
    var old: [[UInt8]: VerifiedIdentity] = [:]
  }

  private let generationMax: Int
  private let state = Mutex(State())

  init(capacity: Int) {
    generationMax = max(1, capacity / 2)
  }

  /// The number of tokens in memory.
  var count: Int { state.withLock { $0.young.count + $0.old.count } }

  subscript(token: [UInt8]) -> VerifiedIdentity? {
    state.withLock { state in
      if let identity = state.young[token] { return identity }
      guard let identity = state.old.removeValue(forKey: token) else { return nil }
      add(identity, for: token, to: &state)
      return identity
    }
  }

  func add(_ identity: VerifiedIdentity, for token: [UInt8]) {
    state.withLock { add(identity, for: token, to: &$0) }
  }

  func remove(_ token: [UInt8]) {
    state.withLock { state in
      state.young[token] = nil
      state.old[token] = nil
    }
  }

  private func add(_ identity: VerifiedIdentity, for token: [UInt8], to state: inout State) {
    if state.young.count >= generationMax {
      state.old = state.young
      state.young = [:]
    }
    state.young[token] = identity
  }
}
