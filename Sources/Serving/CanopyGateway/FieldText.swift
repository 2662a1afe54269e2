internal import CanopyTree

/// The text of fields, which is ASCII and compared by bytes.
extension String {
  /// The most parts of a field that are read. A client may send thousands.
  package static let fieldPartsMax = 64

  /// The first parts between separators, at most `fieldPartsMax`, without spaces at their ends, and with the letters A to Z
  /// in lower case.
  package func parts(separatedBy separator: UInt8) -> [String] {
    utf8.split(separator: separator, maxSplits: Self.fieldPartsMax).prefix(Self.fieldPartsMax).map {
      String(decoding: $0, as: UTF8.self).trimmed.asciiLowercased
    }
  }

  /// The text without spaces at its ends.
  var trimmed: String {
    let space = UInt8(ascii: " ")
    let rest = utf8.drop { $0 == space }
    let count = rest.reversed().drop { $0 == space }.count
    return String(decoding: rest.prefix(count), as: UTF8.self)
  }

  /// The name of a coding or a medium, without its parameters; and whether its weight is zero, so that it is refused.
  package var weighted: (name: String, isRefused: Bool) {
    let parts = parts(separatedBy: UInt8(ascii: ";"))
    let weight = parts.dropFirst().first { $0.hasBytePrefix("q=") }
    let isZero = weight?.droppingBytes(2).utf8.allSatisfy {
      $0 == UInt8(ascii: "0") || $0 == UInt8(ascii: ".")
    }
    return (parts.first ?? "", isZero ?? false)
  }
}
