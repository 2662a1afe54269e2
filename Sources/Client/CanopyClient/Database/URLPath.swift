internal import CanopyTree

/// The percent-encoding of paths in URLs: each key on its own, by the bytes of its UTF-8, so that
/// keys that differ only in their Unicode composition stay different.
package enum URLPath {
  /// Returns a path as text in which every byte but ASCII letters, digits and `-._~/` is encoded.
  package static func encoded(_ path: String) -> String {
    guard !path.utf8.allSatisfy(isPlain) else { return path }
    var bytes: [UInt8] = []
    bytes.reserveCapacity(path.utf8.count * 2)
    for byte in path.utf8 {
      if isPlain(byte) {
        bytes.append(byte)
      } else {
        bytes += [UInt8(ascii: "%"), digit(byte >> 4), digit(byte & 15)]
      }
    }
    return String(decoding: bytes, as: UTF8.self)
  }

  /// Returns the path of a URL without its encoding. As in Firebase, `+` is a space.
  ///
  /// - Throws: `DatabaseError` with the code `invalidURL` if a `%` is not followed by two
  ///   hexadecimal digits, or the bytes are not UTF-8.
  package static func decoded(_ text: String) throws(DatabaseError) -> String {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(text.utf8.count)
    var rest = text.utf8[...]
    while let byte = rest.popFirst() {
      switch byte {
      case UInt8(ascii: "+"): bytes.append(UInt8(ascii: " "))
      case UInt8(ascii: "%"):
        guard let high = rest.popFirst().flatMap(value), let low = rest.popFirst().flatMap(value)
        else { throw invalid }
        bytes.append(high << 4 | low)
      default: bytes.append(byte)
      }
    }
    guard let path = String(validating: bytes, as: UTF8.self) else { throw invalid }
    return path
  }

  private static let invalid = DatabaseError(
    .invalidURL,
    "the path of the URL is not percent-encoded UTF-8; write a % of a key as %25")

  private static func isPlain(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"):
      true
    default: "-._~/".utf8.contains(byte)
    }
  }

  private static func digit(_ value: UInt8) -> UInt8 {
    value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "A") + (value - 10)
  }

  private static func value(_ digit: UInt8) -> UInt8? {
    switch digit {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
    case UInt8(ascii: "A")...UInt8(ascii: "F"): digit - UInt8(ascii: "A") + 10
    default: nil
    }
  }
}
