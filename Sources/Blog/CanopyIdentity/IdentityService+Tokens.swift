public import CanopyAccounts
internal import CanopyRules
public import CanopyTree

/// The claims and the texts of tokens.
extension IdentityService {
  /// The names of claims that only the server sets.
  static let reservedClaims: Set<String> = [
    "acr", "amr", "at_hash", "aud", "auth_time", "azp", "cnf", "c_hash", "email",
    "email_verified", "exp", "firebase", "iat", "iss", "jti", "name", "nbf", "nonce", "picture",
    "provider_id", "sub", "user_id",
  ]

  /// The audience of custom tokens.
  static let customAudience =
    "https://identitytoolkit.googleapis.com/google.identity.identitytoolkit.v1.IdentityToolkit"

  /// Returns the claims of an identity token.
  ///
  /// - Parameters:
  ///   - login: the session and its account.
  ///   - now: milliseconds since 1970.
  func claims(of login: Login, now: Int64) -> JSONValue {
    claims(
      of: login.account, login.session.provider, custom: login.session.customClaims,
      loginTime: login.time, now: now)
  }

  /// Returns the value of `auth` in rules for the user of an account who has just logged in, without a custom token.
  public func auth(of account: Account) -> Node {
    let now = environment.now()
    let claims = claims(
      of: account, account.provider, custom: nil,
      loginTime: max(now / 1_000, account.details.validSince), now: now)
    return RuleCaller.auth(uid: account.uid, provider: account.provider, token: claims.node)
  }

  /// Returns the claims of an identity token.
  ///
  /// - Parameters:
  ///   - account: the account.
  ///   - provider: the method of the login.
  ///   - custom: the claims of the custom token of the login; nil for another login.
  ///   - loginTime: the time of the login in seconds since 1970.
  ///   - now: milliseconds since 1970.
  private func claims(
    of account: Account, _ provider: String, custom: String?, loginTime: Int64, now: Int64
  ) -> JSONValue {
    let details = account.details
    var members: JSONMembers = []
    for text in [details.claims, custom] {
      let added = text.flatMap { JSONValue(bytes: Array($0.utf8)) }?.members ?? []
      for member in added where !Self.reservedClaims.contains(member.name) {
        members.removeAll { $0.name.hasSameBytes(as: member.name) }
        members.append(member)
      }
    }
    if let name = details.displayName { members.append(("name", .text(name))) }
    if let photo = details.photoURL { members.append(("picture", .text(photo))) }
    if provider.hasSameBytes(as: "anonymous") {
      members.append(("provider_id", .text("anonymous")))
    }
    let (end, overflow) = now.addingReportingOverflow(settings.tokenLifetimeMilliseconds)
    members += [
      ("iss", .text(settings.issuer)), ("aud", .text(settings.project)),
      ("auth_time", .number(loginTime)), ("user_id", .text(account.uid)),
      ("sub", .text(account.uid)), ("iat", .number(now / 1_000)),
      ("exp", .number((overflow ? .max : end) / 1_000)),
    ]
    var identities: JSONMembers = []
    if !account.email.isEmpty {
      members.append(("email", .text(account.email)))
      members.append(("email_verified", .flag(details.isEmailVerified)))
      identities.append(("email", .array([.text(account.email)])))
    }
    members.append(
      (
        "firebase",
        .object([("identities", .object(identities)), ("sign_in_provider", .text(provider))])
      ))
    return .object(members)
  }

  /// Returns an identity token for a login.
  ///
  /// - Throws: ``IdentityError/unavailable`` if there is no key, which an earlier step has checked.
  func idToken(for login: Login) throws -> String {
    guard let key = keys.signing else { throw IdentityError.unavailable }
    return try JSONWebToken.sign(claims(of: login, now: environment.now()), with: key)
  }

  /// Returns the identity of a session, with the claims that its identity token would have.
  func identity(of login: Login) -> VerifiedIdentity {
    let claims = claims(of: login, now: environment.now())
    return VerifiedIdentity(
      uid: login.account.uid, provider: login.session.provider, claims: claims.node,
      expiresAt: login.session.expiresAt, loginTime: login.time,
      sessionTime: login.beganAt / 1_000, isUnsigned: false)
  }

  /// The members of a response with new tokens.
  func tokens(for login: Login) throws -> JSONMembers {
    [
      ("idToken", .text(try idToken(for: login))),
      ("refreshToken", .text(login.session.token)), ("expiresIn", .text(lifetimeSeconds)),
    ]
  }

