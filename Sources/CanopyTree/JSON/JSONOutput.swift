internal import Foundation

/// A growing run of bytes that JSON is written to: nodes and texts go straight into it.
///
/// With a drain, what has been written is handed on whenever it exceeds some 64 KiB, so that an
/// export of any size takes little memory.
public struct JSONOutput: ~Copyable {
  private var base: UnsafeMutableRawPointer
  private var capacity: Int
  /// Bytes written and not handed to the drain.
  public private(set) var count = 0
  /// The count beyond which no more members of branches are written.
  var bytesEnd = Int.max
  private let drain: ((UnsafeRawBufferPointer) throws -> Void)?
  private var drainError: (any Error)?

  private static let drainBytes = 64 * 1024

  /// An output that keeps what is written.
  ///
  /// - Parameter capacity: bytes to make room for at first.
  public init(capacity: Int = 256) {
    self.init(capacity: capacity, drain: nil)
  }

  /// An output that hands on what is written, in pieces.
  ///
  /// - Parameter drain: gets the bytes; after it has thrown, the rest is dropped and `finish` throws.
  public init(drain: @escaping (UnsafeRawBufferPointer) throws -> Void) {
    self.init(capacity: JSONOutput.drainBytes * 2, drain: drain)
  }

  private init(capacity: Int, drain: ((UnsafeRawBufferPointer) throws -> Void)?) {
    self.capacity = max(capacity, 32)
    base = .allocate(byteCount: self.capacity, alignment: 8)
    self.drain = drain
  }

  deinit {
    base.deallocate()
  }

  /// Calls `body` with the bytes that are kept.
  public func withBytes<R>(_ body: (UnsafeRawBufferPointer) throws -> R) rethrows -> R {
    try body(UnsafeRawBufferPointer(start: base, count: count))
  }

  /// A copy of the bytes that are kept.
  public var bytes: [UInt8] { withBytes { [UInt8]($0) } }

  /// The bytes that are kept, as text.
  public var text: String { withBytes { String(decoding: $0, as: UTF8.self) } }

  /// Takes back what was written after a moment when `count` was this; without a drain.
  public mutating func truncate(to count: Int) {
    self.count = min(self.count, max(0, count))
  }

  /// The last byte that was appended; nil for none. Precondition: the output has no drain.
  var last: UInt8? {
    assert(drain == nil)
    return count > 0 ? base.load(fromByteOffset: count - 1, as: UInt8.self) : nil
  }

  /// Removes all bytes.
  ///
  /// - Parameter capacityMax: the bytes of memory to keep for the next use; more is given back.
  public mutating func removeAll(keepingCapacity capacityMax: Int = .max) {
    count = 0
    guard capacity > capacityMax else { return }
    base.deallocate()
    capacity = max(capacityMax, 32)
    base = .allocate(byteCount: capacity, alignment: 8)
  }

  /// Hands the rest to the drain.
  ///
  /// - Throws: what the drain threw, now or before.
  public mutating func finish() throws {
    flush()
    if let drainError { throw drainError }
  }

  private mutating func flush() {
    guard let drain else { return }
    if drainError == nil {
      do { try withBytes(drain) } catch { drainError = error }
    }
    count = 0
  }

  @inline(__always)
  private mutating func reserve(_ more: Int) {
    if count &+ more > capacity { grow(more) }
  }

  @inline(never)
  private mutating func grow(_ more: Int) {
    if drain != nil, count > 0 { flush() }
    guard count + more > capacity else { return }
    let larger = max(capacity * 2, count + more)
    let copy = UnsafeMutableRawPointer.allocate(byteCount: larger, alignment: 8)
    copy.copyMemory(from: base, byteCount: count)
    base.deallocate()
    base = copy
    capacity = larger
  }

  /// Adds one byte.
  @inline(__always)
  public mutating func append(_ byte: UInt8) {
    reserve(1)
    base.storeBytes(of: byte, toByteOffset: count, as: UInt8.self)
    count &+= 1
  }

  /// Adds bytes.
  public mutating func append(_ bytes: UnsafeRawBufferPointer) {
    guard let source = bytes.baseAddress else { return }
    reserve(bytes.count)
    (base + count).copyMemory(from: source, byteCount: bytes.count)
    count &+= bytes.count
  }

