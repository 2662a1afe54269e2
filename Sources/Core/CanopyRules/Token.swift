internal import CanopyTree

/// A token of an expression.
enum Token: Equatable {
  case number(Node)
  case string(String)
  case name(String)
  case wildcard(String)
  case symbol(Symbol)
  case end

  enum Symbol: String, CaseIterable {
    case leftParenthesis = "("
    case rightParenthesis = ")"
    case leftBracket = "["
    case rightBracket = "]"
    case dot = "."
    case comma = ","
    case question = "?"
    case colon = ":"
    case not = "!"
    case and = "&&"
    case or = "||"
    case equal = "=="
    case strictlyEqual = "==="
    case notEqual = "!="
    case strictlyNotEqual = "!=="
    case less = "<"
    case lessOrEqual = "<="
    case greater = ">"
    case greaterOrEqual = ">="
    case plus = "+"
    case minus = "-"
    case times = "*"
    case slash = "/"
    case percent = "%"

    /// The binary operator of the symbol. `===` and `==` mean the same.
    var binaryOperator: BinaryOperator? {
      switch self {
      case .equal, .strictlyEqual: .equal
      case .notEqual, .strictlyNotEqual: .notEqual
      default: BinaryOperator(rawValue: rawValue)
      }
    }
  }

  /// The token in words, for errors.
  var description: String {
    switch self {
    case .number: "a number"
    case .string: "a string"
    case .name(let name), .wildcard(let name): name
    case .symbol(let symbol): symbol.rawValue
    case .end: "the end of the expression"
    }
  }
}

/// Splits an expression into tokens.
struct Lexer {
  let bytes: [UInt8]
  private(set) var index = 0
  /// The number of tokens read. Tests check that it is linear in the text.
  private(set) var tokens = 0
  /// The regular expressions of the file.
  private(set) var patterns: PatternTable

  init(_ bytes: [UInt8], patterns: PatternTable = PatternTable()) {
    self.bytes = bytes
    self.patterns = patterns
  }

  private var next: UInt8? { index < bytes.count ? bytes[index] : nil }

  private func problem(_ message: String, at offset: Int? = nil) -> TextProblem {
    TextProblem(offset: offset ?? index, message: message)
  }

  private mutating func skipSpace() {
    while let byte = next, byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D {
      index += 1
    }
  }

