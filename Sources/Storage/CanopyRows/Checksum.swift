/// A 64-bit checksum of a sequence of numbers and byte strings. It finds accidental damage.
///
/// Each part is mixed by XXH64 (Yann Collet's specification) with the checksum so far as the seed. So the checksum
/// depends on the order and the lengths of the parts. It is no protection against an attacker, who can easily construct
/// a collision.
///
/// - Complexity: O(bytes): about 0.1 ns for each byte and 20 ns for each part.
package struct Checksum: Equatable, Sendable {
  private static let prime1: UInt64 = 0x9E37_79B1_85EB_CA87
  private static let prime2: UInt64 = 0xC2B2_AE3D_27D4_EB4F
  private static let prime3: UInt64 = 0x1656_67B1_9E37_79F9
  private static let prime4: UInt64 = 0x85EB_CA77_C2B2_AE63
  private static let prime5: UInt64 = 0x27D4_EB2F_1656_67C5

  /// The checksum of the parts that were added.
  package private(set) var value: UInt64

  /// Creates the checksum of an empty sequence.
  package init(seed: UInt64 = 0) {
    value = seed
  }

  /// The checksum as a column stores it.
  package var stored: Int64 { Int64(bitPattern: value) }

  /// Adds a number.
  package mutating func add(_ number: Int64) {
    let mixed = Checksum.round(0, UInt64(bitPattern: number))
    value = Checksum.avalanche(
      Checksum.rotate(value ^ mixed, 27) &* Checksum.prime1 &+ Checksum.prime4)
  }

  /// Adds a byte string.
  package mutating func add(_ bytes: UnsafeRawBufferPointer) {
    value = Checksum.xxh64(bytes, seed: value)
  }

  /// Adds the UTF-8 bytes of a text.
  package mutating func add(_ text: String) {
    var text = text
    text.withUTF8 { add(UnsafeRawBufferPointer($0)) }
  }

  /// Returns the XXH64 of some bytes.
  package static func xxh64(_ bytes: UnsafeRawBufferPointer, seed: UInt64) -> UInt64 {
    var offset = 0
    var hash: UInt64
    if bytes.count >= 32 {
      var a = seed &+ prime1 &+ prime2
      var b = seed &+ prime2
      var c = seed
      var d = seed &- prime1
      let last = bytes.count - 32
      while offset <= last {
        a = round(a, word(bytes, offset))
        b = round(b, word(bytes, offset &+ 8))
        c = round(c, word(bytes, offset &+ 16))
        d = round(d, word(bytes, offset &+ 24))
        offset &+= 32
      }
      hash = rotate(a, 1) &+ rotate(b, 7) &+ rotate(c, 12) &+ rotate(d, 18)
      hash = merge(merge(merge(merge(hash, a), b), c), d)
    } else {
      hash = seed &+ prime5
    }
    hash &+= UInt64(bytes.count)
    return avalanche(rest(of: bytes, from: offset, hash))
  }

  /// Mixes in the last bytes, at most 31.
  @inline(__always)
  private static func rest(
    of bytes: UnsafeRawBufferPointer, from start: Int, _ start64: UInt64
  ) -> UInt64 {
    var hash = start64
    var offset = start
    while offset + 8 <= bytes.count {
      hash = rotate(hash ^ round(0, word(bytes, offset)), 27) &* prime1 &+ prime4
      offset += 8
    }
    if offset + 4 <= bytes.count {
      let half = UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self))
      hash = rotate(hash ^ (UInt64(half) &* prime1), 23) &* prime2 &+ prime3
      offset += 4
    }
    while offset < bytes.count {
      hash = rotate(hash ^ (UInt64(bytes[offset]) &* prime5), 11) &* prime1
      offset += 1
    }
    return hash
  }

  @inline(__always)
  private static func word(_ bytes: UnsafeRawBufferPointer, _ offset: Int) -> UInt64 {
    UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
  }

  @inline(__always)
  private static func round(_ lane: UInt64, _ word: UInt64) -> UInt64 {
    rotate(lane &+ word &* prime2, 31) &* prime1
  }

  @inline(__always)
  private static func rotate(_ x: UInt64, _ bits: UInt64) -> UInt64 {
    x &<< bits | x &>> (64 &- bits)
  }

  @inline(__always)
  private static func merge(_ hash: UInt64, _ lane: UInt64) -> UInt64 {
    (hash ^ round(0, lane)) &* prime1 &+ prime4
  }

  @inline(__always)
  private static func avalanche(_ hash: UInt64) -> UInt64 {
    var hash = hash
    hash = (hash ^ (hash >> 33)) &* prime2
    hash = (hash ^ (hash >> 29)) &* prime3
    return hash ^ (hash >> 32)
  }
}

extension Checksum {
  /// Returns the checksum of a row of `leaves`.
  package static func leaf(
    _ path: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer
  ) -> Checksum {
    var checksum = Checksum(seed: 1)
    checksum.add(path)
    checksum.add(value)
    return checksum
  }

  /// Returns the checksum of a row of `commits`. It depends on the checksum of the row before, so a row that is missing
  /// or in another position is found, as well as a row that was changed.
  package static func commit(
    after previous: Checksum, _ sequence: Int64, _ time: Int64, _ body: UnsafeRawBufferPointer,
    _ before: UnsafeRawBufferPointer?
  ) -> Checksum {
    var checksum = previous
    checksum.add(sequence)
    checksum.add(time)
    checksum.add(body)
    checksum.add(before == nil ? 0 : 1)
    if let before { checksum.add(before) }
    return checksum
  }

  /// Creates a checksum from a stored number.
  package init(stored: Int64) {
    value = UInt64(bitPattern: stored)
  }
}
