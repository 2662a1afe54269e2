/// The name of a child: 1 to 768 bytes of UTF-8, compared and hashed by those bytes.
///
/// Swift's `String` treats `é` as one code point and as two as equal; as keys they name different
/// children. A key therefore keeps bytes, in the cheapest form that can hold them. Each byte
/// sequence has exactly one form, so equality and hashing use the form alone:
///
/// - `integer`: canonical 32-bit integers, which sort before all other keys, by number;
/// - `padded`: 32-bit integers in another form of at most eleven bytes (`03`, `-0`), which sort among
///   them, by number;
/// - `short`: up to 16 bytes, packed big-endian into two words (no key contains NUL, so the padding
///   shows the length);
/// - `push`: the 20 characters of a push id (`PushID`), six bits each;
/// - `long`: all other keys, in an array.
///
/// Only `long` is reference counted, so walking the usual trees counts no references for keys. 17
/// bytes (24 in an array). A comparison costs a few instructions; for `long` keys, their common
/// prefix.
public struct Key: Hashable, Sendable {
  enum Form: Hashable, Sendable {
    case integer(Int32)
    case padded(PaddedInteger)
    case short(UInt64, UInt64)
    case push(UInt64, UInt64)
    case long([UInt8])
  }

  let form: Form

  init(form: Form) {
    self.form = form
  }

  /// Whether a copy of the key counts no reference.
  var isPlain: Bool { if case .long = form { false } else { true } }

  /// Creates a key from text.
  ///
  /// - Throws: `TreeError.invalidKey` if the text is empty, too long, or contains a forbidden
  ///   character.
  public init(_ text: some StringProtocol) throws(TreeError) {
    var text = String(text)
    let result: Result<Key, TreeError> = text.withUTF8 { bytes in
      do throws(TreeError) { return .success(try Key(utf8: UnsafeRawBufferPointer(bytes))) } catch {
        return .failure(error)
      }
    }
    self = try result.get()
  }

  /// Creates a key from bytes.
  ///
  /// - Precondition: the bytes are valid UTF-8.
  /// - Throws: `TreeError.invalidKey` if there are no bytes, too many, or a forbidden one.
  package init(utf8 bytes: UnsafeRawBufferPointer) throws(TreeError) {
    guard !bytes.isEmpty else { throw .invalidKey("a key may not be empty") }
    assert(
      !bytes.contains { $0 >= 0x80 } || String(validating: bytes, as: UTF8.self) != nil,
      "a key is not UTF-8")
    guard bytes.count <= Limits.keyBytesMax else {
      throw .invalidKey("a key may have at most \(Limits.keyBytesMax) bytes of UTF-8")
    }
    if let form = Key.usualForm(bytes) {
      self = Key(form: form)
      return
    }
    for byte in bytes where Key.isForbidden(byte) {
      throw .invalidKey(
        "a key may not contain any of . $ # [ ] / or a control character; found "
          + Key.describe(byte))
    }
    self.init(unchecked: bytes)
  }

  /// Returns the form of a push id, or of a valid short key that begins with a letter and is ASCII without escapes in
  /// JSON; nil for all other bytes. Finds out without a look at each byte.
  @inline(__always)
  private static func usualForm(_ bytes: UnsafeRawBufferPointer) -> Form? {
    if bytes.count <= 16 {
      // The text of a number does not begin with a letter.
      guard bytes[0] >= UInt8(ascii: "A") else { return nil }
      let (high, low) = pack(bytes)
      // A NUL at the end of a word would look like padding.
      guard shortCount(high, low) == bytes.count, low == 0 || high & 0xFF != 0,
        isValidText(high, low)
      else { return nil }
      return .short(high, low)
    }
    guard bytes.count == PushID.length, let (high, low) = PushID.pack(bytes) else { return nil }
    return .push(high, low)
  }

