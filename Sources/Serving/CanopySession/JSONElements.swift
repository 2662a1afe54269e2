/// The numbers of the elements of a JSON text that take memory when it is decoded.
///
/// A mark within a string counts as one between strings, so the numbers may be too high. The text need not be valid.
struct JSONElements {
  /// The length in bytes, with both quotes, from which on a string takes an object of its own.
  private static let longStringMin = 18

  /// The number of commas and opening brackets: a member, a list or an object follows each.
  private(set) var count = 0
  /// The number of keys and strings that are not stored in the place of their element.
  private(set) var longStrings = 0
  /// The number of strings that begin with a point, as the name of a priority does.
  private(set) var priorities = 0

  /// Counts the elements of a text. O(text).
  init(_ text: UnsafeRawBufferPointer) {
    var lastQuote = 0
    for index in text.indices {
      switch text[index] {
      case UInt8(ascii: ","), UInt8(ascii: "["), UInt8(ascii: "{"): count &+= 1
      case UInt8(ascii: "\""):
        if index &- lastQuote >= JSONElements.longStringMin - 1 { longStrings &+= 1 }
        lastQuote = index
        if JSONElements.beginsWithPoint(text, after: index) { priorities &+= 1 }
      default: break
      }
    }
  }

  /// Whether a point or the escape of one follows a quote.
  private static func beginsWithPoint(_ text: UnsafeRawBufferPointer, after quote: Int) -> Bool {
    guard quote + 1 < text.count else { return false }
    switch text[quote + 1] {
    case UInt8(ascii: "."): return true
    case UInt8(ascii: "\\"):
      let rest = text[(quote + 1)...]
      return rest.starts(with: "\\u002e".utf8) || rest.starts(with: "\\u002E".utf8)
    default: return false
    }
  }
}
