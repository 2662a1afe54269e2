import Foundation

/// A plausible e-mail address: exactly one `@` with text on both sides, no white space, no invisible characters, and at
/// most 254 bytes. It does not begin with `uid:`, which stands for the uid of an account without an address.
///
///     EmailAddress(" Ada@Example.org ")?.normalized   // "ada@example.org"
///
/// Stricter rules would be useless, because only a message to the address can prove that it exists.
/// Caveat: the standard allows a mail server to distinguish upper and lower case before the `@`. Lower-casing merges such
/// addresses. In practice no server distinguishes them, and users do not always type the same case.
public struct EmailAddress: Sendable, Equatable {
  /// The maximum length of an address in the mail protocols, in bytes of UTF-8.
  public static let bytesMax = 254

  /// The address as the user wrote it, without the white space around it.
  public let given: String
  /// The address in lower case and in Unicode's composed form (NFC), by which accounts are unique. Spellings that look the
  /// same have the same bytes.
  public let normalized: String

  /// Creates an address from a text; nil if the text cannot be an address. O(bytes of `text`).
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
    // Split by scalars: an `@` with a combining mark is a different character, but still an `@`.
    let parts = trimmed.unicodeScalars.split(separator: "@", omittingEmptySubsequences: false)
    guard parts.count == 2, parts.allSatisfy({ !$0.isEmpty }) else { return nil }
    let normalized = trimmed.lowercased().composed
    guard normalized.utf8.count <= Self.bytesMax,
      !normalized.utf8.starts(with: Account.addresslessPrefix.utf8)
    else { return nil }
    self.given = trimmed
    self.normalized = normalized
  }

  /// Whether a user who has proved another spelling has proved this one: both have the same bytes, apart from the case of
  /// ASCII letters.
  ///
  /// Other spellings with one normalized form can be different addresses for a mail server. An example is the Kelvin
  /// sign, U+212A, whose lower case is `k`.
  func isProved(by spelling: String) -> Bool {
    given.utf8.elementsEqual(spelling.utf8) { $0.asciiLowercased == $1.asciiLowercased }
  }

  /// The part before the `@` of the normalized address.
  var localPart: String {
    let scalars = normalized.unicodeScalars
    return String(scalars.prefix { $0 != "@" })
  }

  /// Whether a scalar is neither white space nor invisible. With an invisible one, two addresses could look the same, and
  /// a line break could split a line of the log. The blank Braille pattern, U+2800, is a symbol by its category.
  private static func isVisible(_ scalar: Unicode.Scalar) -> Bool {
    let properties = scalar.properties
    guard !properties.isWhitespace, !properties.isDefaultIgnorableCodePoint, scalar != "\u{2800}"
    else { return false }
    switch scalar.properties.generalCategory {
    case .control, .format, .lineSeparator, .paragraphSeparator, .spaceSeparator, .surrogate:
      return false
    default:
      return true
    }
  }
}

extension String {
  /// The text in Unicode's composed form (NFC), which is the same for all equivalent spellings.
  ///
  /// The standard library has no public function for it, so this uses Foundation.
  var composed: String { precomposedStringWithCanonicalMapping }
}

extension UInt8 {
  /// The lower case of an ASCII letter; other bytes unchanged.
  fileprivate var asciiLowercased: UInt8 {
    UInt8(ascii: "A")...UInt8(ascii: "Z") ~= self ? self | 0x20 : self
  }
}
