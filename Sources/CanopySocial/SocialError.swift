/// Why the domain refused a request: a kind, and one sentence for a person.
public enum SocialError: Error, Equatable, Sendable {
  /// The post, comment or user is not there.
  case notFound(String)
  /// It is somebody else's.
  case permissionDenied(String)
  /// A text or name breaks a rule.
  case invalid(String)
  /// Somebody else has it.
  case conflict(String)

  /// One sentence that says what to do.
  public var sentence: String {
    switch self {
    case .notFound(let text), .permissionDenied(let text), .invalid(let text), .conflict(let text):
      text
    }
  }

  static let noPost = SocialError.notFound("there is no such post, or it is gone")
  static let noProfile = SocialError.notFound(
    "your account has no profile any more; choose a user name with RENAME")
  static let noUser = SocialError.notFound("there is no such user")
}
