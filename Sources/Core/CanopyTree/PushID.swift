/// The 20-character keys of `childByAutoId` and `PUSH`: 8 characters of milliseconds since 1970,
/// then 12 random ones (72 bits). Their alphabet is in ASCII order, so keys ascend with time.
public enum PushID {
  /// The number of characters in a push id.
  public static let length = 20

  /// Returns the time in a push id, in milliseconds since 1970; nil for a key that is not a push id. O(1).
  public static func time(of key: Key) -> Int64? {
    guard case .push(let high, _) = key.form else { return nil }
    return Int64(high >> 12)
  }

  /// The alphabet, ascending: six bits for each character.
  static let alphabet: [UInt8] = Array(
    "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz".utf8)

  /// Returns the six bits of a character of the alphabet; nil for other bytes.
  @inline(__always)
  static func digit(_ byte: UInt8) -> UInt64? {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt64(byte) - 0x30 + 1
    case UInt8(ascii: "A")...UInt8(ascii: "Z"): UInt64(byte) - 0x41 + 11
    case UInt8(ascii: "a")...UInt8(ascii: "z"): UInt64(byte) - 0x61 + 38
    case UInt8(ascii: "-"): 0
    case UInt8(ascii: "_"): 37
    default: nil
    }
  }

  /// The six bits of each byte, and 0x80 for bytes outside the alphabet.
  private static let digits: [UInt8] = (0...255).map { byte in
    digit(byte).map { UInt8(truncatingIfNeeded: $0) } ?? 0x80
  }

  /// Returns 20 characters of the alphabet as two numbers of ten digits; nil if one is not in the
  /// alphabet.
  ///
  /// - Precondition: there are 20 bytes.
  static func pack(_ bytes: UnsafeRawBufferPointer) -> (UInt64, UInt64)? {
    assert(bytes.count == length, "a push id has \(length) bytes")
    // Use a table: most characters are random, so branches on their ranges would be mispredicted.
    return digits.withUnsafeBufferPointer { digits in
      var high: UInt64 = 0
      var low: UInt64 = 0
      var marks: UInt8 = 0
      for i in 0..<10 {
        let (a, b) = (digits[Int(bytes[i])], digits[Int(bytes[i + 10])])
        marks |= a | b
        high = high << 6 | UInt64(a & 63)
        low = low << 6 | UInt64(b & 63)
      }
      return marks & 0x80 == 0 ? (high, low) : nil
    }
  }

  /// Writes the 20 characters of two numbers of ten digits.
  static func unpack(_ high: UInt64, _ low: UInt64, into bytes: UnsafeMutableRawBufferPointer) {
    assert(bytes.count >= length, "a push id has \(length) bytes")
    alphabet.withUnsafeBufferPointer { alphabet in
      var high = high
      var low = low
      for i in (0..<10).reversed() {
        bytes[i] = alphabet[Int(high & 63)]
        bytes[i + 10] = alphabet[Int(low & 63)]
        high >>= 6
        low >>= 6
      }
    }
  }
}

/// A generator of push ids that always ascend.
///
/// Within one millisecond the random part is that of the last key plus one. If the clock steps
/// back, or the random part is all `z` and cannot grow, the generator continues from the last key,
/// if necessary into the next millisecond.
///
/// The algorithm is the one that Firebase published for its client libraries, with those two cases
/// corrected. A value type: its owner serialises access.
public struct PushIDGenerator: Sendable {
  /// The largest time that eight characters can hold, in milliseconds since 1970 (the year 10889).
  public static let timeMax: Int64 = (1 << 48) - 1

  /// The time in the greatest key so far, in milliseconds since 1970; -1 before the first.
  public private(set) var time: Int64 = -1
  private var random: (high: UInt64, low: UInt64) = (0, 0)

  /// Creates a generator that has returned no key yet.
  public init() {}

  /// Creates a generator whose keys sort after all keys generated up to a time, whatever the clock
  /// says.
  public init(after milliseconds: Int64) {
    time = min(max(milliseconds, -1), PushIDGenerator.timeMax)
    // Continue as after the last possible key of that millisecond.
    random = (0xFFF, 0xFFF_FFFF_FFFF_FFFF)
  }

  /// Makes all later keys sort after the keys that another generator has made up to a time.
  public mutating func advance(past milliseconds: Int64) {
    if milliseconds >= time { self = PushIDGenerator(after: milliseconds) }
  }

  /// Returns the next key.
  ///
  /// - Parameters:
  ///   - milliseconds: the current time since 1970, clamped to 0…`timeMax`.
  ///   - source: a source of random words, called when a new millisecond begins.
  public mutating func next(
    at milliseconds: Int64, random source: () -> UInt64
  ) -> Key {
    let now = min(max(milliseconds, 0), PushIDGenerator.timeMax)
    if now > time {
      time = now
      // 72 bits: 12 in `high`, below the time, and 60 in `low`.
      random = (source() & 0xFFF, source() & 0xFFF_FFFF_FFFF_FFFF)
    } else if random.low < 0xFFF_FFFF_FFFF_FFFF {
      random.low += 1
    } else if random.high < 0xFFF {
      random = (random.high + 1, 0)
    } else {
      time = min(time + 1, PushIDGenerator.timeMax)
      random = (0, 0)
    }
    return Key(form: .push(UInt64(time) << 12 | random.high, random.low))
  }
}
