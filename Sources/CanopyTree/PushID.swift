/// The 20-character keys that `childByAutoId` and `PUSH` make: 8 characters of milliseconds since
/// 1970, then 12 of randomness (72 bits), over an alphabet in ASCII order, so that keys ascend with
/// time.
public enum PushID {
  /// Characters in a push id.
  public static let length = 20

  /// Returns the time in a push id, in milliseconds since 1970; nil for a key that is not a push id. O(1).
  public static func time(of key: Key) -> Int64? {
    guard case .push(let high, _) = key.form else { return nil }
    return Int64(high >> 12)
  }

  /// The alphabet: six bits a character, ascending.
  static let alphabet: [UInt8] = Array(
    "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz".utf8)

  /// The six bits of a character of the alphabet.
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

  /// The six bits of each byte, and 0x80 for those that are not in the alphabet.
  private static let digits: [UInt8] = (0...255).map { byte in
    digit(byte).map { UInt8(truncatingIfNeeded: $0) } ?? 0x80
  }

  /// 20 characters of the alphabet as two numbers of ten digits; nil if one is of another alphabet.
  static func pack(_ bytes: UnsafeRawBufferPointer) -> (UInt64, UInt64)? {
    // From a table: most of the characters are random, and no processor guesses which range they are in.
    digits.withUnsafeBufferPointer { digits in
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

  /// The 20 characters of two numbers of ten digits.
  static func unpack(_ high: UInt64, _ low: UInt64, into bytes: UnsafeMutableRawBufferPointer) {
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

/// Makes push ids that always ascend.
///
/// Within one millisecond the random part is that of the last key plus one. A clock that steps back
/// must not make a smaller key, nor may a random part that is all `z` overflow: in both cases the
/// generator goes on from the last key, into the next millisecond if it has to.
///
/// The algorithm is the one that Firebase published for its client libraries, with those two cases
/// mended. A value type: whoever owns it serialises its use.
public struct PushIDGenerator: Sendable {
  /// The largest time that eight characters can hold, in milliseconds since 1970 (the year 10889).
  public static let timeMax: Int64 = (1 << 48) - 1

  /// The time in the greatest key so far, in milliseconds since 1970; -1 before the first one.
  public private(set) var time: Int64 = -1
  private var random: (high: UInt64, low: UInt64) = (0, 0)

  /// A generator that has made no key yet.
  public init() {}

  /// A generator whose keys sort after all that were made up to a time, whatever the clock says now.
  public init(after milliseconds: Int64) {
    time = min(max(milliseconds, -1), PushIDGenerator.timeMax)
    // As if the last key of that millisecond had been made.
    random = (0xFFF, 0xFFF_FFFF_FFFF_FFFF)
  }

  /// The next key.
  ///
  /// - Parameters:
  ///   - milliseconds: the time now, since 1970. Held to 0…`timeMax`.
  ///   - source: a source of random words, asked when a new millisecond begins.
  public mutating func next(
    at milliseconds: Int64, random source: () -> UInt64
  ) -> Key {
    let now = min(max(milliseconds, 0), PushIDGenerator.timeMax)
    if now > time {
      time = now
      // 72 bits: 12 in `high`, after the time's last two characters, and 60 in `low`.
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
