/// Rules as JSON, for clients that cannot read the text with its comments.
package enum StrictRules {
  /// Returns the text of rules without comments, and with escapes for line breaks and other control characters in its
  /// strings. O(length of the text).
  ///
  /// Precondition: the rules are valid. Otherwise the result is not valid JSON.
  package static func json(_ text: String) -> [UInt8] {
    let bytes = Array(text.utf8)
    var result: [UInt8] = []
    result.reserveCapacity(bytes.count)
    var index = 0
    while index < bytes.count {
      let byte = bytes[index]
      let following = index + 1 < bytes.count ? bytes[index + 1] : 0
      switch (byte, following) {
      case (UInt8(ascii: "\""), _):
        let end = endOfString(bytes, from: index)
        append(bytes[index..<end], to: &result)
        index = end
      case (UInt8(ascii: "/"), UInt8(ascii: "/")):
        index = bytes[index...].firstIndex(of: UInt8(ascii: "\n")) ?? bytes.count
      case (UInt8(ascii: "/"), UInt8(ascii: "*")):
        index = endOfComment(bytes, from: index + 2)
      default:
        result.append(byte)
        index += 1
      }
    }
    return result
  }

  /// Returns the index after the quote that ends a string.
  private static func endOfString(_ bytes: [UInt8], from start: Int) -> Int {
    var index = start + 1
    while index < bytes.count, bytes[index] != UInt8(ascii: "\"") {
      index += bytes[index] == UInt8(ascii: "\\") ? 2 : 1
    }
    return min(index + 1, bytes.count)
  }

  private static func endOfComment(_ bytes: [UInt8], from start: Int) -> Int {
    var index = start
    while index + 1 < bytes.count {
      if bytes[index] == UInt8(ascii: "*"), bytes[index + 1] == UInt8(ascii: "/") {
        return index + 2
      }
      index += 1
    }
    return bytes.count
  }

  /// Appends a string, which may span lines, as JSON writes it.
  private static func append(_ string: ArraySlice<UInt8>, to result: inout [UInt8]) {
    for byte in string {
      guard byte < 0x20 else {
        result.append(byte)
        continue
      }
      let digits = String(byte, radix: 16)
      result +=
        Array("\\u".utf8) + Array(repeating: UInt8(ascii: "0"), count: 4 - digits.utf8.count)
      result += Array(digits.utf8)
    }
  }
}
