/// Base64 without padding, as hashes and tokens write it.
///
/// Decoding is strict: each sequence of bytes has exactly one text, so that two texts are the same
/// token only if they are the same text.
enum Base64 {
  /// The two alphabets in use.
  enum Alphabet {
    /// `+` and `/`: what a PHC string uses.
    case standard
    /// `-` and `_`: what may stand in a URL or a header, for tokens.
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

  /// The text of the bytes. O(count).
  static func encode(_ bytes: [UInt8], as alphabet: Alphabet) -> String {
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

  /// The bytes of the text, or nil if it is not the one text of some bytes. O(count).
  static func decode(_ text: some StringProtocol, as alphabet: Alphabet) -> [UInt8]? {
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
    // A lone last character says less than a byte, and leftover bits must be zero.
    guard heldBits < 6, held & (1 << UInt32(heldBits) - 1) == 0 else { return nil }
    return bytes
  }

  private static func inverse(of characters: [UInt8]) -> [UInt8?] {
    var values = [UInt8?](repeating: nil, count: 256)
    for (value, character) in characters.enumerated() { values[Int(character)] = UInt8(value) }
    return values
  }
}
