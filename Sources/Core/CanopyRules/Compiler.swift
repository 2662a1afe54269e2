internal import CanopyTree

/// Compiles a checked expression to operations.
///
/// Checks types as far as they are known without data. The contents of `auth` and of the tree are
/// known only during evaluation; all other parts have a type. An operator or a method that can
/// never get a suitable operand is an error. (So is `auth` alone as a condition: it is never a
/// bool, and this finds a forgotten `!= null`.)
struct Compiler {
  var program: Program
  let kind: RuleKind
  /// The wildcards on the path of the rule, with their depths.
  let wildcards: [String: Int]

  /// The result of compiling a part: the operation, and the possible types of its value.
  struct Part {
    var operation: Int32
    var types: ValueTypes
  }

  /// Compiles the expression of a rule, which must be able to be a bool. Returns the index of its
  /// operation.
  mutating func compileRule(_ syntax: Syntax) throws(TextProblem) -> Int32 {
    try compile(syntax, as: .bool).operation
  }

  mutating func emit(
    _ code: Program.Code, _ a: Int32 = 0, _ b: Int32 = 0, _ c: Int32 = 0, for syntax: Syntax
  ) -> Int32 {
    program.operations.append(.init(code: code, a: a, b: b, c: c))
    program.ranges.append(Int32(syntax.range.lowerBound)..<Int32(syntax.range.upperBound))
    return Int32(program.operations.count - 1)
  }

  func problem(_ syntax: Syntax, _ message: String) -> TextProblem {
    TextProblem(offset: syntax.range.lowerBound, message: message)
  }

  /// Compiles a part that must be able to be one of `expected`. For a conditional, both choices
  /// must be.
  mutating func compile(
    _ syntax: Syntax, as expected: ValueTypes
  ) throws(TextProblem) -> Part {
    if case .conditional(let condition, let first, let second) = syntax.kind {
      let condition = try compile(condition, as: .bool)
      let first = try compile(first, as: expected)
      let second = try compile(second, as: expected)
      let operation = emit(
        .conditional, condition.operation, first.operation, second.operation, for: syntax)
      return Part(operation: operation, types: first.types.union(second.types))
    }
    let part = try compile(syntax)
    guard !part.types.isDisjoint(with: expected.withToken) else {
      throw problem(
        syntax, "expected \(expected.description); this is \(part.types.description)")
    }
    return part
  }

  private mutating func compile(_ syntax: Syntax) throws(TextProblem) -> Part {
    switch syntax.kind {
    case .null: return constant(.null, .null, syntax)
    case .bool(let value): return constant(.bool(value), .bool, syntax)
    case .number(let value): return constant(value, .number, syntax)
    case .string(let text): return constant(.string(text), .string, syntax)
    case .name(let name): return try compile(name: name, syntax)
    case .wildcard(let name):
      guard let depth = wildcards[name] else {
        let known = wildcards.keys.sorted().joined(separator: ", ")
        throw problem(
          syntax,
          "expected a wildcard of this rule's path (\(known.isEmpty ? "it has none" : known)); "
            + "found \(name)")
      }
      return Part(operation: emit(.wildcard, Int32(depth), for: syntax), types: .string)
    case .member(let object, let name): return try compile(member: name, of: object, syntax)
    case .computedMember(let object, let name):
      return try compile(computedMember: name, of: object, syntax)
    case .call(let receiver, let method, let arguments):
      return try compile(call: method, of: receiver, arguments, syntax)
    case .array:
      throw problem(syntax, "expected a value; a list stands only in hasChildren([…])")
    case .pattern:
      throw problem(syntax, "expected a value; a regular expression stands only in matches(…)")
    case .not(let operand):
      let part = try compile(operand, as: .bool)
      return Part(operation: emit(.not, part.operation, for: syntax), types: .bool)
    case .negate(let operand):
      let part = try compile(operand, as: .number)
      return Part(operation: emit(.negate, part.operation, for: syntax), types: .number)
    case .and(let operands): return try compile(.and, operands, syntax)
    case .or(let operands): return try compile(.or, operands, syntax)
    case .binary(let binary, let a, let b): return try compile(binary, a, b, syntax)
    case .conditional: return try compile(syntax, as: .any)
    }
  }

  mutating func constant(_ value: Value, _ types: ValueTypes, _ syntax: Syntax) -> Part {
    program.constants.append(value)
    let operation = emit(.constant, Int32(program.constants.count - 1), for: syntax)
    return Part(operation: operation, types: types)
  }

  private mutating func compile(name: String, _ syntax: Syntax) throws(TextProblem) -> Part {
    switch name {
    case "now": return Part(operation: emit(.now, for: syntax), types: .number)
    case "auth": return Part(operation: emit(.auth, for: syntax), types: .auth)
    case "root", "data", "newData":
      throw problem(
        syntax, "expected a value; call a method of \(name), such as \(name).val() or .exists()")
    case "query":
      throw problem(syntax, "expected a value; name a field of query, such as query.limitToFirst")
    default:
      throw problem(
        syntax,
        "expected a name that rules know: auth, now, root, data, newData, query or a $wildcard; "
          + "found \(name)")
    }
  }

  private mutating func compile(
    _ code: Program.Code, _ operands: [Syntax], _ syntax: Syntax
  ) throws(TextProblem) -> Part {
    var list: [Int32] = []
    for operand in operands { list.append(try compile(operand, as: .bool).operation) }
    let start = Int32(program.lists.count)
    program.lists.append(contentsOf: list)
    return Part(operation: emit(code, start, Int32(list.count), for: syntax), types: .bool)
  }

  private mutating func compile(
    _ binary: BinaryOperator, _ a: Syntax, _ b: Syntax, _ syntax: Syntax
  ) throws(TextProblem) -> Part {
    let code = binary.code
    switch binary {
    case .equal, .notEqual:
      let (a, b) = (try compile(a, as: .any), try compile(b, as: .any))
      return Part(operation: emit(code, a.operation, b.operation, for: syntax), types: .bool)
    case .less, .lessOrEqual, .greater, .greaterOrEqual:
      let left = try compile(a, as: [.number, .string])
      // `auth` may be either; evaluation finds out.
      let ordered = left.types.intersection([.number, .string])
      let right = try compile(b, as: ordered.isEmpty ? [.number, .string] : ordered)
      return Part(
        operation: emit(code, left.operation, right.operation, for: syntax), types: .bool)
    case .add:
      let (a, b) = (
        try compile(a, as: [.number, .string]), try compile(b, as: [.number, .string])
      )
      let types: ValueTypes =
        a.types == .string || b.types == .string
        ? .string : a.types == .number && b.types == .number ? .number : [.number, .string]
      return Part(operation: emit(code, a.operation, b.operation, for: syntax), types: types)
    case .subtract, .multiply, .divide, .remainder:
      let (a, b) = (try compile(a, as: .number), try compile(b, as: .number))
      return Part(operation: emit(code, a.operation, b.operation, for: syntax), types: .number)
    }
  }
}

extension BinaryOperator {
  fileprivate var code: Program.Code {
    switch self {
    case .equal: .equal
    case .notEqual: .notEqual
    case .less: .less
    case .lessOrEqual: .lessOrEqual
    case .greater: .greater
    case .greaterOrEqual: .greaterOrEqual
    case .add: .add
    case .subtract: .subtract
    case .multiply: .multiply
    case .divide: .divide
    case .remainder: .remainder
    }
  }
}
