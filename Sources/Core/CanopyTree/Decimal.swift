/// Conversion between integers and decimal text, without allocation.
enum Decimal {
  /// The length of the longest 64-bit integer.
  static let bytesMax = 20

  /// Writes `number` at the start of `bytes` and returns its length.
  ///
  /// - Precondition: `bytes` has room for the number; `bytesMax` is always enough.
  @inline(__always)
  static func write(_ number: Int64, into bytes: UnsafeMutableRawBufferPointer) -> Int {
    var magnitude = number.magnitude
    var count = number < 0 ? 1 : 0
    var rest = magnitude
    repeat {
      count += 1
      rest /= 10
    } while rest != 0
    assert(bytes.count >= count, "no room for the number")
    var i = count
    repeat {
      i -= 1
      bytes[i] = UInt8(truncatingIfNeeded: magnitude % 10) + UInt8(ascii: "0")
      magnitude /= 10
    } while magnitude != 0
    if number < 0 { bytes[0] = UInt8(ascii: "-") }
    return count
  }

  /// Returns the number that `write` writes as these bytes; nil for other bytes and for more than
  /// 18 digits.
  @inline(__always)
  static func integer(_ bytes: UnsafeRawBufferPointer) -> Int64? {
    let isNegative = bytes.first == UInt8(ascii: "-")
    let start = isNegative ? 1 : 0
    guard bytes.count > start, bytes.count <= 18 + start else { return nil }
    if bytes[start] == UInt8(ascii: "0") { return bytes.count == 1 ? 0 : nil }
    var magnitude: Int64 = 0
    for i in start..<bytes.count {
      let digit = bytes[i] &- UInt8(ascii: "0")
      guard digit < 10 else { return nil }
      magnitude = magnitude * 10 + Int64(digit)
    }
    return isNegative ? -magnitude : magnitude
  }
}
