internal import CanopyTree

/// The arguments of one line, split but not yet decoded.
///
/// An argument that begins with `{`, `[` or `"` is JSON and ends with its closing bracket or quote;
/// any other is a bare word up to the next space.
struct Arguments {
  private let line: UnsafeRawBufferPointer
  private let limits: Limits
  /// Called often while a long value is decoded.
  let pause: DecodingPause
  /// The number of arguments, at most `countMax`.
  private(set) var count = 0
  // Most requests have at most two arguments, so an array for their ranges is not worth its allocation.
  private var first = 0..<0
  private var second = 0..<0
  /// The byte ranges of the arguments after the second.
  private var others: [Range<Int>] = []
  private var next = 0
  /// The option `atLeast` of a read, if it is given.
  var atLeast: Int64?

  /// The most arguments that are split: more than any command takes.
  private static let countMax = 8

  /// Splits the arguments after the verb.
  ///
  /// - Throws: `badRequest` if a JSON value is not followed by a space.
  /// - Complexity: O(bytes).
  init(
    _ line: UnsafeRawBufferPointer, from start: Int, limits: Limits, pausing pause: DecodingPause
  ) throws(WireError) {
    self.line = line
    self.limits = limits
    self.pause = pause
    var index = start
    while true {
      while index < line.count, line[index] == UInt8(ascii: " ") { index += 1 }
      guard index < line.count, count < Arguments.countMax else { return }
      let end = Arguments.end(line, from: index)
      append(index..<end)
      guard end == line.count || line[end] == UInt8(ascii: " ") else {
        throw WireError(
          .badRequest, "expected a space after the JSON value that ends at byte \(end)")
      }
      index = end
    }
  }

  private mutating func append(_ range: Range<Int>) {
    switch count {
    case 0: first = range
    case 1: second = range
    default: others.append(range)
    }
    count += 1
  }

  /// The byte range of an argument.
  private subscript(index: Int) -> Range<Int> {
    switch index {
    case 0: first
    case 1: second
    default: others[index - 2]
    }
  }

  private static func end(_ line: UnsafeRawBufferPointer, from start: Int) -> Int {
    switch line[start] {
    case UInt8(ascii: "\""), UInt8(ascii: "{"), UInt8(ascii: "["):
      JSONScan.valueEnd(line, from: start) ?? line.count
    default: line[start...].firstIndex(of: UInt8(ascii: " ")) ?? line.count
    }
  }

  /// Whether there is another argument.
  var hasNext: Bool { next < count }

  /// Whether the next argument is a JSON object.
  var nextIsObject: Bool { hasNext && line[self[next].lowerBound] == UInt8(ascii: "{") }

  /// The text after the verb, unchanged.
  var restText: String {
    guard count > 0 else { return "" }
    return String(decoding: line[first.lowerBound...], as: UTF8.self)
  }

  /// Whether the next argument is a JSON string.
  var nextIsString: Bool { hasNext && line[self[next].lowerBound] == UInt8(ascii: "\"") }

  /// Consumes the next argument and returns its text unchanged.
  mutating func takeText() throws(WireError) -> String {
    let range = try take()
    return String(decoding: line[range], as: UTF8.self)
  }

  private mutating func take() throws(WireError) -> Range<Int> {
    guard hasNext else { throw WireError(.badRequest, "an argument is missing") }
    defer { next += 1 }
    return self[next]
  }

  private func bytes(_ range: Range<Int>) -> UnsafeRawBufferPointer {
    UnsafeRawBufferPointer(rebasing: line[range])
  }

  /// Consumes the next argument and returns its bytes, if it is a bare word of visible ASCII characters, as most ids and
  /// paths are; nil for any other, which `text` reads.
  mutating func asciiWord() -> UnsafeRawBufferPointer? {
    guard hasNext else { return nil }
    let word = bytes(self[next])
    switch word.first {
    case UInt8(ascii: "\""), UInt8(ascii: "{"), UInt8(ascii: "["), nil: return nil
    default: break
    }
    for byte in word where byte < 0x20 || byte >= 0x7F { return nil }
    next += 1
    return word
  }

  /// Whether the next argument may be a path below `/.info`: a JSON string, or a word that begins with `.` or `/.`.
  var mayBeInfoPath: Bool {
    guard hasNext else { return false }
    if nextIsString { return true }
    let word = bytes(self[next])
    let start = word.first == UInt8(ascii: "/") ? 1 : 0
    return start < word.count && word[start] == UInt8(ascii: ".")
  }

  /// Consumes the next argument, a bare word or a JSON string, and returns its text.
  mutating func text(_ name: String) throws(WireError) -> String {
    let range = try take()
    switch line[range.lowerBound] {
    case UInt8(ascii: "\""):
      let value = try json(range) { bytes, limits throws(TreeError) in
        try WriteValue(json: bytes, limits: limits).node
      }
      guard let text = value.stringValue else {
        throw WireError(.badRequest, "\(name) must be a word or a JSON string")
      }
      return text
    case UInt8(ascii: "{"), UInt8(ascii: "["):
      throw WireError(.badRequest, "\(name) must be a word or a JSON string")
    default:
      let bytes = bytes(range)
      if let index = bytes.firstIndex(where: { $0 < 0x20 || $0 == 0x7F }) {
        throw WireError(
          .badRequest,
          "\(name) may not contain control characters (at byte \(range.lowerBound + index))")
      }
      guard let text = String(validating: bytes, as: UTF8.self) else {
        throw WireError(.invalidData, "\(name) is not valid UTF-8")
      }
      return text
    }
  }

  /// Consumes the next argument and decodes it as JSON. Offsets in errors are those of the line.
  ///
  /// - Parameter read: decodes JSON bytes within the given limits.
  mutating func json<R>(
    _ verb: String, _ read: (UnsafeRawBufferPointer, Limits) throws(TreeError) -> R
  ) throws(WireError) -> R {
    let range = try take()
    let isWord = !"{[\"".utf8.contains(line[range.lowerBound])
    do throws(WireError) {
      return try json(range, read)
    } catch {
      if isWord, error.code == .invalidData {
        throw WireError(
          .invalidData,
          "\(error.sentence); \(verb) takes JSON here: put text in double quotes")
      }
      throw error
    }
  }

  private func json<R>(
    _ range: Range<Int>, _ read: (UnsafeRawBufferPointer, Limits) throws(TreeError) -> R
  ) throws(WireError) -> R {
    guard range.count <= limits.writeBytesMax else {
      throw WireError(
        .tooLarge, "a value may have at most \(limits.writeBytesMax) bytes of JSON")
    }
    do throws(TreeError) {
      return try read(bytes(range), limits)
    } catch .invalidJSON(let text, let offset) {
      throw WireError(TreeError.invalidJSON(text, offset: offset + range.lowerBound))
    } catch {
      throw WireError(error)
    }
  }
}