  /// Adds text of the program as it is, such as `{"id":`.
  @inline(__always)
  public mutating func append(_ text: StaticString) {
    append(UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
  }

  /// Adds text as it is.
  public mutating func append(raw text: String) {
    text.withUTF8Bytes { append($0) }
  }

  /// Adds an integer.
  public mutating func append(_ number: Int64) {
    reserve(Decimal.bytesMax)
    let room = UnsafeMutableRawBufferPointer(start: base + count, count: Decimal.bytesMax)
    count &+= Decimal.write(number, into: room)
  }

  /// Adds a finite number in the fewest digits that read back as the same number.
  public mutating func append(_ number: Double) {
    var text = number.description
    if text.hasByteSuffix(".0") { text.removeLast(2) }
    append(raw: text)
  }

  /// Adds a text as a JSON string.
  public mutating func append(string text: String) {
    text.withUTF8Bytes { append(string: $0) }
  }

  /// Adds a key as a JSON string.
  @inline(__always)
  public mutating func append(key: Key) {
    key.withUTF8 { append(string: $0) }
  }

  /// Adds UTF-8 as a JSON string: quotes, backslashes and control characters escaped, all else as it
  /// is.
  mutating func append(string bytes: UnsafeRawBufferPointer) {
    reserve(bytes.count &+ 2)
    append(UInt8(ascii: "\""))
    append(escaping: bytes)
    append(UInt8(ascii: "\""))
  }

  /// Adds the text of a location as a JSON string.
  mutating func append(location: Location) {
    append(UInt8(ascii: "\""))
    var isFirst = true
    for key in location.path.keys {
      if !isFirst { append(UInt8(ascii: "/")) }
      isFirst = false
      key.withUTF8 { append(escaping: $0) }
    }
    if location.isPriority {
      if !isFirst { append(UInt8(ascii: "/")) }
      append(".priority")
    }
    append(UInt8(ascii: "\""))
  }

  private mutating func append(escaping bytes: UnsafeRawBufferPointer) {
    var start = 0
    var i = JSONScan.plainPrefix(bytes, from: 0)
    while i < bytes.count {
      append(UnsafeRawBufferPointer(rebasing: bytes[start..<i]))
      escape(bytes[i])
      start = i + 1
      i = JSONScan.plainPrefix(bytes, from: start)
    }
    append(UnsafeRawBufferPointer(rebasing: bytes[start...]))
  }

  private mutating func escape(_ byte: UInt8) {
    append(UInt8(ascii: "\\"))
    switch byte {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"): append(byte)
    case 0x0A: append(UInt8(ascii: "n"))
    case 0x0D: append(UInt8(ascii: "r"))
    case 0x09: append(UInt8(ascii: "t"))
    default:
      append("u00")
      append(JSONScan.hexDigit(byte >> 4))
      append(JSONScan.hexDigit(byte & 15))
    }
  }
}

/// Scanning shared by reader and writer.
enum JSONScan {
  static func hexDigit(_ value: UInt8) -> UInt8 {
    value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "a") + value - 10
  }

  /// Whether no byte is beyond ASCII. Eight bytes at a time.
  static func isASCII(_ bytes: UnsafeRawBufferPointer) -> Bool {
    var i = 0
    while i &+ 8 <= bytes.count {
      let word = bytes.loadUnaligned(fromByteOffset: i, as: UInt64.self)
      if word & 0x8080_8080_8080_8080 != 0 { return false }
      i &+= 8
    }
    while i < bytes.count {
      if bytes[i] >= 0x80 { return false }
      i &+= 1
    }
    return true
  }

  /// The bytes that a text has in a JSON string, without the quotes.
  static func escapedCount(_ bytes: UnsafeRawBufferPointer) -> Int {
    var count = bytes.count
    var i = plainPrefix(bytes, from: 0)
    while i < bytes.count {
      switch bytes[i] {
      case UInt8(ascii: "\""), UInt8(ascii: "\\"), 0x0A, 0x0D, 0x09: count += 1
      default: count += 5
      }
      i = plainPrefix(bytes, from: i + 1)
    }
    return count
  }

  /// The index, from `start` on, of the first byte that a JSON string cannot hold as it is: a quote,
  /// a backslash or a control character; the count if there is none. Eight bytes at a time.
  @inline(__always)
  static func plainPrefix(_ bytes: UnsafeRawBufferPointer, from start: Int) -> Int {
    var i = start
    while i &+ 8 <= bytes.count {
      let word = bytes.loadUnaligned(fromByteOffset: i, as: UInt64.self)
      if needsCare(word) != 0 { break }
      i &+= 8
    }
    while i < bytes.count {
      let byte = bytes[i]
      if byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { break }
      i &+= 1
    }
    return i
  }

  /// Not zero if one of the eight bytes is a quote, a backslash or below 0x20. (A byte above 0x7F may
  /// not raise it; the usual bit tricks for "has a byte less than n" and "has a byte equal to n".)
  @inline(__always)
  private static func needsCare(_ word: UInt64) -> UInt64 {
    let ones: UInt64 = 0x0101_0101_0101_0101
    let highs: UInt64 = 0x8080_8080_8080_8080
    let quotes = word ^ (ones &* 0x22)
    let backslashes = word ^ (ones &* 0x5C)
    let below = (word &- ones &* 0x20) & ~word
    let quote = (quotes &- ones) & ~quotes
    let backslash = (backslashes &- ones) & ~backslashes
    return (below | quote | backslash) & highs
  }
}
