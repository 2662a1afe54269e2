internal import CanopyTree

extension Compiler {
  /// Compiles a member: `auth.uid`, `query.limitToFirst`, `$name.length`.
  mutating func compile(
    member name: String, of object: Syntax, _ syntax: Syntax
  ) throws(TextProblem) -> Part {
    if case .name("query") = object.kind { return try compile(query: name, syntax) }
    if let method = Method.snapshot[name], try snapshot(object) != nil {
      throw problem(syntax, "expected \(name)\(method.form): \(name) is a method")
    }
    let part = try compile(object, as: .any)
    if name == "length", part.types.contains(.string) {
      if !part.types.contains(.token) {
        return Part(operation: emit(.length, part.operation, for: syntax), types: .number)
      }
      if let key = try? Key(name) {
        program.keys.append(key)
        let operation = emit(
          .lengthOrMember, part.operation, Int32(program.keys.count - 1), for: syntax)
        return Part(operation: operation, types: .tokenMember)
      }
    }
    guard part.types.contains(.token) else {
      throw problem(
        syntax,
        "expected a member that \(part.types.description) has; found \(name)"
          + (Method.string[name].map { "; call it: \(name)\($0.form)" } ?? ""))
    }
    guard let key = try? Key(name) else { return constant(.null, .tokenMember, syntax) }
    return Part(operation: member(key, of: part.operation, syntax), types: .tokenMember)
  }

  /// Emits the access of a member. A chain of members of the token becomes one operation.
  private mutating func member(_ key: Key, of object: Int32, _ syntax: Syntax) -> Int32 {
    let last = program.operations.count - 1
    program.keys.append(key)
    let index = Int32(program.keys.count - 1)
    if Int(object) == last, program.operations[last].code == .auth {
      let count = program.operations[last].b
      if count == 0, key == "uid" {
        program.operations[last] = .init(code: .uid)
        program.ranges[last] = Int32(syntax.range.lowerBound)..<Int32(syntax.range.upperBound)
        return object
      }
      let start = program.operations[last].a
      if count == 0 || start + count == index {
        program.operations[last] = .init(
          code: .auth, a: count == 0 ? index : start, b: count + 1)
        program.ranges[last] = Int32(syntax.range.lowerBound)..<Int32(syntax.range.upperBound)
        return object
      }
    }
    return emit(.member, object, index, for: syntax)
  }

  /// Compiles a computed member: `auth.groups[$group]`.
  mutating func compile(
    computedMember name: Syntax, of object: Syntax, _ syntax: Syntax
  ) throws(TextProblem) -> Part {
    let object = try compile(object, as: .token)
    let name = try compile(name, as: .string)
    let operation = emit(.computedMember, object.operation, name.operation, for: syntax)
    return Part(operation: operation, types: .tokenMember)
  }

  private mutating func compile(query name: String, _ syntax: Syntax) throws(TextProblem) -> Part {
    guard kind == .read else {
      throw problem(syntax, "expected no query: there is one only in .read")
    }
    guard let field = Program.QueryField.allCases.first(where: { "\($0)" == name }) else {
      let known = Program.QueryField.allCases.map { "\($0)" }.joined(separator: ", ")
      throw problem(syntax, "expected a field of query: \(known); found \(name)")
    }
    let types: ValueTypes =
      switch field {
      case .orderByKey, .orderByPriority, .orderByValue: .bool
      case .orderByChild: [.string, .null]
      case .startAt, .endAt, .equalTo: .bound
      case .limitToFirst, .limitToLast: [.number, .null]
      }
    return Part(operation: emit(.query, field.rawValue, for: syntax), types: types)
  }

