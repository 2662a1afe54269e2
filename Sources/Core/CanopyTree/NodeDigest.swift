internal import Crypto

/// The SHA-1 of a node's hash text, as words (20 bytes): see `Node.hash`.
struct NodeDigest: Sendable, Equatable {
  private let words: (UInt64, UInt64, UInt32)

  static let base64Count = 28

  init(words: (UInt64, UInt64, UInt32)) {
    self.words = words
  }

  init(_ digest: Insecure.SHA1.Digest) {
    words = digest.withUnsafeBytes {
      (
        $0.loadUnaligned(fromByteOffset: 0, as: UInt64.self),
        $0.loadUnaligned(fromByteOffset: 8, as: UInt64.self),
        $0.loadUnaligned(fromByteOffset: 16, as: UInt32.self)
      )
    }
  }

  static func == (a: NodeDigest, b: NodeDigest) -> Bool { a.words == b.words }

  /// The digest in base64.
  var base64: String {
    var output = JSONOutput(capacity: NodeDigest.base64Count)
    append(to: &output)
    return output.text
  }

  /// Appends the digest in base64.
  func append(to output: inout JSONOutput) {
    withUnsafeBytes(of: words) { bytes in
      for start in stride(from: 0, to: 20, by: 3) {
        let second = start + 1 < 20 ? bytes[start + 1] : 0
        let third = start + 2 < 20 ? bytes[start + 2] : 0
        let group = UInt32(bytes[start]) << 16 | UInt32(second) << 8 | UInt32(third)
        output.append(NodeDigest.letter(group >> 18))
        output.append(NodeDigest.letter(group >> 12))
        output.append(NodeDigest.letter(group >> 6))
        output.append(start + 2 < 20 ? NodeDigest.letter(group) : UInt8(ascii: "="))
      }
    }
  }

  /// Returns the base64 letter of the lowest six bits.
  private static func letter(_ value: UInt32) -> UInt8 {
    let six = UInt8(truncatingIfNeeded: value & 63)
    switch six {
    case 0..<26: return UInt8(ascii: "A") + six
    case 26..<52: return UInt8(ascii: "a") + (six - 26)
    case 52..<62: return UInt8(ascii: "0") + (six - 52)
    case 62: return UInt8(ascii: "+")
    default: return UInt8(ascii: "/")
    }
  }
}
