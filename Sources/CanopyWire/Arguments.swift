internal import CanopyTree

/// The arguments of one line, cut apart but not yet read.
///
/// An argument that begins with `{`, `[` or `"` is JSON and ends where its brackets or quotes do; any
/// other is a bare word up to the next space.
struct Arguments {
  private let line: UnsafeRawBufferPointer
  private let limits: Limits
  /// At most as many as any command takes, and one more.
  private(set) var ranges: [Range<Int>] = []
  private var next = 0

  /// More arguments than this are not told apart: no command takes so many.
  private static let countMax = 8

  /// Cuts the arguments after the verb apart. O(bytes).
  ///
  /// - Throws: `badRequest` when something follows a JSON value without a space.
  init(_ line: UnsafeRawBufferPointer, from start: Int, limits: Limits) throws(WireError) {
    self.line = line
    self.limits = limits
    var index = start
    while true {
      while index < line.count, line[index] == UInt8(ascii: " ") { index += 1 }
      guard index < line.count, ranges.count < Arguments.countMax else { return }
      let end = Arguments.end(line, from: index)
      ranges.append(index..<end)
      guard end == line.count || line[end] == UInt8(ascii: " ") else {
        throw WireError(
          .badRequest, "expected a space after the JSON value that ends at byte \(end)")
      }
      index = end
    }
  }

  /// The number of arguments.
  var count: Int { ranges.count }

  private static func end(_ line: UnsafeRawBufferPointer, from start: Int) -> Int {
    switch line[start] {
    case UInt8(ascii: "\""): endOfString(line, from: start)
    case UInt8(ascii: "{"), UInt8(ascii: "["): endOfBrackets(line, from: start)
    default: line[start...].firstIndex(of: UInt8(ascii: " ")) ?? line.count
    }
  }

  private static func endOfString(_ line: UnsafeRawBufferPointer, from start: Int) -> Int {
    var index = start + 1
    while index < line.count {
      switch line[index] {
      case UInt8(ascii: "\\"): index += 2
      case UInt8(ascii: "\""): return index + 1
      default: index += 1
      }
    }
    return line.count
  }

  private static func endOfBrackets(_ line: UnsafeRawBufferPointer, from start: Int) -> Int {
    var depth = 0
    var index = start
    while index < line.count {
      switch line[index] {
      case UInt8(ascii: "\""):
        index = endOfString(line, from: index)
        continue
      case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
      case UInt8(ascii: "}"), UInt8(ascii: "]"):
        depth -= 1
        if depth == 0 { return index + 1 }
      default: break
      }
      index += 1
    }
    return line.count
  }

  /// Whether there is one more argument.
  var hasNext: Bool { next < ranges.count }

  /// Whether the next argument is a JSON object.
  var nextIsObject: Bool { hasNext && line[ranges[next].lowerBound] == UInt8(ascii: "{") }

  /// What follows the verb, as it was sent.
  var restText: String {
    guard let first = ranges.first else { return "" }
    return String(decoding: line[first.lowerBound...], as: UTF8.self)
  }

  /// Whether the next argument is a JSON string.
  var nextIsString: Bool { hasNext && line[ranges[next].lowerBound] == UInt8(ascii: "\"") }

  /// The next argument as it was sent.
  mutating func takeText() throws(WireError) -> String {
    let range = try take()
    return String(decoding: line[range], as: UTF8.self)
  }

  private mutating func take() throws(WireError) -> Range<Int> {
    guard hasNext else { throw WireError(.badRequest, "an argument is missing") }
    defer { next += 1 }
    return ranges[next]
  }

  private func bytes(_ range: Range<Int>) -> UnsafeRawBufferPointer {
    UnsafeRawBufferPointer(rebasing: line[range])
  }

  /// The next argument as text: a bare word or a JSON string.
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

  /// The next argument, handed to a reader of JSON bytes with the limits that it is to keep, whose offsets are made those of the line.
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
