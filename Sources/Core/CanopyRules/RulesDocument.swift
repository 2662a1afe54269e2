/// A parsed value of a rules file, with the offsets that errors need.
indirect enum RulesDocument {
  case object([Member])
  case array([(value: RulesDocument, offset: Int)])
  case string(Text)
  case bool(Bool)
  case null
  case number

  struct Member {
    var name: String
    var nameOffset: Int
    var value: RulesDocument
    var valueOffset: Int
  }

  /// A string, with the file offset of each of its bytes.
  struct Text {
    var bytes: [UInt8] = []
    /// The runs of bytes without escapes: their start in the string and in the file.
    var runs: [(start: Int, source: Int)] = []

    /// Returns the file offset of a byte of the string.
    func source(of offset: Int) -> Int {
      var low = 0
      var high = runs.count
      while high - low > 1 {
        let middle = (low + high) / 2
        if runs[middle].start <= offset { low = middle } else { high = middle }
      }
      guard low < runs.count else { return 0 }
      return runs[low].source + (offset - runs[low].start)
    }
  }

  /// The kind of value, for errors.
  var kind: String {
    switch self {
    case .object: "an object"
    case .array: "an array"
    case .string: "a string"
    case .bool: "a bool"
    case .null: "null"
    case .number: "a number"
    }
  }
}

/// A parser of rules files: JSON with `//` and `/* */` comments, and strings that may span lines.
///
/// One pass over the bytes; the depth is bounded.
struct RulesDocumentReader {
  private let bytes: [UInt8]
  private var index = 0
  /// The number of tokens read. Tests check that it is linear in the file.
  private(set) var tokens = 0

  /// The deepest nesting: more than any location can have.
  private static let depthMax = 64

  init(_ bytes: [UInt8]) {
    self.bytes = bytes
  }

  /// Reads the whole text, which is one value.
  mutating func readAll() throws(TextProblem) -> (value: RulesDocument, offset: Int) {
    guard !bytes.starts(with: "\u{FEFF}".utf8) else {
      throw problem("expected no byte order mark before the rules")
    }
    try skipSpace()
    let offset = index
    let value = try readValue(depth: 0)
    try skipSpace()
    guard index == bytes.count else { throw problem("expected nothing after the closing brace") }
    return (value, offset)
  }

  private func problem(_ message: String) -> TextProblem {
    TextProblem(offset: index, message: message)
  }

  private var next: UInt8? { index < bytes.count ? bytes[index] : nil }

  private func byte(after distance: Int) -> UInt8? {
    index + distance < bytes.count ? bytes[index + distance] : nil
  }

  private mutating func skipSpace() throws(TextProblem) {
    while let byte = next {
      switch byte {
      case 0x20, 0x09, 0x0A, 0x0D:
        index += 1
      case UInt8(ascii: "/") where self.byte(after: 1) == UInt8(ascii: "/"):
        while let byte = next, byte != UInt8(ascii: "\n") { index += 1 }
      case UInt8(ascii: "/") where self.byte(after: 1) == UInt8(ascii: "*"):
        let start = index
        index += 2
        while next != UInt8(ascii: "*") || self.byte(after: 1) != UInt8(ascii: "/") {
          guard index < bytes.count else {
            throw TextProblem(offset: start, message: "expected */ to end this comment")
          }
          index += 1
        }
        index += 2
      default:
        return
      }
    }
  }

  private mutating func readValue(depth: Int) throws(TextProblem) -> RulesDocument {
    guard depth < Self.depthMax else { throw problem("expected less nesting") }
    tokens += 1
    switch next {
    case UInt8(ascii: "{"): return try readObject(depth: depth)
    case UInt8(ascii: "["): return try readArray(depth: depth)
    case UInt8(ascii: "\""): return .string(try readString())
    case UInt8(ascii: "-"), .some(UInt8(ascii: "0")...UInt8(ascii: "9")):
      while let byte = next, Self.isNumberByte(byte) { index += 1 }
      return .number
    default:
      if skip("true") { return .bool(true) }
      if skip("false") { return .bool(false) }
      if skip("null") { return .null }
      throw problem("expected a JSON value")
    }
  }

  private static func isNumberByte(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "+"),
      UInt8(ascii: "."), UInt8(ascii: "e"), UInt8(ascii: "E"):
      true
    default: false
    }
  }

  private mutating func skip(_ word: StaticString) -> Bool {
    guard index + word.utf8CodeUnitCount <= bytes.count else { return false }
    for i in 0..<word.utf8CodeUnitCount where bytes[index + i] != word.utf8Start[i] { return false }
    index += word.utf8CodeUnitCount
    return true
  }

  private mutating func readObject(depth: Int) throws(TextProblem) -> RulesDocument {
    index += 1
    var members: [RulesDocument.Member] = []
    try skipSpace()
    if next == UInt8(ascii: "}") {
      index += 1
      return .object([])
    }
    while true {
      guard next == UInt8(ascii: "\"") else { throw problem("expected a name in double quotes") }
      let nameOffset = index
      tokens += 1
      let name = String(decoding: try readString().bytes, as: UTF8.self)
      try skipSpace()
      guard next == UInt8(ascii: ":") else { throw problem("expected : after \"\(name)\"") }
      index += 1
      try skipSpace()
      let valueOffset = index
      let value = try readValue(depth: depth + 1)
      members.append(
        .init(name: name, nameOffset: nameOffset, value: value, valueOffset: valueOffset))
      if try !continues(close: UInt8(ascii: "}")) { return .object(members) }
    }
  }

  private mutating func readArray(depth: Int) throws(TextProblem) -> RulesDocument {
    index += 1
    var elements: [(value: RulesDocument, offset: Int)] = []
    try skipSpace()
    if next == UInt8(ascii: "]") {
      index += 1
      return .array([])
    }
    while true {
      let offset = index
      elements.append((try readValue(depth: depth + 1), offset))
      if try !continues(close: UInt8(ascii: "]")) { return .array(elements) }
    }
  }

  /// Consumes the separator after a member. Returns true for a comma, false for the closing
  /// bracket.
  private mutating func continues(close: UInt8) throws(TextProblem) -> Bool {
    try skipSpace()
    switch next {
    case UInt8(ascii: ","):
      index += 1
      try skipSpace()
      if next == close { throw problem("expected another member after the comma") }
      return true
    case close:
      index += 1
      return false
    default:
      throw problem("expected , or \(Character(Unicode.Scalar(close)))")
    }
  }

  private mutating func readString() throws(TextProblem) -> RulesDocument.Text {
    let start = index
    index += 1
    var text = RulesDocument.Text(runs: [(0, index)])
    while let byte = next {
      switch byte {
      case UInt8(ascii: "\""):
        index += 1
        return text
      case UInt8(ascii: "\\"):
        let (scalar, count) = try Escape.json(bytes[index...]).mapProblem(at: index)
        index += count
        text.bytes.append(contentsOf: Character(scalar).utf8)
        text.runs.append((text.bytes.count, index))
      default:
        text.bytes.append(byte)
        index += 1
      }
    }
    throw TextProblem(offset: start, message: "expected \" to end this string")
  }
}

extension Result where Failure == Escape.Problem {
  fileprivate func mapProblem(at offset: Int) throws(TextProblem) -> Success {
    try mapError { TextProblem(offset: offset, message: $0.message) }.get()
  }
}
