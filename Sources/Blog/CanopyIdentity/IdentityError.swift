internal import CanopyAccounts
internal import CanopyTree

/// An error for an Auth client: a status and a word of the original.
struct IdentityError: Error, Equatable {
  /// The status of the response.
  let status: Int
  /// The word, perhaps with a sentence after ` : `.
  let word: String
  /// The kind of the error in Google's interfaces; nil for the errors of accounts.
  let kind: String?
  /// The reason in the server's own terms. Most statuses are 400, so they do not distinguish the reasons.
  let reason: IdentityResponse.Refusal

  /// Creates an error of an account.
  init(_ word: String, _ reason: IdentityResponse.Refusal = .invalid) {
    self.init(400, word, reason)
  }

  private init(
    _ status: Int, _ word: String, kind: String? = nil, _ reason: IdentityResponse.Refusal
  ) {
    self.status = status
    self.word = word
    self.kind = kind
    self.reason = reason
  }

  static let credentialTooOld = IdentityError("CREDENTIAL_TOO_OLD_LOGIN_AGAIN", .unauthenticated)
  static let emailExists = IdentityError("EMAIL_EXISTS", .conflict)
  static let emailNotFound = IdentityError("EMAIL_NOT_FOUND", .notFound)
  static let expiredCode = IdentityError("EXPIRED_OOB_CODE", .unauthenticated)
  static let invalidClaims = IdentityError("INVALID_CLAIMS")
  static let invalidCode = IdentityError("INVALID_OOB_CODE", .unauthenticated)
  static let invalidCustomToken = IdentityError("INVALID_CUSTOM_TOKEN", .unauthenticated)
  static let invalidEmail = IdentityError("INVALID_EMAIL")
  static let invalidGrantType = IdentityError("INVALID_GRANT_TYPE")
  static let invalidIDToken = IdentityError("INVALID_ID_TOKEN", .unauthenticated)
  static let invalidCredentials = IdentityError("INVALID_LOGIN_CREDENTIALS", .unauthenticated)
  static let invalidPageToken = IdentityError("INVALID_PAGE_SELECTION")
  static let invalidRefreshToken = IdentityError("INVALID_REFRESH_TOKEN", .unauthenticated)
  static let missingCode = IdentityError("MISSING_OOB_CODE")
  static let missingCustomToken = IdentityError("MISSING_CUSTOM_TOKEN")
  static let missingEmail = IdentityError("MISSING_EMAIL")
  static let missingGrantType = IdentityError("MISSING_GRANT_TYPE")
  static let missingIDToken = IdentityError("MISSING_ID_TOKEN", .unauthenticated)
  static let missingLocalID = IdentityError("MISSING_LOCAL_ID")
  static let missingPassword = IdentityError("MISSING_PASSWORD")
  static let missingRefreshToken = IdentityError("MISSING_REFRESH_TOKEN")
  static let missingRequestType = IdentityError("MISSING_REQ_TYPE")
  static let operationNotAllowed = IdentityError("OPERATION_NOT_ALLOWED", .denied)
  static let tokenExpired = IdentityError("TOKEN_EXPIRED", .unauthenticated)
  static let tooManyAttempts = IdentityError("TOO_MANY_ATTEMPTS_TRY_LATER", .rateLimited)
  static let uidExists = IdentityError("DUPLICATE_LOCAL_ID", .conflict)
  static let userDisabled = IdentityError("USER_DISABLED", .unauthenticated)
  static let userNotFound = IdentityError("USER_NOT_FOUND", .notFound)

  static let unknownPath = IdentityError(404, "Not Found", kind: "NOT_FOUND", .notFound)
  static let wrongMethod = IdentityError(
    405, "Method Not Allowed", kind: "INVALID_ARGUMENT", .invalid)
  static let tooLarge = IdentityError(
    413, "The request is larger than the server accepts.", kind: "INVALID_ARGUMENT", .tooLarge)
  static let notAdministrator = IdentityError(
    401,
    "Request had invalid authentication credentials. Only the administrator of an emulator may make it.",
    kind: "UNAUTHENTICATED", .unauthenticated)
  static let unavailable = IdentityError(
    503, "The accounts cannot be read or written now. Try again later.", kind: "UNAVAILABLE",
    .unavailable)
  static let uncertain = IdentityError(
    503, "The server failed. The change may have been made or not. Log in again to find out.",
    kind: "UNAVAILABLE", .unavailable)

  /// Whether the error is not the client's.
  var isFailure: Bool { status == 503 }

  /// The error of a body that is not valid.
  static func invalidBody(_ sentence: String) -> IdentityError {
    IdentityError(
      400, "Invalid JSON payload received. " + sentence, kind: "INVALID_ARGUMENT", .invalid)
  }

  /// The error of a value that is out of bounds.
  static func invalidArgument(_ sentence: String) -> IdentityError {
    IdentityError("INVALID_ARGUMENT : " + sentence)
  }

  /// The error of a password that is not acceptable.
  static func weakPassword(_ sentence: String) -> IdentityError {
    IdentityError("WEAK_PASSWORD : " + sentence)
  }
}

extension IdentityError {
  /// Creates the error for any error of this module or of the accounts. Another error comes from the store.
  init(_ error: any Error) {
    switch error {
    case let error as IdentityError: self = error
    case let problem as IdentityProblem: self.init(problem)
    case let problem as ClaimsProblem: self.init(problem)
    case let error as AccountError: self.init(error)
    case is UncertainChange: self = .uncertain
    default: self = .unavailable
    }
  }

  private init(_ error: AccountError) {
    switch error {
    case .invalidEmail: self = .invalidEmail
    case .invalidPassword: self = .weakPassword(error.sentence)
    case .credentialsRefused, .otherAccount: self = .invalidCredentials
    case .tokenRefused: self = .tokenExpired
    case .rateLimited, .overloaded: self = .tooManyAttempts
    case .hashingFailed, .administratorTokenUnusable: self = .unavailable
    case .taken: self = .emailExists
    case .uidTaken: self = .uidExists
    case .disabled: self = .userDisabled
    case .notFound: self = .userNotFound
    case .codeRefused: self = .invalidCode
    case .codeExpired: self = .expiredCode
    }
  }

  private init(_ problem: ClaimsProblem) {
    switch problem {
    case .invalidUID: self = .invalidArgument(problem.sentence)
    case .tooLarge: self.init("CLAIMS_TOO_LARGE")
    case .invalid, .tooDeep: self = .invalidClaims
    case .reserved(let name): self.init("FORBIDDEN_CLAIM : " + name)
    }
  }

  private init(_ problem: IdentityProblem) {
    switch problem {
    case .invalid: self = .invalidIDToken
    case .expired, .revoked: self = .tokenExpired
    case .disabled: self = .userDisabled
    case .missing: self = .userNotFound
    case .invalidCustomToken: self = .invalidCustomToken
    case .loginTooOld: self = .credentialTooOld
    }
  }

  /// The response with the error, as the original writes it.
  var response: IdentityResponse {
    var members: [(name: String, value: JSONValue)] = [
      ("code", .number(Int64(status))), ("message", .text(word)),
      (
        "errors",
        .array([
          .object([
            ("message", .text(word)), ("reason", .text("invalid")), ("domain", .text("global")),
          ])
        ])
      ),
    ]
    if let kind { members.append(("status", .text(kind))) }
    return IdentityResponse(
      .object([("error", .object(members))]), status: status, refusal: reason)
  }
}
