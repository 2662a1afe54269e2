/// An e-mail address that could be one: exactly one `@`, something on both sides of it, no white
/// space and nothing invisible, at most 254 bytes.
///
///     EmailAddress(" Ada@Example.org ")?.normalized   // "ada@example.org"
///
/// More is not asked, because only a message sent there can show that an address exists.
/// Caveat: lower-casing the part before the `@` merges addresses that a mail server may, by the
/// letter of its standard, keep apart. None in use does, and people do not type capitals the same
/// way twice.
public struct EmailAddress: Sendable, Equatable {
  /// The longest address that mail can carry, in bytes of UTF-8.
  public static let bytesMax = 254

  /// The address as given, without the white space around it.
  public let given: String
  /// The address by which accounts are unique: lower-cased, in Unicode's composed form (NFC), so
  /// that two spellings that look the same are the same bytes to a store.
  public let normalized: String

  /// The address in `text`, or nil if it cannot be one. O(bytes of `text`).
  public init?(_ text: String) {
    let isSpace = { (scalar: Unicode.Scalar) in scalar.properties.isWhitespace }
    let scalars = text.unicodeScalars
    guard let first = scalars.firstIndex(where: { !isSpace($0) }),
      let last = scalars.lastIndex(where: { !isSpace($0) })
    else { return nil }
    let trimmed = String(scalars[first...last])
    guard trimmed.utf8.count <= Self.bytesMax,
      trimmed.unicodeScalars.allSatisfy(Self.isVisible)
    else { return nil }
    // By scalars, not characters: an `@` with a combining mark is another character, yet a `@`.
    let parts = trimmed.unicodeScalars.split(separator: "@", omittingEmptySubsequences: false)
    guard parts.count == 2, parts.allSatisfy({ !$0.isEmpty }) else { return nil }
    let normalized = trimmed.lowercased().composed
    guard normalized.utf8.count <= Self.bytesMax else { return nil }
    self.given = trimmed
    self.normalized = normalized
  }

  /// What stands before the `@` of the normalised address.
  var localPart: String {
    let scalars = normalized.unicodeScalars
    return String(scalars.prefix { $0 != "@" })
  }

  /// False for white space and for characters that show nothing, with which two addresses could
  /// look the same and a log line could be broken in two.
  private static func isVisible(_ scalar: Unicode.Scalar) -> Bool {
    guard !scalar.properties.isWhitespace else { return false }
    switch scalar.properties.generalCategory {
    case .control, .format, .lineSeparator, .paragraphSeparator, .spaceSeparator, .surrogate:
      return false
    default:
      return true
    }
  }
}
