/// A 32-bit integer in a form that is not canonical, with at most eleven characters: with leading
/// zeros, or `-0`.
///
/// The official clients sort such keys by their number, although arrays do not contain them.
struct PaddedInteger: Hashable, Sendable {
  /// The length of the longest canonical 32-bit integer: longer keys are text.
  static let bytesMax = 11

  /// The number.
  let value: Int32
  /// The length of the text. With the number and the sign it determines the text.
  let length: UInt8
  /// Whether the text begins with a minus sign.
  let isNegative: Bool

  /// Creates the number that the bytes spell; nil if it is canonical, too long, or does not fit in 32 bits.
  init?(_ bytes: UnsafeRawBufferPointer) {
    guard 2...PaddedInteger.bytesMax ~= bytes.count else { return nil }
    isNegative = bytes[0] == UInt8(ascii: "-")
    let start = isNegative ? 1 : 0
    // Every form that is not canonical has a zero here.
    guard bytes[start] == UInt8(ascii: "0") else { return nil }
    // At most ten digits follow, so this does not overflow.
    var magnitude: Int64 = 0
    for byte in bytes[start...] {
      let digit = byte &- UInt8(ascii: "0")
      guard digit < 10 else { return nil }
      magnitude = magnitude * 10 + Int64(digit)
    }
    guard let value = Int32(exactly: isNegative ? -magnitude : magnitude) else { return nil }
    self.value = value
    length = UInt8(truncatingIfNeeded: bytes.count)
  }

  /// Writes the text at the start of `bytes` and returns its length.
  ///
  /// - Precondition: `bytes` has room for `bytesMax` bytes.
  func write(into bytes: UnsafeMutableRawBufferPointer) -> Int {
    assert(bytes.count >= PaddedInteger.bytesMax, "no room for the number")
    var magnitude = value.magnitude
    var i = Int(length)
    while i > 0 {
      i -= 1
      bytes[i] = UInt8(truncatingIfNeeded: magnitude % 10) + UInt8(ascii: "0")
      magnitude /= 10
    }
    if isNegative { bytes[0] = UInt8(ascii: "-") }
    return Int(length)
  }

  /// Whether `a` sorts before `b`: by number, then by length, then by text.
  ///
  /// - Precondition: both keys spell a 32-bit integer.
  static func precedes(_ a: Key, _ b: Key) -> Bool {
    guard let x = a.sortingNumber, let y = b.sortingNumber else {
      assertionFailure("a key spells no 32-bit integer")
      return false
    }
    if x != y { return x < y }
    return a.withUTF8 { a in
      b.withUTF8 { b in
        a.count != b.count ? a.count < b.count : TextOrder.compare(a, b) < 0
      }
    }
  }
}
