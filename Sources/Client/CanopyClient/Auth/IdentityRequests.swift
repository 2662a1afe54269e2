package import CanopyTree

/// An identity token of the server's identity requests, and the refresh token that it came from.
package struct IdentityToken: Sendable {
  package var text: String
  package var refresh: String
  /// The end of the token, in milliseconds since 1970 by this machine's clock.
  package var expiresAt: Int64
  /// The number of times that the token was shown to a database.
  var uses = 0

  init(text: String, refresh: String, expiresAt: Int64) {
    self.text = text
    self.refresh = refresh
    self.expiresAt = expiresAt
  }

  /// Reads the tokens of a reply.
  ///
  /// - Parameter now: milliseconds since 1970.
  package init?(_ reply: JSONValue, now: Int64) {
    guard let text = reply["idToken"]?.string ?? reply["id_token"]?.string,
      let refresh = reply["refreshToken"]?.string ?? reply["refresh_token"]?.string
    else { return nil }
    let seconds = reply["expiresIn"]?.string ?? reply["expires_in"]?.string
    self.text = text
    self.refresh = refresh
    expiresAt = now &+ max(0, min(seconds.flatMap { Int64($0) } ?? 3_600, 86_400)) * 1_000
  }
}

/// The credential with which a session continues on a later connection of the realtime protocol.
package enum RealtimeCredential: Equatable, Sendable {
  /// A token that the database itself accepts.
  case token(String)
  /// A token that the identity requests exchange for an identity token.
  case refresh(String)

  private static let prefix = "refresh "

  /// Reads the text of `text`.
  package init(_ text: String) {
    let prefix = RealtimeCredential.prefix.utf8
    if text.utf8.starts(with: prefix) {
      self = .refresh(String(Substring(text.utf8.dropFirst(prefix.count))))
    } else {
      self = .token(text)
    }
  }

  /// The token itself.
  package var token: String {
    switch self {
    case .token(let token), .refresh(let token): token
    }
  }

  /// The credential as the session keeps it.
  package var text: String {
    switch self {
    case .token(let token): token
    case .refresh(let token): RealtimeCredential.prefix + token
    }
  }
}

/// The identity requests of a server with an HTTP port: `accounts:signUp` and the like.
extension RepositoryState {
  /// Sends an identity request.
  ///
  /// - Parameters:
  ///   - method: the name after `accounts:`.
  ///   - members: the members of the body that are strings.
  func askIdentity(
    _ method: StaticString, _ members: [(StaticString, String)],
    answer: @escaping Answer<Result<JSONValue, AuthError>>
  ) {
    var output = JSONOutput()
    output.append("{\"returnSecureToken\":true")
    for (name, value) in members {
      output.append(",\"")
      output.append(name)
      output.append("\":")
      output.append(string: value)
    }
    output.append("}")
    postIdentity(
      "/identitytoolkit.googleapis.com/v1/accounts:\(method)?key=canopy", "application/json",
      output.bytes, answer: answer)
  }

  /// Exchanges a refresh token for an identity token, which the state keeps.
  func refreshIdentity(
    _ refresh: String, answer: @escaping Answer<Result<IdentityToken, AuthError>>
  ) {
    let form = "grant_type=refresh_token&refresh_token=" + refresh.formEncoded
    postIdentity(
      "/securetoken.googleapis.com/v1/token?key=canopy", "application/x-www-form-urlencoded",
      [UInt8](form.utf8)
    ) { result, state in
      let token = result.flatMap { reply -> Result<IdentityToken, AuthError> in
        IdentityToken(reply, now: state.clock.local).map { .success($0) } ?? .failure(.unreadable)
      }
      // The user may have signed out or in meanwhile.
      if case .success(let token) = token, let stored = state.session.token,
        RealtimeCredential(stored) == .refresh(refresh)
      {
        state.keepIdentity(token)
      }
      answer(token, state)
    }
  }

  /// Keeps an identity token, and calls the token listeners if it replaces one of the same session.
  func keepIdentity(_ token: IdentityToken) {
    let isRenewed =
      identityToken.map {
        $0.refresh.hasSameBytes(as: token.refresh) && !$0.text.hasSameBytes(as: token.text)
      } ?? false
    identityToken = token
    if isRenewed { for each in session.tokenChanged() { call(each) } }
  }

  /// The identity token of the session, if it is valid for five minutes at least.
  var validIdentityToken: IdentityToken? {
    guard let stored = session.token, let token = identityToken,
      token.refresh == RealtimeCredential(stored).token,
      token.expiresAt > clock.local.addingReportingOverflow(300_000).partialValue
    else { return nil }
    return token
  }

