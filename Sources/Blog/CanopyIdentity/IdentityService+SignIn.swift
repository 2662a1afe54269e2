internal import CanopyAccounts
internal import CanopyTree

/// Requests that begin a login.
extension IdentityService {
  /// Creates an account: with an e-mail address and a password, anonymous, or credentials for an account without them.
  func signUp(_ body: RequestBody, _ request: IdentityRequest) async throws -> JSONValue {
    let (email, password) = (try body.text("email"), try body.text("password"))
    if try body.text("idToken") != nil { return try await link(body, request) }
    guard email != nil || password == nil else { throw IdentityError.missingEmail }
    if email != nil, password?.isEmpty ?? true { throw IdentityError.missingPassword }
    var draft = AccountDraft()
    draft.email = email
    draft.password = password
    draft.details.displayName = try body.displayName()
    draft.details.photoURL = try body.photoURL()
    let login = try await accounts.beginSignUp(draft, from: request.network)
    return try answer("SignupNewUserResponse", login)
  }

  /// Adds credentials to the account of an identity token.
  private func link(_ body: RequestBody, _ request: IdentityRequest) async throws -> JSONValue {
    guard let email = try body.text("email") else { throw IdentityError.missingEmail }
    guard let password = try body.text("password"), !password.isEmpty else {
      throw IdentityError.missingPassword
    }
    let identity = try await identity(in: body)
    try await requireRecentLogin(identity)
    var changes = AccountChanges()
    changes.email = .set(email)
    changes.password = .set(password)
    changes.displayName = try body.displayName().map { .set($0) }
    let account = try await change(
      identity.uid, changes, loginTime: identity.endableLoginTime, from: request.network)
    guard let login = try await accounts.login(account) else { throw IdentityError.tokenExpired }
    return try answer("SignupNewUserResponse", login)
  }

  func signInWithPassword(
    _ body: RequestBody, _ request: IdentityRequest
  ) async throws -> JSONValue {
    guard let email = try body.text("email") else { throw IdentityError.missingEmail }
    guard let password = try body.text("password"), !password.isEmpty else {
      throw IdentityError.missingPassword
    }
    let login = try await accounts.beginLogin(
      email: email, password: password, from: request.network)
    return try answer(
      "VerifyPasswordResponse", login,
      [
        ("displayName", .text(login.account.details.displayName ?? "")),
        ("registered", .flag(true)),
      ])
  }

  func signInWithCustomToken(
    _ body: RequestBody, _ request: IdentityRequest
  ) async throws -> JSONValue {
    guard let text = try body.text("token"), !text.isEmpty else {
      throw IdentityError.missingCustomToken
    }
    let (login, isNew) = try await beginLogin(
      customToken: text, from: request.network, in: request.turns)
    let kind: JSONMembers = [("kind", .text("identitytoolkit#VerifyCustomTokenResponse"))]
    return .object(kind + (try tokens(for: login)) + [("isNewUser", .flag(isNew))])
  }

  /// Exchanges a refresh token for an identity token.
  func token(_ request: IdentityRequest) async throws -> JSONValue {
    let grantType: String?
    let refreshToken: String?
    let brace = UInt8(ascii: "{")
    if request.body.first(where: { $0 > UInt8(ascii: " ") }) == brace {
      let body = try await RequestBody(of: request)
      grantType = try body.text("grant_type") ?? body.text("grantType")
      refreshToken = try body.text("refresh_token") ?? body.text("refreshToken")
    } else {
      (grantType, refreshToken) = try await request.turns.take(bytes: request.body.count) {
        let form = FormBody(request.body)
        return (form.text("grant_type"), form.text("refresh_token"))
      }
    }
    guard let grantType, !grantType.isEmpty else { throw IdentityError.missingGrantType }
    guard grantType.hasSameBytes(as: "refresh_token") else {
      throw IdentityError.invalidGrantType
    }
    guard let refreshToken, !refreshToken.isEmpty else {
      throw IdentityError.missingRefreshToken
    }
    guard TokenDigest(token: refreshToken) != nil else {
      throw IdentityError.invalidRefreshToken
    }
    let login = try await accounts.refresh(refreshToken)
    let idToken = try idToken(for: login)
    return .object([
      ("access_token", .text(idToken)), ("expires_in", .text(lifetimeSeconds)),
      ("token_type", .text("Bearer")), ("refresh_token", .text(refreshToken)),
      ("id_token", .text(idToken)), ("user_id", .text(login.account.uid)),
      ("project_id", .text(settings.project)),
    ])
  }

  /// Returns the response with the tokens of a login.
  private func answer(
    _ kind: String, _ login: Login, _ further: JSONMembers = []
  ) throws -> JSONValue {
    let account = login.account
    var members: JSONMembers = [
      ("kind", .text("identitytoolkit#" + kind)), ("localId", .text(account.uid)),
    ]
    if !account.email.isEmpty { members.append(("email", .text(account.email))) }
    return .object(members + further + (try tokens(for: login)))
  }
}

extension RequestBody {
  /// The maximum size of a name for display, in bytes.
  private static let nameBytesMax = 256
  /// The maximum size of the address of a picture, in bytes.
  private static let photoBytesMax = 1_024

  /// Returns the name for display; nil if it is missing.
  func displayName() throws -> String? {
    try short("displayName", Self.nameBytesMax)
  }

  /// Returns the address of a picture; nil if it is missing.
  func photoURL() throws -> String? {
    try short("photoUrl", Self.photoBytesMax)
  }

  /// Returns a text that identity tokens contain, so that it must be short and without control characters.
  private func short(_ name: String, _ bytesMax: Int) throws -> String? {
    guard let text = try text(name) else { return nil }
    guard text.utf8.count <= bytesMax, !text.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F })
    else {
      throw IdentityError.invalidArgument(
        "\(name) may have at most \(bytesMax) bytes and no control characters")
    }
    return text
  }
}
