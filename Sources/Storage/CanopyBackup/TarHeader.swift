internal import Foundation

/// The header of a file in a tar archive, in the format `ustar` of POSIX.
///
/// Every byte of the header follows from the name, the size and the time. So a reader compares the whole block, and
/// finds each altered byte.
package struct TarHeader: Equatable {
  /// The bytes of a block. A header is one block, and the contents of a file fill whole blocks.
  package static let blockBytes = 512
  /// The most bytes of a name.
  static let nameBytesMax = 100
  /// The sizes that the octal digits of the format can have. Larger ones are binary, as GNU tar writes them.
  private static let octalMax = 1 << 33

  /// The path of the file in the archive.
  package let name: String
  /// The number of bytes in the file.
  package let size: Int
  /// The time of the file in seconds since 1970.
  let seconds: Int

  /// The number of zero bytes after the contents.
  package var padding: Int {
    (TarHeader.blockBytes - size % TarHeader.blockBytes) % TarHeader.blockBytes
  }

  package init(name: String, size: Int, seconds: Int) {
    self.name = name
    self.size = size
    self.seconds = seconds
  }

  /// Reads a header; nil for a block that is not exactly such a header.
  package init?(_ block: [UInt8]) {
    guard block.count == TarHeader.blockBytes, let size = TarHeader.number(block[124..<136]),
      let seconds = TarHeader.number(block[136..<148])
    else { return nil }
    let name = String(
      decoding: block[..<TarHeader.nameBytesMax].prefix { $0 != 0 }, as: UTF8.self)
    self.init(name: name, size: size, seconds: seconds)
    guard !name.isEmpty, name.utf8.count <= TarHeader.nameBytesMax, encoded == block else {
      return nil
    }
  }

  /// The block. Precondition: the name has at most `nameBytesMax` bytes.
  package var encoded: [UInt8] {
    precondition(name.utf8.count <= TarHeader.nameBytesMax, "the name fits")
    var block = [UInt8](repeating: 0, count: TarHeader.blockBytes)
    func put(_ bytes: some Collection<UInt8>, at offset: Int) {
      block.replaceSubrange(offset..<(offset + bytes.count), with: bytes)
    }
    put(name.utf8, at: 0)
    put("0000600\0".utf8, at: 100)
    put("0000000\0".utf8, at: 108)
    put("0000000\0".utf8, at: 116)
    put(TarHeader.bytes(of: size), at: 124)
    put(TarHeader.bytes(of: seconds), at: 136)
    put("        ".utf8, at: 148)
    put("0".utf8, at: 156)
    put("ustar\u{0}00".utf8, at: 257)
    let sum = block.reduce(0) { $0 + Int($1) }
    put((TarHeader.octal(sum, digits: 6) + "\0 ").utf8, at: 148)
    return block
  }

  private static func octal(_ number: Int, digits: Int) -> String {
    let text = String(number, radix: 8)
    return String(repeating: "0", count: max(0, digits - text.utf8.count)) + text
  }

  /// Returns the 12 bytes of a number: 11 octal digits and a zero, or 0x80 and the number in binary.
  private static func bytes(of number: Int) -> [UInt8] {
    if 0..<octalMax ~= number { return Array((octal(number, digits: 11) + "\0").utf8) }
    var bytes: [UInt8] = [0x80, 0, 0, 0]
    for shift in stride(from: 56, through: 0, by: -8) {
      bytes.append(UInt8(truncatingIfNeeded: number >> shift))
    }
    return bytes
  }

  /// Returns the number in 12 bytes; nil if `bytes(of:)` writes no number in this way.
  private static func number(_ field: ArraySlice<UInt8>) -> Int? {
    let bytes = Array(field)
    let number: Int?
    if bytes[0] == 0x80 {
      number = bytes[4...].reduce(0) { $0 << 8 | Int($1) }
    } else {
      number = Int(String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self), radix: 8)
    }
    guard let number, number >= 0, self.bytes(of: number) == bytes else { return nil }
    return number
  }
}
