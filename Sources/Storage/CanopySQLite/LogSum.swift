/// The running checksum of a write-ahead log.
struct LogSum {
  private(set) var a: UInt32 = 0
  private(set) var b: UInt32 = 0
  let isBigEndian: Bool

  init(isBigEndian: Bool) {
    self.isBigEndian = isBigEndian
  }

  /// Creates the checksum that a frame contains.
  init(storedIn frame: [UInt8], isBigEndian: Bool) {
    a = LogSum.word(frame, 16)
    b = LogSum.word(frame, 20)
    self.isBigEndian = isBigEndian
  }

  /// Creates the checksum after the header of a log; nil if the header is not intact.
  init?(logHeader header: [UInt8]) {
    guard header.count == 32 else { return nil }
    let magic = LogSum.word(header, 0)
    guard magic & ~1 == 0x377F_0682 else { return nil }
    self.init(isBigEndian: magic & 1 == 1)
    header.withUnsafeBytes { add(UnsafeRawBufferPointer(rebasing: $0.prefix(24))) }
    guard a == LogSum.word(header, 24), b == LogSum.word(header, 28) else { return nil }
  }

  /// Adds a frame. Returns whether it follows the frames before it, and is intact.
  ///
  /// - Parameter salts: the salts of the log, as its header has them.
  mutating func add(frame: ArraySlice<UInt8>, salts: [UInt8]) -> Bool {
    frame.withUnsafeBytes { bytes in
      add(UnsafeRawBufferPointer(rebasing: bytes.prefix(8)))
      add(UnsafeRawBufferPointer(rebasing: bytes.dropFirst(24)))
    }
    let header = Array(frame.prefix(24))
    return header[8..<16].elementsEqual(salts) && a == LogSum.word(header, 16)
      && b == LogSum.word(header, 20)
  }

  /// Returns the number in four bytes of a header, the highest byte first.
  static func word(_ bytes: [UInt8], _ offset: Int) -> UInt32 {
    bytes[offset..<offset + 4].reduce(0) { $0 << 8 | UInt32($1) }
  }

  /// The checksum as a header contains it.
  var stored: [UInt8] { LogSum.bytes(a, isBigEndian: true) + LogSum.bytes(b, isBigEndian: true) }

  private static func bytes(_ word: UInt32, isBigEndian: Bool) -> [UInt8] {
    withUnsafeBytes(of: isBigEndian ? word.bigEndian : word.littleEndian) { Array($0) }
  }

  /// Adds bytes. Precondition: their count is a multiple of eight.
  mutating func add(_ bytes: UnsafeRawBufferPointer) {
    assert(bytes.count.isMultiple(of: 8), "a sum covers whole pairs of words")
    var (a, b) = (a, b)
    var offset = 0
    while offset + 8 <= bytes.count {
      let first = bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self)
      let second = bytes.loadUnaligned(fromByteOffset: offset + 4, as: UInt32.self)
      a = a &+ (isBigEndian ? first.bigEndian : first.littleEndian) &+ b
      b = b &+ (isBigEndian ? second.bigEndian : second.littleEndian) &+ a
      offset += 8
    }
    (self.a, self.b) = (a, b)
  }

  /// Takes back the last bytes that were added. Precondition: their count is a multiple of eight.
  mutating func remove(_ bytes: [UInt8]) {
    for offset in stride(from: bytes.count - 8, through: 0, by: -8) {
      let (first, second) = pair(bytes, offset)
      b = b &- second &- a
      a = a &- first &- b
    }
  }

  /// Returns the eight bytes with which this checksum becomes another.
  func bytes(to other: LogSum) -> [UInt8] {
    let first = other.a &- a &- b
    let second = other.b &- b &- other.a
    return LogSum.bytes(first, isBigEndian: isBigEndian)
      + LogSum.bytes(second, isBigEndian: isBigEndian)
  }

  /// Finds the bit of some bytes that was altered: after it is changed back, they have the checksum `other`. Returns nil if
  /// no bit, or more than one, has this effect.
  ///
  /// A word adds a multiple of itself to both halves of the checksum. The factors depend on its place from the end. The
  /// high bits of a word change few bits of the checksum, so there are often several words whose change has that effect.
  ///
  /// - Parameters:
  ///   - bytes: the bytes, whose count is a multiple of eight.
  ///   - other: the checksum that they must have. This is the one that they have.
  func changedBit(of bytes: [UInt8], to other: LogSum) -> (offset: Int, mask: UInt8)? {
    let difference = (a: other.a &- a, b: other.b &- b)
    var first: (a: UInt32, b: UInt32) = (1, 1)
    var second: (a: UInt32, b: UInt32) = (0, 1)
    var found: (offset: Int, mask: UInt8)?
    for start in stride(from: bytes.count - 8, through: 0, by: -8) {
      for offset in start..<start + 8 {
        let factor = offset - start < 4 ? first : second
        let place = UInt32(8 * (offset % 4))
        let shift = isBigEndian ? 24 - place : place
        for bit in 0..<8 as Range<UInt32> {
          let mask = UInt8(1) << UInt8(bit)
          let value = UInt32(1) << (shift + bit)
          let change = bytes[offset] & mask == 0 ? value : 0 &- value
          guard change &* factor.a == difference.a, change &* factor.b == difference.b else {
            continue
          }
          if found != nil { return nil }
          found = (offset, mask)
        }
      }
      first = (first.a &+ first.b, first.a &+ 2 &* first.b)
      second = (second.a &+ second.b, second.a &+ 2 &* second.b)
    }
    return found
  }

  private func pair(_ bytes: [UInt8], _ offset: Int) -> (UInt32, UInt32) {
    let words = (LogSum.word(bytes, offset), LogSum.word(bytes, offset + 4))
    return isBigEndian ? words : (words.0.byteSwapped, words.1.byteSwapped)
  }
}
