internal import CanopyWire

/// Why a login, a sign-up or the like did not succeed.
public struct AuthError: Error, Equatable, Sendable {
  /// The kinds of failure.
  public enum Code: String, Sendable, CaseIterable {
    /// The e-mail address or the password is wrong; which of them is not told.
    case wrongPassword
    /// The e-mail address or the user name belongs to somebody; which of them is not told.
    case emailAlreadyInUse
    /// The password is too short, too long or too common.
    case weakPassword
    /// The e-mail address, the user name or the password is none.
    case invalidArgument
    /// The account has been disabled.
    case userDisabled
    /// The token is not, or no longer, valid.
    case invalidToken
    /// Too many attempts; the sentence says how long to wait.
    case tooManyRequests
    /// The server could not be reached in time, the connection was lost, or the URL is of no server.
    case networkError
    /// Nobody is signed in.
    case noCurrentUser
    /// The server cannot do it now, or is at fault.
    case internalError
  }

  /// What kind of failure it is.
  public var code: Code
  /// What is wrong and what to do about it.
  public var sentence: String

  /// An error.
  public init(_ code: Code, _ sentence: String) {
    self.code = code
    self.sentence = sentence
  }
}

extension AuthError: LocalizedError, CustomStringConvertible {
  /// The sentence: what `localizedDescription` has.
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
