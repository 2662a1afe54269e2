internal import Foundation

/// Comparison of UTF-8 in the order of UTF-16 code units.
///
/// The two orders differ in one respect: code points from U+10000 (UTF-8 lead bytes F0–F4) are
/// surrogates in UTF-16 and sort before U+E000–FFFF (lead bytes EE and EF). It is enough to swap
/// those lead bytes at the first byte that differs: within a character the lead bytes are equal,
/// and continuation bytes (80–BF) keep their order.
enum TextOrder {
  /// Returns a negative number, zero or a positive number if `a` sorts before, with or after `b`.
  ///
  /// - Complexity: O(common prefix).
  static func compare(_ a: UnsafeRawBufferPointer, _ b: UnsafeRawBufferPointer) -> Int {
    let common = min(a.count, b.count)
    var i = 0
    // Eight bytes at a time: long texts with a long common beginning are compared many times.
    while i + 8 <= common {
      let difference =
        a.loadUnaligned(fromByteOffset: i, as: UInt64.self)
        ^ b.loadUnaligned(fromByteOffset: i, as: UInt64.self)
      guard difference == 0 else {
        i += UInt64(littleEndian: difference).trailingZeroBitCount / 8
        return Int(rank(a[i])) - Int(rank(b[i]))
      }
      i += 8
    }
    while i < common {
      guard a[i] == b[i] else { return Int(rank(a[i])) - Int(rank(b[i])) }
      i += 1
    }
    return a.count - b.count
  }

  /// Returns a negative number, zero or a positive number if `a` sorts before, with or after `b`.
  ///
  /// - Complexity: O(common prefix).
  static func compare(_ a: String, _ b: String) -> Int {
    a.withUTF8Bytes { a in b.withUTF8Bytes { b in compare(a, b) } }
  }

  /// Returns a negative number, zero or a positive number if the first bytes of `a` sort before, with or after those of
  /// `b`.
  ///
  /// - Complexity: O(bytesMax).
  static func compare(_ a: String, _ b: String, bytesMax: Int) -> Int {
    a.withUTF8Bytes { a in
      b.withUTF8Bytes { b in
        compare(
          UnsafeRawBufferPointer(rebasing: a.prefix(bytesMax)),
          UnsafeRawBufferPointer(rebasing: b.prefix(bytesMax)))
      }
    }
  }

  /// Whether the eight bytes of `a`, big-endian, sort before those of `b`.
  ///
  /// - Precondition: the words differ.
  @inline(__always)
  static func precedes(_ a: UInt64, _ b: UInt64) -> Bool {
    assert(a != b, "the words are equal")
    let shift = 56 - ((a ^ b).leadingZeroBitCount & ~7)
    return rank(UInt8(truncatingIfNeeded: a >> UInt64(shift)))
      < rank(UInt8(truncatingIfNeeded: b >> UInt64(shift)))
  }

  @inline(__always)
  private static func rank(_ byte: UInt8) -> UInt8 {
    byte < 0xEE ? byte : byte < 0xF0 ? byte + 8 : byte - 2
  }
}

extension String {
  /// Returns a negative number, zero or a positive number if the text sorts before, with or after another by its UTF-16
  /// code units.
  ///
  /// - Complexity: O(common prefix).
  public func compareCodeUnits(with other: String) -> Int { TextOrder.compare(self, other) }
}

extension UnsafeRawBufferPointer {
  /// Whether both have the same bytes.
  @inline(__always)
  public func hasSameBytes(as other: UnsafeRawBufferPointer) -> Bool {
    guard count == other.count else { return false }
    guard let a = baseAddress, let b = other.baseAddress, count > 0 else { return true }
    return a == b || memcmp(a, b, count) == 0
  }
}
