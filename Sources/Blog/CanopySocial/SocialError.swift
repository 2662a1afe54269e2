/// The reason why the blog refused a request: a kind, and one sentence for the user.
public enum SocialError: Error, Equatable, Sendable {
  /// The post, comment or user does not exist.
  case notFound(String)
  /// The post or comment belongs to another user.
  case permissionDenied(String)
  /// A text, a name or a number is not valid.
  case invalid(String)
  /// The name is taken.
  case conflict(String)
  /// The user would store more than a user may.
  case quotaExceeded(String)
  /// The server has too much work of this kind.
  case overloaded(String)
  /// The user must wait before the next renaming.
  case rateLimited(milliseconds: Int64)

  /// One sentence that says what to do.
  public var sentence: String {
    switch self {
    case .notFound(let text), .permissionDenied(let text), .invalid(let text), .conflict(let text),
      .quotaExceeded(let text), .overloaded(let text):
      text
    case .rateLimited(let milliseconds):
      "a new name changes all your posts and comments, so it is not possible that often; try again in "
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
    "your account has no user name; choose one with RENAME")
  static let tooManyErasures = SocialError.overloaded(
    "the data of many users is being removed already; try again in a few minutes, or delete the account alone"
  )
  static let noUser = SocialError.notFound("there is no such user")
}
