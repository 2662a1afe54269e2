internal import Foundation

/// A reader of JSON (RFC 8259), from complete bytes or from a source that delivers pieces.
///
/// This file reads the tokens; extensions build results from them directly: `readNode` tree nodes,
/// `readValue` a `JSONValue`.
///
/// Strict: no comments, no trailing commas, UTF-8 only, no lone surrogates; bounded depth and
/// length of strings and numbers. All errors are `TreeError` with the offset of the byte.
///
/// - Complexity: O(bytes).
public struct JSONReader: ~Copyable {
  /// A source of bytes: fills the buffer, in part or whole, and returns the count; 0 at the end.
  public typealias Source = (UnsafeMutableRawBufferPointer) throws -> Int

  private var window: UnsafeRawBufferPointer
  private var index = 0
  private var windowOffset = 0
  private let source: Source?
  private let owned: UnsafeMutableRawBufferPointer?
  private var sourceError: (any Error)?
  private var scratch: [UInt8] = []

  let stringBytesMax: Int
  let priorityBytesMax: Int
  /// Called for each value, for each escape in a string, and for each step of making a large branch.
  let pause: DecodingPause

  // The state of `readNode`.
  var entries: [Child] = []
  var keys: [Key] = []
  var serverValues: [LocatedServerValue] = []
  /// The number of server values that were read, in all values.
  var serverValueCount = 0

  /// Creates a reader of bytes, which must outlive it.
  init(
    _ bytes: UnsafeRawBufferPointer, limits: Limits, pausing pause: DecodingPause = .none
  ) {
    window = bytes
    source = nil
    owned = nil
    self.pause = pause
    stringBytesMax = limits.stringBytesMax
    priorityBytesMax = limits.priorityBytesMax
  }

  /// Creates a reader of a source. Uses a window of 256 KiB, and memory for one string.
  public init(source: @escaping Source, limits: Limits = Limits()) {
    owned = .allocate(byteCount: 256 * 1024, alignment: 8)
    window = UnsafeRawBufferPointer(start: nil, count: 0)
    self.source = source
    pause = .none
    stringBytesMax = limits.stringBytesMax
    priorityBytesMax = limits.priorityBytesMax
  }

  deinit {
    owned?.deallocate()
  }

  /// The offset of the next byte.
  public var offset: Int { windowOffset + index }

  /// The error that the source threw, if reading failed for that.
  public var failure: (any Error)? { sourceError }

  func error(_ text: String) -> TreeError {
    .invalidJSON(text, offset: offset)
  }

  /// Reads the next piece. Returns false at the end.
  @inline(never)
  private mutating func refill() -> Bool {
    guard let source, let owned, sourceError == nil else { return false }
    windowOffset += window.count
    index = 0
    var count = 0
    do { count = try source(owned) } catch { sourceError = error }
    window = UnsafeRawBufferPointer(rebasing: owned[..<max(0, min(count, owned.count))])
    return !window.isEmpty
  }

  /// Returns the next byte without consuming it; nil at the end.
  @inline(__always)
  mutating func peek() -> UInt8? {
    if index < window.count || refill() { window[index] } else { nil }
  }

  /// Consumes the byte that `peek` returned.
  @inline(__always)
  mutating func advance() {
    index &+= 1
  }

  /// Skips white space and returns the next byte without consuming it; nil at the end.
  @inline(__always)
  mutating func peekToken() -> UInt8? {
    while let byte = peek() {
      guard byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 else { return byte }
      advance()
    }
    return nil
  }

  /// Consumes bytes if they come next.
  ///
  /// - Precondition: the reader has no source.
  mutating func skip(_ bytes: UnsafeRawBufferPointer) -> Bool {
    assert(source == nil, "a source delivers pieces")
    guard bytes.count <= window.count - index,
      UnsafeRawBufferPointer(rebasing: window[index..<index + bytes.count])
        .hasSameBytes(as: bytes)
    else { return false }
    index += bytes.count
    return true
  }

