internal import CanopyWire

/// The reason why a sign-in, a sign-up or a similar operation failed.
///
/// As an `NSError` it has the domain ``AuthErrorDomain`` and the number of its code.
public struct AuthError: Error, Equatable, Sendable {
  /// The kinds of failure.
  public typealias Code = AuthErrorCode

  /// The kind of failure.
  public var code: Code
  /// A sentence that says what is wrong and what to do about it.
  public var sentence: String

  /// Creates an error.
  public init(_ code: Code, _ sentence: String) {
    self.code = code
    self.sentence = sentence
  }
}

extension AuthError: LocalizedError, CustomStringConvertible {
  /// The sentence, which `localizedDescription` returns.
  public var errorDescription: String? { sentence }

  /// The code and the sentence.
  public var description: String { "\(code): \(sentence)" }
}

extension AuthError: CustomNSError {
  /// The domain that Firebase's library uses.
  public static var errorDomain: String { AuthErrorDomain }

  /// The number of the code.
  public var errorCode: Int { code.rawValue }

  /// The sentence, and the name of the code if Firebase has one.
  public var errorUserInfo: [String: Any] {
    var info: [String: Any] = [NSLocalizedDescriptionKey: sentence]
    info[AuthErrorUserInfoNameKey] = code.name
    return info
  }
}

extension AuthError {
  /// Creates the error for a failed request.
  init(_ error: WireError, of kind: SessionRequest.Kind) {
    let code =
      error.reason.map { AuthErrorCode($0, of: kind) } ?? AuthErrorCode(withoutReason: error, kind)
    self.init(code, error.sentence)
  }
}

extension AuthErrorCode {
  /// Returns the code for the reason that the server gives.
  init(_ reason: WireError.Reason, of kind: SessionRequest.Kind) {
    self =
      switch reason {
      case .invalidEmail: .invalidEmail
      case .missingEmail: .missingEmail
      case .invalidPassword: .weakPassword
      case .wrongCredentials: .wrongPassword
      case .sessionEnded: kind.isToken ? .invalidUserToken : .userTokenExpired
      case .invalidCustomToken: .invalidCustomToken
      case .invalidCode: .invalidActionCode
      case .expiredCode: .expiredActionCode
      case .taken: .emailAlreadyInUse
      case .otherAccount: .userMismatch
      case .noAccount: .userNotFound
      case .accountDisabled: .userDisabled
      case .loginTooOld: .requiresRecentLogin
      case .notOffered: .operationNotAllowed
      }
  }

  /// Returns the code for an error without a reason. Either the server gives no reasons, or the
  /// code of the error is precise enough.
  ///
  /// A server without reasons sends only a sentence, so this looks for words in it.
  init(withoutReason error: WireError, _ kind: SessionRequest.Kind) {
    self =
      switch error.code {
      case .unauthenticated:
        switch kind {
        case .token: .invalidUserToken
        case .customToken: .invalidCustomToken
        case .resetPassword, .verifyEmail:
          error.sentence.contains("expired") ? .expiredActionCode : .invalidActionCode
        case .logIn, .password: .wrongPassword
        case .confirm: error.sentence.contains("is wrong") ? .wrongPassword : .userTokenExpired
        default: .userTokenExpired
        }
      case .conflict: kind.isConfirmation ? .userMismatch : .emailAlreadyInUse
      case .unknownVerb: .operationNotAllowed
      case .notFound where kind.mayBeMissing: .operationNotAllowed
      case .permissionDenied where kind.needsRecentLogin: .requiresRecentLogin
      case .invalidData:
        if error.sentence.contains("has no e-mail") {
          .missingEmail
        } else if error.sentence.contains("password") {
          .weakPassword
        } else {
          error.sentence.contains("e-mail") ? .invalidEmail : .invalidArgument
        }
      case .badRequest, .tooLarge, .quotaExceeded, .notFound, .invalidPath, .invalidQuery:
        .invalidArgument
      case .permissionDenied: .userDisabled
      case .rateLimited: .tooManyRequests
      case .overloaded, .unavailable, .internalError: .internalError
      }
  }
}
