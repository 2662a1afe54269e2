/// Base64 without padding, for hashes and tokens.
///
/// Decoding is strict: each byte string has exactly one text, so different texts are never the same token.
package enum Base64 {
  /// An alphabet of Base64.
  package enum Alphabet: Sendable {
    /// The alphabet with `+` and `/`, for PHC strings.
    case standard
    /// The alphabet with `-` and `_`, which are allowed in URLs and headers, for tokens.
    case url

    fileprivate var characters: [UInt8] {
      switch self {
      case .standard: Base64.standardCharacters
      case .url: Base64.urlCharacters
      }
    }

    fileprivate var values: [UInt8?] {
      switch self {
      case .standard: Base64.standardValues
      case .url: Base64.urlValues
      }
    }
  }

  private static let common = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
  private static let standardCharacters = Array((common + "+/").utf8)
  private static let urlCharacters = Array((common + "-_").utf8)
  private static let standardValues = inverse(of: standardCharacters)
  private static let urlValues = inverse(of: urlCharacters)

  /// Returns the text of the bytes. O(count).
  package static func encode(_ bytes: [UInt8], as alphabet: Alphabet) -> String {
    let characters = alphabet.characters
    var text: [UInt8] = []
    text.reserveCapacity((bytes.count * 4 + 2) / 3)
    var held: UInt32 = 0
    var heldBits = 0
    for byte in bytes {
      held = held << 8 | UInt32(byte)
      heldBits += 8
      while heldBits >= 6 {
        heldBits -= 6
        text.append(characters[Int(held >> UInt32(heldBits) & 0x3F)])
      }
    }
    if heldBits > 0 { text.append(characters[Int(held << UInt32(6 - heldBits) & 0x3F)]) }
    return String(decoding: text, as: UTF8.self)
  }

  /// Returns the bytes of a text; nil if the text is not valid. O(count).
  package static func decode(_ text: some StringProtocol, as alphabet: Alphabet) -> [UInt8]? {
    let values = alphabet.values
    var bytes: [UInt8] = []
    var held: UInt32 = 0
    var heldBits = 0
    for character in text.utf8 {
      guard let value = values[Int(character)] else { return nil }
      held = held << 6 | UInt32(value)
      heldBits += 6
      if heldBits >= 8 {
        heldBits -= 8
        bytes.append(UInt8(truncatingIfNeeded: held >> UInt32(heldBits)))
      }
    }
    // A single last character has too few bits for a byte. Unused bits must be zero.
    guard heldBits < 6, held & (1 << UInt32(heldBits) - 1) == 0 else { return nil }
    return bytes
  }

  private static func inverse(of characters: [UInt8]) -> [UInt8?] {
    var values = [UInt8?](repeating: nil, count: 256)
    for (value, character) in characters.enumerated() { values[Int(character)] = UInt8(value) }
    return values
  }
}