  /// The lifetime of an identity token in seconds, as text.
  var lifetimeSeconds: String { String(settings.tokenLifetimeMilliseconds / 1_000) }

  /// Returns a custom token, with which a client logs in as a user. The token is valid for an hour, or until the logins of
  /// the user end.
  ///
  /// - Parameters:
  ///   - uid: the user, who need not have an account.
  ///   - claims: further claims, as the text of a JSON object of at most 1,000 bytes and 16 levels.
  /// - Throws: ``ClaimsProblem`` if the uid or the claims are not valid; an error if there is no key; an error of the store.
  public func makeCustomToken(uid: String, claims: String = "{}") async throws -> String {
    guard Self.isValid(uid: uid) else { throw ClaimsProblem.invalidUID }
    let developer = try Self.checkedClaims(claims)
    guard let key = keys.signing else { throw IdentityError.unavailable }
    // The time of the login may be later than the present one, as in an identity token.
    let loginTime = try await accounts.loginTime(of: uid)
    let second = environment.now() / 1_000
    return try JSONWebToken.sign(
      .object([
        ("iss", .text(settings.issuer)), ("sub", .text(settings.issuer)),
        ("aud", .text(Self.customAudience)), ("iat", .number(second)),
        ("exp", .number(second + 3_600)), ("auth_time", .number(loginTime)), ("uid", .text(uid)),
        ("claims", developer),
      ]), with: key)
  }

  /// Begins a login with a custom token: one of ``makeCustomToken(uid:claims:)``, or in an emulator an unsigned one of an
  /// Admin library. Creates the account if it does not exist.
  ///
  /// - Returns: the login, and whether the account is new.
  /// - Throws: ``IdentityProblem/invalidCustomToken``, also if the logins of the user have ended since the token was made;
  ///   an `AccountError`; an error of the store.
  func beginLogin(
    customToken text: String, from network: RemoteNetwork, in turns: ComputingTurns
  ) async throws -> (login: Login, isNew: Bool) {
    let token = try await turns.take(bytes: text.utf8.count) { [self] in
      try verifyCustomToken(text)
    }
    do {
      return try await accounts.beginCustomLogin(
        uid: token.uid, claims: token.claims, loginTime: token.loginTime, from: network)
    } catch AccountError.tokenRefused {
      throw IdentityProblem.invalidCustomToken
    }
  }

  /// Returns the user and the claims of a custom token, and the time of its login in seconds since 1970; nil for an
  /// unsigned one, whose logins do not end.
  ///
  /// - Throws: ``IdentityProblem/invalidCustomToken``.
  private func verifyCustomToken(
    _ text: String
  ) throws -> (uid: String, claims: String, loginTime: Int64?) {
    let now = environment.now()
    guard let token = JSONWebToken(text) else { throw IdentityProblem.invalidCustomToken }
    let isUnsigned = settings.isEmulator && token.isUnsigned
    guard isUnsigned || token.isSigned(by: keys, now: now),
      token.claims["aud"]?.string?.hasSameBytes(as: Self.customAudience) == true,
      let expiry = token.claims["exp"]?.integerNumber, now / 1_000 < expiry,
      token.claims["iat"]?.integerNumber ?? .min <= latestIssueTime,
      let uid = token.claims["uid"]?.string ?? token.claims["user_id"]?.string,
      Self.isValid(uid: uid)
    else { throw IdentityProblem.invalidCustomToken }
    let claims = token.claims["claims"] ?? .object([])
    let json = String(decoding: claims.jsonBytes, as: UTF8.self)
    do { _ = try Self.checkedClaims(json) } catch { throw IdentityProblem.invalidCustomToken }
    // A token of an earlier version has no time of its login.
    let loginTime =
      token.claims["auth_time"]?.integerNumber ?? token.claims["iat"]?.integerNumber ?? .min
    return (uid, json, isUnsigned ? nil : loginTime)
  }

  /// Returns claims that an administrator sets.
  ///
  static func checkedClaims(_ text: String) throws(ClaimsProblem) -> JSONValue {
    guard text.utf8.count <= ClaimsProblem.bytesMax else { throw .tooLarge }
    guard let value = JSONValue(bytes: Array(text.utf8)), let members = value.members else {
      throw .invalid
    }
    guard value.depth <= ClaimsProblem.depthMax else { throw .tooDeep }
    for member in members where reservedClaims.contains(member.name) {
      throw .reserved(member.name)
    }
    return value
  }
}