  /// Consumes a literal if it comes next.
  ///
  /// - Precondition: the reader has no source.
  mutating func skip(_ text: StaticString) -> Bool {
    skip(UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
  }

  /// Consumes a text whose length `body` returns; nil if it does not come next. `body` receives all unread bytes.
  ///
  /// - Precondition: the reader has no source.
  @inline(__always)
  mutating func skipText(_ body: (UnsafeRawBufferPointer) -> Int?) -> Bool {
    assert(source == nil, "a source delivers pieces")
    guard let count = body(UnsafeRawBufferPointer(rebasing: window[index...])) else { return false }
    assert(count <= window.count - index, "more than all bytes")
    index += count
    return true
  }

  /// Consumes a value. Finds only its end; the contents may be invalid.
  ///
  /// - Precondition: the reader has no source.
  mutating func skipValue() throws(TreeError) {
    assert(source == nil, "a source delivers pieces")
    guard peekToken() != nil, let end = JSONScan.valueEnd(window, from: index) else {
      throw error("expected a JSON value")
    }
    index = end
  }

  mutating func expect(_ byte: UInt8, _ name: String) throws(TreeError) {
    guard peekToken() == byte else { throw error("expected \(name)") }
    advance()
  }

  /// Checks that only white space is left, and that the source did not fail.
  public mutating func readEnd() throws(TreeError) {
    if peekToken() != nil { throw error("expected nothing after the JSON value") }
    // The failure may have cut a number short that still looks complete.
    if sourceError != nil { throw error("the source of the JSON text failed") }
  }

  mutating func readLiteral(_ text: StaticString) throws(TreeError) {
    for i in 0..<text.utf8CodeUnitCount {
      guard peek() == text.utf8Start[i] else { throw error("expected a JSON value") }
      advance()
    }
  }

  /// Reads a number.
  ///
  /// - Precondition: the next byte is a digit or a minus sign.
  mutating func readNumber() throws(TreeError) -> Node {
    assert(peek().map { isDigit($0) || $0 == UInt8(ascii: "-") } ?? false, "no number comes next")
    let start = offset
    scratch.removeAll(keepingCapacity: true)
    var isInteger = true
    if peek() == UInt8(ascii: "-") { take(UInt8(ascii: "-")) }
    guard let lead = peek(), isDigit(lead) else { throw error("expected a digit") }
    take(lead)
    if lead == UInt8(ascii: "0") {
      if let next = peek(), isDigit(next) { throw error("a number may not begin with 0") }
    } else {
      try takeDigits()
    }
    if peek() == UInt8(ascii: ".") {
      isInteger = false
      take(UInt8(ascii: "."))
      guard let digit = peek(), isDigit(digit) else { throw error("expected a digit") }
      try takeDigits()
    }
    if let e = peek(), e | 0x20 == UInt8(ascii: "e") {
      isInteger = false
      take(e)
      if let sign = peek(), sign == UInt8(ascii: "+") || sign == UInt8(ascii: "-") { take(sign) }
      guard let digit = peek(), isDigit(digit) else { throw error("expected a digit") }
      try takeDigits()
    }
    if isInteger, let integer = JSONReader.integer(scratch) { return Node(integer) }
    guard let node = JSONReader.double(&scratch).flatMap({ Node($0) }) else {
      throw .invalidJSON("the number is too large", offset: start)
    }
    return node
  }

  private static func integer(_ digits: [UInt8]) -> Int64? {
    let isNegative = digits.first == UInt8(ascii: "-")
    guard digits.count <= 20 else { return nil }
    var magnitude: UInt64 = 0
    for digit in digits.dropFirst(isNegative ? 1 : 0) {
      let (tenfold, overflow) = magnitude.multipliedReportingOverflow(by: 10)
      let (sum, carry) = tenfold.addingReportingOverflow(UInt64(digit - UInt8(ascii: "0")))
      if overflow || carry { return nil }
      magnitude = sum
    }
    if !isNegative { return Int64(exactly: magnitude) }
    return magnitude == 1 << 63 ? .min : Int64(exactly: magnitude).map { -$0 }
  }

  private static func double(_ digits: inout [UInt8]) -> Double? {
    digits.append(0)
    return digits.withUnsafeBytes { bytes in
      bytes.withMemoryRebound(to: CChar.self) { $0.baseAddress.map { strtod($0, nil) } }
    }
  }

  @inline(__always)
  private func isDigit(_ byte: UInt8) -> Bool {
    byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9")
  }

  @inline(__always)
  private mutating func take(_ byte: UInt8) {
    scratch.append(byte)
    advance()
  }

  private mutating func takeDigits() throws(TreeError) {
    while let digit = peek(), isDigit(digit) {
      take(digit)
      guard scratch.count <= 1024 else { throw error("a number may have at most 1,024 characters") }
    }
  }

  /// Reads a string and calls `body` with its bytes, unescaped but not yet validated as UTF-8.
  ///
  /// - Precondition: the next byte is the opening quote.
  @inline(__always)
  mutating func readString<R>(
    _ body: (UnsafeRawBufferPointer) throws(TreeError) -> R
  ) throws(TreeError) -> R {
    assert(peek() == UInt8(ascii: "\""), "no string comes next")
    advance()
    let end = JSONScan.plainPrefix(window, from: index)
    if end < window.count, window[end] == UInt8(ascii: "\"") {
      guard end - index <= stringBytesMax else { throw stringTooLong() }
      let text = UnsafeRawBufferPointer(rebasing: window[index..<end])
      let result = try body(text)
      index = end &+ 1
      return result
    }
    try collectString()
    let collected = scratch
    let result: Result<R, TreeError> = collected.withUnsafeBytes { bytes in
      do throws(TreeError) { return .success(try body(bytes)) } catch { return .failure(error) }
    }
    return try result.get()
  }

  /// Reads the rest of a string that has escapes or crosses the window, into `scratch`.
  @inline(never)
  private mutating func collectString() throws(TreeError) {
    scratch.removeAll(keepingCapacity: true)
    while true {
      guard peek() != nil else { throw error("the string has no end") }
      let end = JSONScan.plainPrefix(window, from: index)
      scratch.append(contentsOf: window[index..<end])
      index = end
      guard scratch.count <= stringBytesMax else { throw stringTooLong() }
      guard end < window.count else { continue }
      switch window[end] {
      case UInt8(ascii: "\""):
        advance()
        return
      case UInt8(ascii: "\\"):
        advance()
        try pause()
        try collectEscape()
      default:
        throw error("control characters in a string must be escaped")
      }
    }
  }

  private func stringTooLong() -> TreeError {
    .tooLarge("a string may have at most \(stringBytesMax) bytes of UTF-8")
  }

  private mutating func collectEscape() throws(TreeError) {
    guard let byte = peek() else { throw error("the string has no end") }
    switch byte {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): scratch.append(byte)
    case UInt8(ascii: "b"): scratch.append(0x08)
    case UInt8(ascii: "f"): scratch.append(0x0C)
    case UInt8(ascii: "n"): scratch.append(0x0A)
    case UInt8(ascii: "r"): scratch.append(0x0D)
    case UInt8(ascii: "t"): scratch.append(0x09)
    case UInt8(ascii: "u"):
      advance()
      return try collectUnicodeEscape()
    default: throw error("unknown escape in a string")
    }
    advance()
  }