  /// Reads the next token. Returns it with its byte range.
  mutating func read() throws(TextProblem) -> (token: Token, range: Range<Int>) {
    skipSpace()
    tokens += 1
    let start = index
    guard let byte = next else { return (.end, start..<start) }
    let token: Token
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): token = .number(try readNumber())
    case UInt8(ascii: "'"), UInt8(ascii: "\""): token = .string(try readString(quote: byte))
    case UInt8(ascii: "$"):
      index += 1
      skipKeyBytes()
      guard index > start + 1 else { throw problem("expected a name after $", at: start) }
      token = .wildcard(String(decoding: bytes[start..<index], as: UTF8.self))
    case UInt8(ascii: "_"), UInt8(ascii: "a")...UInt8(ascii: "z"),
      UInt8(ascii: "A")...UInt8(ascii: "Z"):
      while let byte = next, Self.isNameByte(byte) { index += 1 }
      token = .name(String(decoding: bytes[start..<index], as: UTF8.self))
    default: token = .symbol(try readSymbol())
    }
    return (token, start..<index)
  }

  private static func isNameByte(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "_"), UInt8(ascii: "a")...UInt8(ascii: "z"),
      UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"):
      true
    default: false
    }
  }

  /// Skips the name of a wildcard: name bytes, and all bytes outside ASCII.
  private mutating func skipKeyBytes() {
    while let byte = next, Self.isNameByte(byte) || byte >= 0x80 { index += 1 }
  }

  private mutating func readNumber() throws(TextProblem) -> Node {
    let start = index
    skipDigits()
    if next == UInt8(ascii: "."), index + 1 < bytes.count, Self.isDigit(bytes[index + 1]) {
      index += 1
      skipDigits()
    }
    if let byte = next, byte | 0x20 == UInt8(ascii: "e") {
      index += 1
      if next == UInt8(ascii: "+") || next == UInt8(ascii: "-") { index += 1 }
      guard let byte = next, Self.isDigit(byte) else {
        throw problem("expected a digit in the exponent")
      }
      skipDigits()
    }
    if let byte = next, Self.isNameByte(byte) { throw problem("expected the number to end here") }
    let text = String(decoding: bytes[start..<index], as: UTF8.self)
    if let integer = Int64(text) { return Node(integer) }
    guard text.utf8.count < 400, let number = Double(text), let node = Node(number) else {
      throw problem("expected a number that is not so large", at: start)
    }
    return node
  }

  private static func isDigit(_ byte: UInt8) -> Bool {
    byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9")
  }

  private mutating func skipDigits() {
    while let byte = next, Self.isDigit(byte) { index += 1 }
  }

  private mutating func readString(quote: UInt8) throws(TextProblem) -> String {
    let start = index
    index += 1
    var text: [UInt8] = []
    while let byte = next {
      switch byte {
      case quote:
        index += 1
        return String(decoding: text, as: UTF8.self)
      case UInt8(ascii: "\\"):
        switch Escape.expression(bytes[index...]) {
        case .success(let (scalar, count)):
          text.append(contentsOf: Character(scalar).utf8)
          index += count
        case .failure(let failure): throw problem(failure.message)
        }
      case 0x0A, 0x0D:
        throw problem("expected the string to end before the line does", at: start)
      default:
        text.append(byte)
        index += 1
      }
    }
    throw problem("expected \(Character(Unicode.Scalar(quote))) to end this string", at: start)
  }

  private mutating func readSymbol() throws(TextProblem) -> Token.Symbol {
    for length in [3, 2, 1] where index + length <= bytes.count {
      let text = String(decoding: bytes[index..<index + length], as: UTF8.self)
      if let symbol = Token.Symbol(rawValue: text) {
        index += length
        return symbol
      }
    }
    let rest = String(decoding: bytes[index...].prefix(4), as: UTF8.self)
    let found = rest.first.map { String($0) } ?? "nothing"
    let expected = ["=": "==", "&": "&&", "|": "||"][found] ?? "an expression"
    throw problem("expected \(expected); found \(found)")
  }

  /// Reads a regular expression between slashes, with its flags.
  ///
  /// - Precondition: the last token, at `start`, is the opening slash.
  mutating func readPattern(
    from start: Int
  ) throws(TextProblem) -> (pattern: Pattern, range: Range<Int>) {
    assert(bytes[start] == UInt8(ascii: "/"), "a pattern begins with a slash")
    index = start + 1
    var isInClass = false
    while true {
      guard let byte = next else {
        throw problem("expected / to end this regular expression", at: start)
      }
      if byte == UInt8(ascii: "/"), !isInClass { break }
      if byte == UInt8(ascii: "[") { isInClass = true }
      if byte == UInt8(ascii: "]") { isInClass = false }
      index += byte == UInt8(ascii: "\\") ? 2 : 1
    }
    let body = start + 1..<index
    index += 1
    let flags = index
    while let byte = next, Self.isNameByte(byte) { index += 1 }
    let flagText = bytes[flags..<index]
    guard flagText.isEmpty || flagText.elementsEqual("i".utf8) else {
      throw problem("expected no flag, or i, after a regular expression", at: flags)
    }
    let pattern: Pattern
    do throws(TextProblem) {
      pattern = try patterns.pattern(Array(bytes[body]), ignoresCase: !flagText.isEmpty)
    } catch {
      throw problem(error.message, at: body.lowerBound + error.offset)
    }
    return (pattern, start..<index)
  }
}
