internal import CanopyWire

/// The reason why a sign-in, a sign-up or a similar operation failed.
public struct AuthError: Error, Equatable, Sendable {
  /// The kinds of failure.
  public enum Code: String, Sendable, CaseIterable {
    /// The e-mail address or the password is wrong; the error does not reveal which.
    case wrongPassword
    /// The e-mail address or the user name is taken; the error does not reveal which.
    case emailAlreadyInUse
    /// The password is too short, too long or too common.
    case weakPassword
    /// The e-mail address, the user name or the password is invalid.
    case invalidArgument
    /// The account has been disabled.
    case userDisabled
    /// The token is invalid or has expired.
    case invalidToken
    /// Too many attempts; the sentence says how long to wait.
    case tooManyRequests
    /// The server did not respond in time, the connection was lost, or the URL is not that of a
    /// server.
    case networkError
    /// There is no signed-in user.
    case noCurrentUser
    /// The server cannot do this now, or it failed.
    case internalError
  }

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
  public var description: String { "\(code.rawValue): \(sentence)" }
}

extension AuthError {
  init(_ error: WireError, of kind: SessionRequest.Kind) {
    let code: Code =
      switch error.code {
      case .unauthenticated:
        switch kind {
        case .token: .invalidToken
        case .rename: .noCurrentUser
        default: .wrongPassword
        }
      case .conflict: .emailAlreadyInUse
      case .invalidData: error.sentence.contains("password") ? .weakPassword : .invalidArgument
      case .badRequest, .tooLarge, .notFound: .invalidArgument
      case .permissionDenied: .userDisabled
      case .rateLimited: .tooManyRequests
      default: .internalError
      }
    self.init(code, error.sentence)
  }
}
