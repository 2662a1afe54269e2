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
  /// The user has to wait before renaming again.
  case rateLimited(milliseconds: Int64)

  /// One sentence that says what to do.
  public var sentence: String {
    switch self {
    case .notFound(let text), .permissionDenied(let text), .invalid(let text), .conflict(let text):
      text
    case .rateLimited(let milliseconds):
      "a new name changes all that you have written, which is not possible so often; try again in "
        + "\(SocialError.seconds(milliseconds))"
    }
  }

  /// Returns a wait in words, rounded up.
  private static func seconds(_ milliseconds: Int64) -> String {
    let seconds = max(1, milliseconds / 1_000 + (milliseconds % 1_000 > 0 ? 1 : 0))
    return seconds == 1 ? "1 second" : "\(seconds) seconds"
  }

  static let noPost = SocialError.notFound("there is no such post, or it is gone")
  static let noProfile = SocialError.notFound(
    "your account has no profile any more; choose a user name with RENAME")
  static let noUser = SocialError.notFound("there is no such user")
}
