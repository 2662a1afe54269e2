import CanopyTree
import Foundation

extension NaiveTree {
  /// The hash that the official clients compute.
  var hash: String {
    if isAbsent { return "" }
    func text(_ leaf: NaiveLeaf) -> [UInt8] {
      switch leaf {
      case .bool(let value): return Array("boolean:\(value)".utf8)
      case .string(let bytes): return Array("string:".utf8) + bytes
      case .integer, .double:
        let bits = String((leaf.number ?? 0).bitPattern, radix: 16)
        let number = String(repeating: "0", count: 16 - bits.count) + bits
        if case .integer(let value) = leaf, Double(exactly: value) == nil {
          return Array("number:\(number):\(value)".utf8)
        }
        return Array("number:\(number)".utf8)
      }
    }
    var bytes = priority.map { Array("priority:".utf8) + text($0) + Array(":".utf8) } ?? []
    if let leaf {
      bytes += text(leaf)
    } else {
      for key in keys(of: .all) {
        bytes += Array(":".utf8) + key.bytes + Array((":" + self[[key]].hash).utf8)
      }
    }
    return Data(sha1(bytes)).base64EncodedString()
  }
}

/// Computes SHA-1, written directly from RFC 3174.
func sha1(_ message: [UInt8]) -> [UInt8] {
  var bytes = message + [0x80]
  while bytes.count % 64 != 56 { bytes.append(0) }
  bytes += stride(from: 56, through: 0, by: -8).map {
    UInt8(truncatingIfNeeded: (message.count * 8) >> $0)
  }
  func rotate(_ word: UInt32, _ n: UInt32) -> UInt32 { word << n | word >> (32 - n) }
  var h: [UInt32] = [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476, 0xC3D2_E1F0]
  for block in stride(from: 0, to: bytes.count, by: 64) {
    var w = (0..<16).map { i in
      bytes[block + i * 4..<block + i * 4 + 4].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
    }
    for t in 16..<80 { w.append(rotate(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1)) }
    var (a, b, c, d, e) = (h[0], h[1], h[2], h[3], h[4])
    for t in 0..<80 {
      let (f, k): (UInt32, UInt32) =
        switch t {
        case 0..<20: (b & c | ~b & d, 0x5A82_7999)
        case 20..<40: (b ^ c ^ d, 0x6ED9_EBA1)
        case 40..<60: (b & c | b & d | c & d, 0x8F1B_BCDC)
        default: (b ^ c ^ d, 0xCA62_C1D6)
        }
      (a, b, c, d, e) = (rotate(a, 5) &+ f &+ e &+ k &+ w[t], a, rotate(b, 30), c, d)
    }
    h = zip(h, [a, b, c, d, e]).map { $0 &+ $1 }
  }
  return h.flatMap { word in [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: word >> $0) } }
}