  /// Creates a key from the bytes of a valid key.
  init(unchecked bytes: UnsafeRawBufferPointer) {
    assert(1...Limits.keyBytesMax ~= bytes.count, "not a valid key")
    if let number = Key.canonicalInteger(bytes) {
      form = .integer(number)
    } else if let number = PaddedInteger(bytes) {
      form = .padded(number)
    } else if bytes.count <= 16 {
      let (high, low) = Key.pack(bytes)
      form = .short(high, low)
    } else if bytes.count == PushID.length, let (high, low) = PushID.pack(bytes) {
      form = .push(high, low)
    } else {
      form = .long([UInt8](bytes))
    }
  }

  /// Creates the key of an array element.
  public init(index: Int32) {
    form = .integer(index)
  }

  /// The number that the key spells, if it is a canonical 32-bit integer (`7`, `-1`; not `07`).
  public var integer: Int32? {
    if case .integer(let number) = form { number } else { nil }
  }

  /// The number by which the key sorts, if it spells a 32-bit integer in any form (`7`, `07`).
  var sortingNumber: Int32? {
    switch form {
    case .integer(let number): number
    case .padded(let number): number.value
    default: nil
    }
  }

  /// The key as text.
  ///
  /// - Complexity: O(length).
  public var text: String {
    withUTF8 { String(decoding: $0, as: UTF8.self) }
  }

  /// The number of bytes.
  public var utf8Count: Int {
    switch form {
    case .long(let bytes): bytes.count
    case .push: PushID.length
    default: withUTF8 { $0.count }
    }
  }

  /// Calls `body` with the bytes of the key, without allocation.
  public func withUTF8<R>(_ body: (UnsafeRawBufferPointer) throws -> R) rethrows -> R {
    switch form {
    case .long(let bytes):
      return try bytes.withUnsafeBytes(body)
    case .short(let high, let low):
      var words = (high.bigEndian, low.bigEndian)
      let count = Key.shortCount(high, low)
      return try withUnsafeBytes(of: &words) {
        try body(UnsafeRawBufferPointer(rebasing: $0.prefix(count)))
      }
    case .push(let high, let low):
      return try withUnsafeTemporaryAllocation(byteCount: PushID.length, alignment: 1) {
        PushID.unpack(high, low, into: $0)
        return try body(UnsafeRawBufferPointer($0))
      }
    case .integer(let number):
      return try withUnsafeTemporaryAllocation(byteCount: 11, alignment: 1) {
        let count = Decimal.write(Int64(number), into: $0)
        return try body(UnsafeRawBufferPointer(rebasing: $0.prefix(count)))
      }
    case .padded(let number):
      return try withUnsafeTemporaryAllocation(
        byteCount: PaddedInteger.bytesMax, alignment: 1
      ) {
        let count = number.write(into: $0)
        return try body(UnsafeRawBufferPointer(rebasing: $0.prefix(count)))
      }
    }
  }

  /// Returns the number of bytes of a short key.
  @inline(__always)
  static func shortCount(_ high: UInt64, _ low: UInt64) -> Int {
    low == 0 ? 8 - high.trailingZeroBitCount / 8 : 16 - low.trailingZeroBitCount / 8
  }

  /// Whether a short key is ASCII without escapes in JSON.
  @inline(__always)
  static func isPlainText(_ high: UInt64, _ low: UInt64) -> Bool {
    // The padding is zeros, which would need escapes: spaces replace it.
    func isPlain(_ word: UInt64) -> Bool {
      let padding = (UInt64(1) << UInt64(word.trailingZeroBitCount & ~7)) &- 1
      let text = word | (padding & 0x2020_2020_2020_2020)
      return JSONScan.escapeMask(text) == 0 && text & 0x8080_8080_8080_8080 == 0
    }
    return isPlain(high) && (low == 0 || isPlain(low))
  }

