public import CanopyRules
public import CanopyTree

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
  /// The time at which the token was issued, in seconds since 1970; `.min` if it does not matter.
  let issueTime: Int64
  /// The time at which the session of a session token began, in seconds since 1970; nil for an identity token.
  let sessionTime: Int64?
  /// Whether the token is an unsigned one of an emulator, whose user need not have an account.
  public let isUnsigned: Bool
  /// The value of `auth` in rules, with `uid`, `token` and `provider`.
  public let auth: Node

  init(
    uid: String, provider: String, claims: Node, expiresAt: Int64, loginTime: Int64,
    issueTime: Int64 = .min, sessionTime: Int64? = nil, isUnsigned: Bool
  ) {
    self.uid = uid
    self.provider = provider
    self.claims = claims
    self.expiresAt = expiresAt
    self.loginTime = loginTime
    self.issueTime = issueTime
    self.sessionTime = sessionTime
    self.isUnsigned = isUnsigned
    auth = RuleCaller.auth(uid: uid, provider: provider, token: claims)
  }

  /// The time of the login; nil for an unsigned token, whose login does not end.
  public var endableLoginTime: Int64? { isUnsigned ? nil : loginTime }

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
