internal import CanopyAccounts
internal import CanopyEngine
internal import CanopyIdentity
internal import CanopySocial
internal import CanopyTree
public import CanopyWire

extension WireError {
  /// Creates the error for a client from an error of another module, or returns nil for one that no module
  /// declares.
  init?(_ error: any Error) {
    switch error {
    case let error as WireError: self = error
    case is CancellationError: self = .cancelled
    case let error as SocialError: self.init(error)
    case let error as TreeError: self.init(error)
    case let error as EngineError: self.init(error)
    case let error as AccountError: self.init(error)
    case let error as UncertainChange: self.init(.unavailable, error.sentence)
    case let error as ClaimsProblem: self.init(.invalidData, error.sentence)
    case let error as IdentityProblem: self.init(error)
    default: return nil
    }
  }

  private init(_ error: SocialError) {
    switch error {
    case .notFound(let text): self.init(.notFound, text)
    case .permissionDenied(let text): self.init(.permissionDenied, text)
    case .invalid(let text): self.init(.invalidData, text)
    case .conflict(let text): self.init(.conflict, text)
    case .rateLimited(let milliseconds):
      self.init(.rateLimited, retryMilliseconds: milliseconds, error.sentence)
    case .quotaExceeded(let text): self.init(.quotaExceeded, text)
    case .overloaded(let text): self.init(.overloaded, text)
    }
  }

  init(_ error: EngineError) {
    switch error {
    case .journalFailed, .outcomeUnknown, .stopped, .wrongTime, .takenOver, .behind:
      self.init(.unavailable, error.sentence)
    case .unstorable: self.init(.internalError, error.sentence)
    case .treeFull:
      self.init(.unavailable, retryMilliseconds: TreeBound.wait, error.sentence)
    case .overloaded: self.init(.overloaded, error.sentence)
    case .tooManyUnseen, .commitTooLarge: self.init(.tooLarge, error.sentence)
    case .alreadyAnswered: self.init(.conflict, error.sentence)
    case .denied: self = .denied
    }
  }

  private init(_ error: AccountError) {
    let code: Code =
      switch error {
      case .invalidEmail, .invalidPassword: .invalidData
      case .credentialsRefused, .tokenRefused, .codeRefused, .codeExpired: .unauthenticated
      case .rateLimited: .rateLimited
      case .overloaded: .overloaded
      case .hashingFailed: .unavailable
      case .taken, .uidTaken, .otherAccount: .conflict
      case .disabled: .permissionDenied
      case .notFound: .notFound
      case .administratorTokenUnusable: .internalError
      }
    var wait: Int64?
    if case .rateLimited(let milliseconds) = error { wait = milliseconds }
    self.init(code, reason: Reason(error), retryMilliseconds: wait, error.sentence)
  }

  private init(_ problem: IdentityProblem) {
    let (code, reason): (Code, Reason) =
      switch problem {
      case .invalid, .expired, .revoked: (.unauthenticated, .sessionEnded)
      case .missing: (.unauthenticated, .noAccount)
      case .disabled: (.unauthenticated, .accountDisabled)
      case .invalidCustomToken: (.unauthenticated, .invalidCustomToken)
      case .loginTooOld: (.permissionDenied, .loginTooOld)
      }
    self.init(code, reason: reason, problem.sentence)
  }

  static let sessionEnded = WireError(
    .unauthenticated, reason: .sessionEnded, "the session has ended; log in again")
  static let loginNeeded = WireError(
    .unauthenticated, "log in first: LOGIN email password, or SIGNUP email password username")

  static let userNeeded = WireError(
    .unauthenticated,
    "this request needs a user, and the administrator is not one: log in with LOGIN email password")

  /// Returns the error if the administrator makes a request that users make about their own accounts.
  static func accountNeeded(_ request: String) -> WireError {
    WireError(
      .unauthenticated, "the administrator has no account: name the user, with \(request) user")
  }

  static let administratorNeeded = WireError(
    .permissionDenied,
    "this is for the administrator: AUTH with the token in the data folder's admin-token")

  /// The error for a request that the rules refuse. It has no reason, which could reveal data that the caller may not
  /// read.
  public static let denied = WireError(.permissionDenied, "the rules do not allow this")

  /// The error of a request whose connection closed before its outcome. No client receives it.
  public static let cancelled = WireError(.unavailable, "the connection closed before the outcome")
  /// The error of long work for which the system gives no thread.
  static let noThread = WireError(
    .overloaded, "the server has no thread for this request; try again later")

  /// The error of a request that must follow events of its connection, of which there are always more.
  public static let tooManyEvents = WireError(
    .overloaded, "the server is behind with the events of this connection; try again later")

  /// The error of a request whose data does not fit in the memory of the server now.
  public static let noMemory = WireError(
    .overloaded, "the server is short of memory for this request; try again later")

  /// The error for a subscription to more than an event may hold.
  public static let subscriptionTooLarge = WireError(
    .tooLarge,
    "what you listen to is larger than an event may be; listen further below, or with a limit")
}

extension WireError.Reason {
  /// Returns the reason of an error. It is nil when the code is precise enough, and for an error that only the
  /// administrator can get.
  fileprivate init?(_ error: AccountError) {
    switch error {
    case .invalidEmail: self = .invalidEmail
    case .invalidPassword: self = .invalidPassword
    case .credentialsRefused: self = .wrongCredentials
    case .tokenRefused: self = .sessionEnded
    case .codeRefused: self = .invalidCode
    case .codeExpired: self = .expiredCode
    case .taken: self = .taken
    case .otherAccount: self = .otherAccount
    case .disabled: self = .accountDisabled
    case .notFound: self = .noAccount
    case .rateLimited, .overloaded, .hashingFailed, .uidTaken, .administratorTokenUnusable:
      return nil
    }
  }
}