  private func postIdentity(
    _ target: String, _ contentType: String, _ body: [UInt8],
    answer: @escaping Answer<Result<JSONValue, AuthError>>
  ) {
    let exchange = HTTPExchange(
      endpoint: endpoint, target: target, contentType: contentType, body: body,
      trusted: trustedFile, timeoutMilliseconds: options.requestMilliseconds)
    // Keep the repository: a released database still gets its answer, after the timeout at the latest.
    exchange.post { [owner] result in
      let reply = result.mapError { AuthError(.networkError, $0.sentence) }.flatMap {
        AuthError.readReply($0)
      }
      owner?.useLater { answer(reply, $0) }
    }
  }
}

extension AuthError {
  static let unreadable = AuthError(.internalError, "the server's answer cannot be read")

  // The sentences of the refusals are those that the line protocol sends.
  static let wrongCredentials = AuthError(
    .wrongPassword, "the e-mail address or the password is wrong; check both and try again")

  static let sessionEnded = AuthError(.userTokenExpired, "the session has ended; sign in again")

  /// Whether the session to which a request belongs has ended, so that the same request would fail again.
  var endsSession: Bool {
    switch code {
    case .invalidUserToken, .userTokenExpired, .userDisabled, .userNotFound: true
    default: false
    }
  }

  fileprivate static func readReply(
    _ response: HTTPExchange.Response
  ) -> Result<JSONValue, AuthError> {
    let json = JSONValue(reading: response.body)
    if response.status == 200 { return json.map { .success($0) } ?? .failure(.unreadable) }
    if response.status == 413 {
      // The words that a line which is too long gets.
      return .failure(AuthError(.invalidArgument, "the request is longer than the server accepts"))
    }
    guard let message = json?["error"]?["message"]?.string else {
      return .failure(
        AuthError(.internalError, "the server answered an identity request with \(response.status)")
      )
    }
    return .failure(AuthError(identityMessage: message))
  }

  /// Creates an error from a message such as `WEAK_PASSWORD : The password is too short`.
  package init(identityMessage message: String) {
    let separators = " :".utf8
    let wordBytes = message.utf8.prefix { !separators.contains($0) }
    let rest = message.utf8.dropFirst(wordBytes.count).drop { separators.contains($0) }
    let word = String(Substring(wordBytes))
    let isRefusal = ["INVALID_", "MISSING_"].contains { wordBytes.starts(with: $0.utf8) }
    let (code, sentence): (Code, String) =
      switch word {
      case "EMAIL_EXISTS":
        (
          .emailAlreadyInUse,
          "that e-mail address or user name is not available; choose another or log in"
        )
      case "INVALID_LOGIN_CREDENTIALS", "INVALID_PASSWORD", "EMAIL_NOT_FOUND":
        (.wrongPassword, AuthError.wrongCredentials.sentence)
      case "USER_DISABLED":
        (.userDisabled, "this account is disabled; ask an administrator to enable it")
      case "WEAK_PASSWORD": (.weakPassword, "the password is too weak")
      case "TOO_MANY_ATTEMPTS_TRY_LATER": (.tooManyRequests, "too many attempts; try again later")
      case "TOKEN_EXPIRED": (.userTokenExpired, AuthError.sessionEnded.sentence)
      case "INVALID_ID_TOKEN", "INVALID_REFRESH_TOKEN":
        (.invalidUserToken, AuthError.sessionEnded.sentence)
      case "USER_NOT_FOUND": (.userNotFound, "the account does not exist any more")
      case "CREDENTIAL_TOO_OLD_LOGIN_AGAIN":
        (.requiresRecentLogin, "the last sign-in is too long ago; call reauthenticate(with:) first")
      case "INVALID_EMAIL":
        (.invalidEmail, "that is not an e-mail address; write it as name@example.org")
      case "MISSING_EMAIL": (.missingEmail, "an e-mail address is missing")
      case "INVALID_CUSTOM_TOKEN", "MISSING_CUSTOM_TOKEN":
        (.invalidCustomToken, "the custom token is not valid; get another one")
      case "INVALID_OOB_CODE", "MISSING_OOB_CODE":
        (.invalidActionCode, "the code is not valid; request another")
      case "EXPIRED_OOB_CODE": (.expiredActionCode, "the code has expired; request another")
      case "OPERATION_NOT_ALLOWED":
        (.operationNotAllowed, "the server does not offer this operation")
      case _ where isRefusal:
        (.invalidArgument, "the server refused the request: \(word)")
      default: (.internalError, "the server refused the request: \(word)")
      }
    self.init(code, rest.isEmpty ? sentence : String(Substring(rest)))
  }
}

extension String {
  /// The text as a value of a form.
  fileprivate var formEncoded: String {
    var result = ""
    for byte in utf8 {
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"),
        UInt8(ascii: "."):
        result.unicodeScalars.append(Unicode.Scalar(byte))
      default:
        let digits = String(byte, radix: 16, uppercase: true)
        result += digits.utf8.count == 1 ? "%0" + digits : "%" + digits
      }
    }
    return result
  }
}
