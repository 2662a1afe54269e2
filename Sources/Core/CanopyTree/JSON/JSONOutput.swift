internal import Foundation

/// A growing byte buffer for JSON text.
///
/// With a drain, the buffer hands its bytes on whenever it exceeds about 64 KiB, so an export of
/// any size needs little memory.
public struct JSONOutput: ~Copyable {
  private var base: UnsafeMutableRawPointer
  /// The bytes for which there is memory.
  public private(set) var capacity: Int
  /// The number of bytes that are written and not yet drained.
  public private(set) var count = 0
  /// The count beyond which no more members of branches, and no longer texts, are written; negative when one was left
  /// out.
  var bytesEnd = Int.max
  private let drain: ((UnsafeRawBufferPointer) throws -> Void)?
  private var drainError: (any Error)?

  private static let drainBytes = 64 * 1024

  /// Creates an output that keeps its bytes.
  ///
  /// - Parameter capacity: the initial capacity in bytes.
  public init(capacity: Int = 256) {
    self.init(capacity: capacity, drain: nil)
  }

  /// Creates an output that hands its bytes on in pieces.
  ///
  /// - Parameter drain: receives the bytes; after it throws, later bytes are dropped and `finish`
  ///   throws.
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

  /// Calls `body` with the kept bytes.
  public func withBytes<R>(_ body: (UnsafeRawBufferPointer) throws -> R) rethrows -> R {
    try body(UnsafeRawBufferPointer(start: base, count: count))
  }

  /// A copy of the kept bytes.
  public var bytes: [UInt8] { withBytes { [UInt8]($0) } }

  /// The kept bytes as text.
  public var text: String { withBytes { String(decoding: $0, as: UTF8.self) } }

  /// Drops all bytes after the first `count`.
  ///
  /// - Precondition: the output has no drain.
  public mutating func truncate(to count: Int) {
    assert(drain == nil, "drained bytes cannot be dropped")
    self.count = min(self.count, max(0, count))
  }

  /// The last byte; nil if there is none.
  ///
  /// - Precondition: the output has no drain.
  var last: UInt8? {
    assert(drain == nil)
    return count > 0 ? base.load(fromByteOffset: count - 1, as: UInt8.self) : nil
  }

  /// Removes all bytes.
  ///
  /// - Parameter capacityMax: the most memory to keep for reuse, in bytes; a larger buffer is
  ///   freed.
  public mutating func removeAll(keepingCapacity capacityMax: Int = .max) {
    count = 0
    guard capacity > capacityMax else { return }
    base.deallocate()
    capacity = max(capacityMax, 32)
    base = .allocate(byteCount: capacity, alignment: 8)
  }

  /// Hands the remaining bytes to the drain.
  ///
  /// - Throws: the drain's error, also an earlier one.
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
    // With room for the brackets behind a large text, so that it is not copied once more for them.
    let larger = max(capacity * 2, count + more + 64)
    let copy = UnsafeMutableRawPointer.allocate(byteCount: larger, alignment: 8)
    copy.copyMemory(from: base, byteCount: count)
    base.deallocate()
    base = copy
    capacity = larger
  }

  /// Appends one byte.
  @inline(__always)
  public mutating func append(_ byte: UInt8) {
    reserve(1)
    base.storeBytes(of: byte, toByteOffset: count, as: UInt8.self)
    count &+= 1
  }

  /// Appends bytes.
  public mutating func append(_ bytes: UnsafeRawBufferPointer) {
    guard let source = bytes.baseAddress else { return }
    reserve(bytes.count)
    (base + count).copyMemory(from: source, byteCount: bytes.count)
    count &+= bytes.count
  }

  /// Appends a literal unchanged, such as `{"id":`.
  @inline(__always)
  public mutating func append(_ text: StaticString) {
    append(UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
  }

  /// Appends text unchanged.
  public mutating func append(raw text: String) {
    text.withUTF8Bytes { append($0) }
  }

  /// Appends an integer.
  public mutating func append(_ number: Int64) {
    reserve(Decimal.bytesMax)
    let room = UnsafeMutableRawBufferPointer(start: base + count, count: Decimal.bytesMax)
    count &+= Decimal.write(number, into: room)
  }

  /// Appends a finite number in the fewest digits that read back as the same number.
  public mutating func append(_ number: Double) {
    var text = number.description
    if text.hasByteSuffix(".0") { text.removeLast(2) }
    append(raw: text)
  }

  /// Appends a text as a JSON string.
  public mutating func append(string text: String) {
    text.withUTF8Bytes { append(string: $0) }
  }

  /// Appends a key as a JSON string.
  @inline(__always)
  public mutating func append(key: Key) {
    key.withUTF8 { append(string: $0) }
  }

  /// Appends UTF-8 as a JSON string: escapes quotes, backslashes and control characters only.
  mutating func append(string bytes: UnsafeRawBufferPointer) {
    reserve(bytes.count &+ 2)
    append(UInt8(ascii: "\""))
    append(escaping: bytes)
    append(UInt8(ascii: "\""))
  }

  /// Appends the text of a location as a JSON string.
  mutating func append(location: Location) {
    append(UInt8(ascii: "\""))
    var isFirst = true
    for key in location.path.keys {
      if !isFirst { append(UInt8(ascii: "/")) }
      isFirst = false
      append(escaping: key)
    }
    if location.isPriority {
      if !isFirst { append(UInt8(ascii: "/")) }
      append(".priority")
    }
    append(UInt8(ascii: "\""))
  }

  @inline(__always)
  private mutating func append(escaping key: Key) {
    switch key.form {
    case .push(let high, let low):
      reserve(PushID.length)
      PushID.unpack(
        high, low,
        into: UnsafeMutableRawBufferPointer(start: base + count, count: PushID.length))
      count &+= PushID.length
    case .short(let high, let low) where Key.isPlainText(high, low):
      reserve(16)
      base.storeBytes(of: high.bigEndian, toByteOffset: count, as: UInt64.self)
      base.storeBytes(of: low.bigEndian, toByteOffset: count &+ 8, as: UInt64.self)
      count &+= Key.shortCount(high, low)
    default: key.withUTF8 { append(escaping: $0) }
    }
  }

  /// Appends a part of a text, with the escapes of a JSON string.
  mutating func append(escaping bytes: UnsafeRawBufferPointer) {
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