  private mutating func collectUnicodeEscape() throws(TreeError) {
    let start = offset
    var code = try readHex()
    if code & 0xFC00 == 0xD800 {
      guard peek() == UInt8(ascii: "\\") else { throw loneSurrogate(start) }
      advance()
      guard peek() == UInt8(ascii: "u") else { throw loneSurrogate(start) }
      advance()
      let low = try readHex()
      guard low & 0xFC00 == 0xDC00 else { throw loneSurrogate(start) }
      code = 0x10000 + (code & 0x3FF) << 10 + low & 0x3FF
    }
    guard let scalar = Unicode.Scalar(code) else { throw loneSurrogate(start) }
    scratch.append(contentsOf: String(Character(scalar)).utf8)
  }

  private func loneSurrogate(_ offset: Int) -> TreeError {
    .invalidJSON("a surrogate escape must be one of a pair", offset: offset)
  }

  private mutating func readHex() throws(TreeError) -> UInt32 {
    var code: UInt32 = 0
    for _ in 0..<4 {
      guard let byte = peek(), let digit = Character(Unicode.Scalar(byte)).hexDigitValue,
        byte < 0x80
      else { throw error("expected four hexadecimal digits") }
      code = code << 4 | UInt32(digit)
      advance()
    }
    return code
  }

  /// Returns the text of bytes.
  ///
  /// - Throws: `TreeError` if they are not UTF-8.
  func text(_ bytes: UnsafeRawBufferPointer) throws(TreeError) -> String {
    guard let text = String(validating: bytes, as: UTF8.self) else {
      throw error("the text is not valid UTF-8")
    }
    return text
  }
}
