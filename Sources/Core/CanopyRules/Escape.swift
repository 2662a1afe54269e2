/// Escapes in strings, in JSON and in expressions.
enum Escape {
  struct Problem: Error {
    let message: String
  }

  typealias Outcome = Result<(scalar: Unicode.Scalar, count: Int), Problem>

  /// Returns the scalar of a JSON escape, and the number of bytes of the escape.
  ///
  /// - Precondition: the first byte is the backslash.
  static func json(_ bytes: ArraySlice<UInt8>) -> Outcome {
    assert(bytes.first == UInt8(ascii: "\\"), "an escape begins with a backslash")
    let escape = bytes.dropFirst()
    switch escape.first {
    case UInt8(ascii: "\""): return .success(("\"", 2))
    case UInt8(ascii: "\\"): return .success(("\\", 2))
    case UInt8(ascii: "/"): return .success(("/", 2))
    case UInt8(ascii: "b"): return .success(("\u{8}", 2))
    case UInt8(ascii: "f"): return .success(("\u{C}", 2))
    case UInt8(ascii: "n"): return .success(("\n", 2))
    case UInt8(ascii: "r"): return .success(("\r", 2))
    case UInt8(ascii: "t"): return .success(("\t", 2))
    case UInt8(ascii: "u"): return unicode(escape.dropFirst())
    default:
      return .failure(
        Problem(message: "expected one of \" \\ / b f n r t u after the backslash"))
    }
  }

  /// Returns the scalar of an escape in an expression's string: as in JSON, and `\'`.
  static func expression(_ bytes: ArraySlice<UInt8>) -> Outcome {
    if bytes.dropFirst().first == UInt8(ascii: "'") { return .success(("'", 2)) }
    return json(bytes)
  }

  private static func unicode(_ bytes: ArraySlice<UInt8>) -> Outcome {
    guard let high = hex(bytes) else {
      return .failure(Problem(message: "expected four hexadecimal digits after \\u"))
    }
    if let scalar = Unicode.Scalar(high) { return .success((scalar, 6)) }
    let rest = bytes.dropFirst(4)
    guard rest.starts(with: [UInt8(ascii: "\\"), UInt8(ascii: "u")]),
      let low = hex(rest.dropFirst(2)), high & 0xFC00 == 0xD800, low & 0xFC00 == 0xDC00,
      let scalar = Unicode.Scalar(0x10000 + (high & 0x3FF) << 10 + low & 0x3FF)
    else { return .failure(Problem(message: "expected a surrogate escape to be one of a pair")) }
    return .success((scalar, 12))
  }

  private static func hex(_ bytes: ArraySlice<UInt8>) -> UInt32? {
    let digits = bytes.prefix(4)
    guard digits.count == 4 else { return nil }
    var code: UInt32 = 0
    for byte in digits {
      guard byte < 0x80, let digit = Character(Unicode.Scalar(byte)).hexDigitValue else {
        return nil
      }
      code = code << 4 | UInt32(digit)
    }
    return code
  }
}
