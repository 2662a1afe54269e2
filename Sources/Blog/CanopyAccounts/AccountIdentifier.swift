/// Makes the identifiers of accounts.
enum AccountIdentifier {
  /// Characters in an identifier: 62^20 of them, about 119 bits, so that two never meet.
  static let length = 20

  private static let alphabet = Array(
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz".unicodeScalars
  )

  /// A new identifier.
  ///
  /// A byte chooses a character by its low six bits; the two of the 64 values that name none are
  /// thrown away rather than folded onto others, which would make two characters likelier.
  ///
  /// - Parameter random: returns as many random bytes as it is asked for.
  static func make(random: RandomBytes) -> String {
    var scalars = String.UnicodeScalarView()
    var made = 0
    while made < length {
      for byte in random(length) where made < length {
        let choice = Int(byte & 0x3F)
        guard choice < alphabet.count else { continue }
        scalars.append(alphabet[choice])
        made += 1
      }
    }
    return String(scalars)
  }
}
