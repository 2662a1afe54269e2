/// Byte scans that the reader and the writer share.
public enum JSONScan {
  static func hexDigit(_ value: UInt8) -> UInt8 {
    value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "a") + value - 10
  }

  /// Whether all bytes are ASCII. Eight bytes at a time.
  static func isASCII(_ bytes: UnsafeRawBufferPointer) -> Bool {
    var i = 0
    while i &+ 8 <= bytes.count {
      let word = bytes.loadUnaligned(fromByteOffset: i, as: UInt64.self)
      if word & 0x8080_8080_8080_8080 != 0 { return false }
      i &+= 8
    }
    while i < bytes.count {
      if bytes[i] >= 0x80 { return false }
      i &+= 1
    }
    return true
  }

  /// Returns the length of a text in a JSON string, without the quotes.
  static func escapedCount(_ bytes: UnsafeRawBufferPointer) -> Int {
    var count = bytes.count
    var i = plainPrefix(bytes, from: 0)
    while i < bytes.count {
      switch bytes[i] {
      case UInt8(ascii: "\""), UInt8(ascii: "\\"), 0x0A, 0x0D, 0x09: count += 1
      default: count += 5
      }
      i = plainPrefix(bytes, from: i + 1)
    }
    return count
  }

  /// Returns the index, from `start` on, of the first byte that a JSON string must escape: a quote,
  /// a backslash or a control character; the count if there is none. Eight bytes at a time.
  @inline(__always)
  static func plainPrefix(_ bytes: UnsafeRawBufferPointer, from start: Int) -> Int {
    var i = start
    while i &+ 8 <= bytes.count {
      let word = bytes.loadUnaligned(fromByteOffset: i, as: UInt64.self)
      if escapeMask(word) != 0 { break }
      i &+= 8
    }
    while i < bytes.count {
      let byte = bytes[i]
      if byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { break }
      i &+= 1
    }
    return i
  }

  /// Returns a value other than zero if one of the eight bytes is a quote, a backslash or below
  /// 0x20. Bytes above 0x7F do not match. (The usual bit tricks for "has a byte less than n" and
  /// "has a byte equal to n".)
  @inline(__always)
  static func escapeMask(_ word: UInt64) -> UInt64 {
    let ones: UInt64 = 0x0101_0101_0101_0101
    let highs: UInt64 = 0x8080_8080_8080_8080
    let quotes = word ^ (ones &* 0x22)
    let backslashes = word ^ (ones &* 0x5C)
    let below = (word &- ones &* 0x20) & ~word
    let quote = (quotes &- ones) & ~quotes
    let backslash = (backslashes &- ones) & ~backslashes
    return (below | quote | backslash) & highs
  }

  /// Returns the end of the JSON value that begins at an offset; nil if the text ends before it does.
  ///
  /// A string ends with its closing quote, an object or an array with its closing bracket, and any other
  /// value before the next comma, colon, bracket or white space. The contents are not validated.
  ///
  /// - Complexity: O(bytes of the value).
  public static func valueEnd(_ bytes: UnsafeRawBufferPointer, from start: Int) -> Int? {
    guard start >= 0, start < bytes.count else { return nil }
    switch bytes[start] {
    case UInt8(ascii: "\""): return stringEnd(bytes, from: start)
    case UInt8(ascii: "{"), UInt8(ascii: "["): return bracketsEnd(bytes, from: start)
    default:
      var i = start
      while i < bytes.count, !endsScalar(bytes[i]) { i &+= 1 }
      return i > start ? i : nil
    }
  }

  /// Returns the end of the string whose opening quote is at an offset; nil if it has no closing quote.
  static func stringEnd(_ bytes: UnsafeRawBufferPointer, from start: Int) -> Int? {
    var i = plainPrefix(bytes, from: start &+ 1)
    while i < bytes.count {
      if bytes[i] == UInt8(ascii: "\"") { return i &+ 1 }
      i = plainPrefix(bytes, from: bytes[i] == UInt8(ascii: "\\") ? i &+ 2 : i &+ 1)
    }
    return nil
  }

  private static func bracketsEnd(_ bytes: UnsafeRawBufferPointer, from start: Int) -> Int? {
    var depth = 0
    var i = start
    while i < bytes.count {
      switch bytes[i] {
      case UInt8(ascii: "\""):
        guard let end = stringEnd(bytes, from: i) else { return nil }
        i = end
        continue
      case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
      case UInt8(ascii: "}"), UInt8(ascii: "]"):
        depth -= 1
        if depth == 0 { return i &+ 1 }
      default: break
      }
      i &+= 1
    }
    return nil
  }

  private static func endsScalar(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: ","), UInt8(ascii: ":"), UInt8(ascii: "]"), UInt8(ascii: "}"), 0x20, 0x09,
      0x0A,
      0x0D:
      true
    default: false
    }
  }
}
