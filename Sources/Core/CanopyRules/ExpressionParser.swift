internal import CanopyTree

/// Parses an expression into `Syntax`: the part of JavaScript's grammar that rules use.
///
/// A recursive-descent parser. Both its recursion and the height of its result are bounded.
struct ExpressionParser {
  private var lexer: Lexer
  private var token = Token.end
  private var range = 0..<0
  private var previousEnd = 0
  private var nesting = 0

  /// The number of tokens read.
  var tokens: Int { lexer.tokens }

  /// The regular expressions of the file, with those of this expression.
  var patterns: PatternTable { lexer.patterns }

  /// - Parameter patterns: the regular expressions of the file up to here.
  init(_ bytes: [UInt8], patterns: PatternTable = PatternTable()) {
    lexer = Lexer(bytes, patterns: patterns)
  }

  /// Parses the whole text as one expression.
  mutating func parseAll() throws(TextProblem) -> Syntax {
    try advance()
    let syntax = try parse()
    guard token == .end else {
      throw problem("expected an operator or the end of the expression")
    }
    return syntax
  }

  private mutating func advance() throws(TextProblem) {
    previousEnd = range.upperBound
    (token, range) = try lexer.read()
  }

  /// Returns a problem with the current token.
  private func problem(_ expected: String) -> TextProblem {
    TextProblem(offset: range.lowerBound, message: "\(expected); found \(token.description)")
  }

  private mutating func skip(_ symbol: Token.Symbol) throws(TextProblem) -> Bool {
    guard token == .symbol(symbol) else { return false }
    try advance()
    return true
  }

  private mutating func expect(_ symbol: Token.Symbol) throws(TextProblem) {
    guard try skip(symbol) else { throw problem("expected \(symbol.rawValue)") }
  }

  private func make(
    _ kind: Syntax.Kind, from start: Int, over parts: [Syntax]
  ) throws(TextProblem) -> Syntax {
    let height = parts.reduce(0) { max($0, $1.height) } + 1
    guard height <= RuleLimits.nestingMax else { throw tooDeep(start) }
    return Syntax(kind: kind, range: start..<previousEnd, height: height)
  }

  private func tooDeep(_ offset: Int) -> TextProblem {
    TextProblem(
      offset: offset,
      message: "expected an expression that nests at most \(RuleLimits.nestingMax) levels")
  }

  private mutating func parse() throws(TextProblem) -> Syntax {
    nesting += 1
    defer { nesting -= 1 }
    guard nesting <= RuleLimits.nestingMax else { throw tooDeep(range.lowerBound) }
    let condition = try parseOr()
    guard try skip(.question) else { return condition }
    let first = try parse()
    try expect(.colon)
    let second = try parse()
    return try make(
      .conditional(condition, first, second), from: condition.range.lowerBound,
      over: [condition, first, second])
  }

  private mutating func parseOr() throws(TextProblem) -> Syntax {
    let first = try parseAnd()
    guard token == .symbol(.or) else { return first }
    var parts = [first]
    while try skip(.or) { parts.append(try parseAnd()) }
    return try make(.or(parts), from: first.range.lowerBound, over: parts)
  }

  private mutating func parseAnd() throws(TextProblem) -> Syntax {
    let first = try parseBinary(from: 3)
    guard token == .symbol(.and) else { return first }
    var parts = [first]
    while try skip(.and) { parts.append(try parseBinary(from: 3)) }
    return try make(.and(parts), from: first.range.lowerBound, over: parts)
  }

  private mutating func parseBinary(from precedence: Int) throws(TextProblem) -> Syntax {
    var left = try parseUnary()
    while case .symbol(let symbol) = token, let binary = symbol.binaryOperator,
      binary.precedence >= precedence
    {
      try advance()
      let right = try parseBinary(from: binary.precedence + 1)
      left = try make(
        .binary(binary, left, right), from: left.range.lowerBound, over: [left, right])
    }
    return left
  }

  private mutating func parseUnary() throws(TextProblem) -> Syntax {
    let start = range.lowerBound
    guard token == .symbol(.not) || token == .symbol(.minus) else { return try parsePostfix() }
    nesting += 1
    defer { nesting -= 1 }
    guard nesting <= RuleLimits.nestingMax else { throw tooDeep(start) }
    let isNot = token == .symbol(.not)
    try advance()
    let operand = try parseUnary()
    return try make(isNot ? .not(operand) : .negate(operand), from: start, over: [operand])
  }

  private mutating func parsePostfix() throws(TextProblem) -> Syntax {
    var syntax = try parsePrimary()
    while true {
      let start = syntax.range.lowerBound
      if try skip(.dot) {
        guard case .name(let name) = token else { throw problem("expected a name after .") }
        try advance()
        syntax = try parseMember(of: syntax, name, from: start)
      } else if try skip(.leftBracket) {
        let index = try parse()
        try expect(.rightBracket)
        if case .string(let name) = index.kind {
          syntax = try parseMember(of: syntax, name, from: start)
        } else {
          syntax = try make(.computedMember(syntax, index), from: start, over: [syntax, index])
        }
      } else if token == .symbol(.leftParenthesis) {
        throw problem("expected an operator: only a method can be called")
      } else {
        return syntax
      }
    }
  }

  /// Parses a named member, or a method call if a parenthesis follows.
  private mutating func parseMember(
    of receiver: Syntax, _ name: String, from start: Int
  ) throws(TextProblem) -> Syntax {
    guard try skip(.leftParenthesis) else {
      return try make(.member(receiver, name: name), from: start, over: [receiver])
    }
    let arguments = try parseList(until: .rightParenthesis, takesPattern: name == "matches")
    return try make(
      .call(receiver, method: name, arguments), from: start, over: arguments + [receiver])
  }

  /// Parses expressions separated by commas, and the closing symbol.
  private mutating func parseList(
    until end: Token.Symbol, takesPattern: Bool = false
  ) throws(TextProblem) -> [Syntax] {
    var list: [Syntax] = []
    if try skip(end) { return list }
    repeat {
      if takesPattern, case .symbol(.slash) = token {
        let (pattern, range) = try lexer.readPattern(from: range.lowerBound)
        self.range = range
        try advance()
        list.append(Syntax(kind: .pattern(pattern), range: range, height: 1))
      } else {
        list.append(try parse())
      }
    } while try skip(.comma)
    try expect(end)
    return list
  }

  private mutating func parsePrimary() throws(TextProblem) -> Syntax {
    let start = range.lowerBound
    let kind: Syntax.Kind
    switch token {
    case .number(let node): kind = .number(Value(node))
    case .string(let text): kind = .string(text)
    case .wildcard(let name): kind = .wildcard(name)
    case .name("null"): kind = .null
    case .name("true"): kind = .bool(true)
    case .name("false"): kind = .bool(false)
    case .name(let name): kind = .name(name)
    case .symbol(.leftParenthesis):
      try advance()
      var inner = try parse()
      try expect(.rightParenthesis)
      inner.range = start..<previousEnd
      return inner
    case .symbol(.leftBracket):
      try advance()
      let elements = try parseList(until: .rightBracket)
      return try make(.array(elements), from: start, over: elements)
    case .symbol(.slash):
      throw problem("expected a value: a regular expression stands only in matches(…)")
    default:
      throw problem("expected a value")
    }
    try advance()
    return try make(kind, from: start, over: [])
  }
}
