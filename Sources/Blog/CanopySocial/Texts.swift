/// The rules for texts and names of users. Lengths are in Unicode scalars.
///
/// A request checks its texts before it waits for the engine. The functions that take a `Proposal` run on the engine's
/// thread, for which all writers wait, so they do not check the texts again.
public enum Texts {
  /// The maximum length of a title.
  public static let titleMax = 200
  /// The maximum length of the body of a post.
  public static let bodyMax = 65_536
  /// The maximum length of a comment.
  public static let commentMax = 10_000
  /// The maximum length of a user name.
  public static let usernameMax = 32

  /// Checks the texts of a post.
  public static func checkPost(title: String, body: String) throws(SocialError) {
    try checkTitle(title)
    try check(body, "the body of a post", max: bodyMax)
  }

  /// Checks the text of a comment.
  public static func checkComment(_ text: String) throws(SocialError) {
    try check(text, "a comment", max: commentMax)
  }

  private static func checkTitle(_ text: String) throws(SocialError) {
    try check(text, "a title", max: titleMax)
    // These are exactly the control characters. To ask for the category of each scalar would be much slower.
    guard !text.unicodeScalars.contains(where: { $0.value < 0x20 || 0x7F...0x9F ~= $0.value })
    else {
      throw .invalid("a title must be a single line without control characters")
    }
  }

  private static func check(_ text: String, _ what: String, max: Int) throws(SocialError) {
    // A text has at least as many bytes as scalars, so most texts need no counting.
    guard text.utf8.count <= max || text.unicodeScalars.count <= max else {
      throw .invalid("\(what) may have at most \(max) characters; this one has more")
    }
    guard text.unicodeScalars.contains(where: { !$0.properties.isWhitespace }) else {
      throw .invalid("\(what) must have at least one character that is not a space")
    }
  }

  /// Checks a user name: 1 to 32 ASCII letters, digits, `_` or `-`.
  ///
  /// Only ASCII, because letters of other scripts look like these letters, and users recognize each other by their names.
  public static func checkUsername(_ name: String) throws(SocialError) {
    let isValid = name.utf8.allSatisfy { byte in
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"):
        true
      default: false
      }
    }
    guard isValid, 1...usernameMax ~= name.utf8.count else {
      throw .invalid(
        "a user name must have 1 to \(usernameMax) characters, each a letter from a to z, a digit, _ "
          + "or -")
    }
  }
}
