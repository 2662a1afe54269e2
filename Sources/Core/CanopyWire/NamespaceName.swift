/// The name of a namespace: a database with a tree, rules and a journal of its own.
///
/// It has 1 to 63 characters: lower-case letters of ASCII, digits and hyphens, of which the first is no hyphen. So each
/// name can be the name of a folder, a label of a host, and an argument of a command.
public struct NamespaceName: Hashable, Sendable, CustomStringConvertible {
  /// The most characters of a name.
  public static let lengthMax = 63

  /// The namespace that every server has: the database of the blog.
  public static let `default` = NamespaceName(checked: "default")

  /// The text of the name.
  public let text: String

  /// The text of the name.
  public var description: String { text }

  /// Reads a name.
  ///
  /// - Throws: `WireError` for a text that is not a name.
  public init(_ text: String) throws(WireError) {
    let bytes = text.utf8
    let isName =
      (1...NamespaceName.lengthMax).contains(bytes.count) && bytes.first != UInt8(ascii: "-")
      && bytes.allSatisfy { byte in
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
          UInt8(ascii: "-"):
          true
        default: false
        }
      }
    guard isName else {
      throw WireError(
        .badRequest,
        "the name of a namespace has 1 to \(NamespaceName.lengthMax) of the characters a to z, 0 to 9 and -, and "
          + "begins with a letter or a digit")
    }
    self.text = text
  }

  private init(checked text: String) {
    self.text = text
  }
}