  /// Compiles a call: `data.child('a').exists()`, `$name.contains('x')`.
  mutating func compile(
    call name: String, of receiver: Syntax, _ arguments: [Syntax], _ syntax: Syntax
  ) throws(TextProblem) -> Part {
    if let snapshot = try snapshot(receiver) {
      return try compile(name, of: snapshot, arguments, syntax)
    }
    guard let method = Method.string[name] else {
      let known = Method.string.keys.sorted().joined(separator: ", ")
      let hint =
        Method.snapshot[name] != nil
        ? "\(name) is a method of root, data and newData" : "strings have \(known)"
      throw problem(syntax, "expected a method; found \(name): \(hint)")
    }
    let part = try compile(receiver, as: .string)
    try check(arguments, method.arguments, name, syntax)
    var operands: [Int32] = [0, 0]
    for (i, argument) in arguments.enumerated() {
      if name == "matches" {
        guard case .pattern(let pattern) = argument.kind else {
          throw problem(argument, "expected a regular expression, as in matches(/^[a-z]+$/)")
        }
        program.patterns.append(pattern)
        operands[i] = Int32(program.patterns.count - 1)
      } else {
        operands[i] = try compile(argument, as: .string).operation
      }
    }
    let operation = emit(method.code, part.operation, operands[0], operands[1], for: syntax)
    return Part(operation: operation, types: method.types)
  }

  func check(
    _ arguments: [Syntax], _ expected: Int, _ name: String, _ syntax: Syntax
  ) throws(TextProblem) {
    guard arguments.count == expected else {
      let count = expected == 1 ? "1 argument" : expected == 0 ? "no argument" : "2 arguments"
      throw problem(syntax, "expected \(count) of \(name); found \(arguments.count)")
    }
  }
}

/// The signature of a method.
struct Method {
  var code: Program.Code
  var arguments: Int
  var types: ValueTypes

  var form: String { arguments == 0 ? "()" : "(…)" }

  /// The methods of strings. `pushTime` is Canopy's own; all others are the Realtime Database's.
  ///
  /// `pushTime` returns the time in a push id in milliseconds since 1970, and null for a text that is not a
  /// push id: 20 characters of `-0-9A-Z_a-z`. With it a rule keeps clients from choosing keys that sort
  /// after all later ones: `$post.pushTime() <= now + 60000`.
  static let string: [String: Method] = [
    "contains": Method(code: .contains, arguments: 1, types: .bool),
    "beginsWith": Method(code: .beginsWith, arguments: 1, types: .bool),
    "endsWith": Method(code: .endsWith, arguments: 1, types: .bool),
    "matches": Method(code: .matches, arguments: 1, types: .bool),
    "replace": Method(code: .replace, arguments: 2, types: .string),
    "toLowerCase": Method(code: .toLowerCase, arguments: 0, types: .string),
    "toUpperCase": Method(code: .toUpperCase, arguments: 0, types: .string),
    "pushTime": Method(code: .pushTime, arguments: 0, types: [.number, .null]),
  ]

  /// The methods of snapshots. `childCount` is Canopy's own; all others are the Realtime
  /// Database's.
  ///
  /// Rules have no loops, so without counting a rule cannot tell whether only one of many children
  /// changed. With it, a rule can: if every new child existed before or is the caller's, and the
  /// number of children changed only by the caller's, no child of another user was removed.
  static let snapshot: [String: Method] = [
    "val": Method(code: .val, arguments: 0, types: .treeValue),
    "exists": Method(code: .exists, arguments: 0, types: .bool),
    "isNumber": Method(code: .isNumber, arguments: 0, types: .bool),
    "isString": Method(code: .isString, arguments: 0, types: .bool),
    "isBoolean": Method(code: .isBoolean, arguments: 0, types: .bool),
    "getPriority": Method(code: .getPriority, arguments: 0, types: [.null, .number, .string]),
    "childCount": Method(code: .childCount, arguments: 0, types: .number),
    "hasChild": Method(code: .exists, arguments: 1, types: .bool),
    "hasChildren": Method(code: .allExist, arguments: 1, types: .bool),
    "child": Method(code: .exists, arguments: 1, types: .bool),
    "parent": Method(code: .exists, arguments: 0, types: .bool),
  ]
}