  /// Whether the bytes of a short key are ASCII, valid, and without escapes in JSON.
  @inline(__always)
  static func isValidText(_ high: UInt64, _ low: UInt64) -> Bool {
    // Not zero if one of the bytes is the character.
    func has(_ byte: UInt8, _ word: UInt64) -> UInt64 {
      let zeros = word ^ (0x0101_0101_0101_0101 &* UInt64(byte))
      return (zeros &- 0x0101_0101_0101_0101) & ~zeros & 0x8080_8080_8080_8080
    }
    // The forbidden characters that JSON does not escape.
    func forbidden(_ word: UInt64) -> UInt64 {
      has(UInt8(ascii: "."), word) | has(UInt8(ascii: "$"), word) | has(UInt8(ascii: "#"), word)
        | has(UInt8(ascii: "["), word) | has(UInt8(ascii: "]"), word)
        | has(UInt8(ascii: "/"), word) | has(0x7F, word)
    }
    return isPlainText(high, low) && forbidden(high) | forbidden(low) == 0
  }

  /// Whether no key may contain the byte: `. $ # [ ] /`, U+0000–001F and U+007F.
  static func isForbidden(_ byte: UInt8) -> Bool {
    switch byte {
    case 0..<0x20, 0x7F: true
    case UInt8(ascii: "."), UInt8(ascii: "$"), UInt8(ascii: "#"), UInt8(ascii: "["),
      UInt8(ascii: "]"), UInt8(ascii: "/"):
      true
    default: false
    }
  }

  private static func describe(_ byte: UInt8) -> String {
    byte < 0x20 || byte == 0x7F
      ? "the control character \(byte)" : "'\(Character(UnicodeScalar(byte)))'"
  }

  /// Returns the number that the bytes spell in canonical form (no leading zeros, no plus sign, no
  /// `-0`), if it fits in 32 bits.
  static func canonicalInteger(_ bytes: UnsafeRawBufferPointer) -> Int32? {
    // The longest 32-bit integer has eleven characters.
    bytes.count <= 11 ? Decimal.integer(bytes).flatMap { Int32(exactly: $0) } : nil
  }

  /// Returns up to 16 bytes as two big-endian words, padded with zeros.
  private static func pack(_ bytes: UnsafeRawBufferPointer) -> (UInt64, UInt64) {
    var words: (UInt64, UInt64) = (0, 0)
    withUnsafeMutableBytes(of: &words) { $0.copyMemory(from: bytes) }
    return (words.0.bigEndian, words.1.bigEndian)
  }
}

extension Key: CustomStringConvertible {
  /// The key as text.
  public var description: String { text }
}

extension Key: ExpressibleByStringLiteral {
  /// Creates a key from a literal.
  ///
  /// - Precondition: the literal is a valid key. Literals stand in the program text, so no input
  ///   can violate this.
  public init(stringLiteral text: StaticString) {
    let bytes = UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)
    precondition(
      !bytes.isEmpty && bytes.count <= Limits.keyBytesMax
        && !bytes.contains(where: Key.isForbidden),
      "not a valid key: \(text)")
    self.init(unchecked: bytes)
  }
}

/// 32-bit integers of at most eleven characters sort first: by number, and those with equal numbers
/// (`3`, `03`, `003`) by length; then all other keys by UTF-16 code units, as in the official clients.
extension Key: Comparable {
  /// Whether `a` sorts before `b`.
  public static func < (a: Key, b: Key) -> Bool {
    switch (a.form, b.form) {
    case (.push(let a0, let a1), .push(let b0, let b1)):
      // Six-bit digits ascend like their characters.
      return a0 != b0 ? a0 < b0 : a1 < b1
    case (.short(let a0, let a1), .short(let b0, let b1)):
      return a0 != b0 ? TextOrder.precedes(a0, b0) : a1 != b1 && TextOrder.precedes(a1, b1)
    case (.integer(let a), .integer(let b)):
      return a < b
    case (.integer, .padded), (.padded, .integer), (.padded, .padded):
      return PaddedInteger.precedes(a, b)
    case (.integer, _), (.padded, _):
      return true
    case (_, .integer), (_, .padded):
      return false
    default:
      return a.withUTF8 { a in b.withUTF8 { b in TextOrder.compare(a, b) < 0 } }
    }
  }
}
