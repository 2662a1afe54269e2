internal import CanopyTree

extension Evaluator {
  /// Evaluates `<`, `<=`, `>` or `>=`: two numbers exactly, two strings by their UTF-16 code units.
  mutating func compare(_ operation: Program.Operation) throws(RuleFailure) -> Bool {
    let a = try value(operation.a)
    let b = try value(operation.b)
    let order: Int
    switch (a, b) {
    case (.integer(let x), .integer(let y)): order = x < y ? -1 : x == y ? 0 : 1
    case (.integer, .double), (.double, .integer), (.double, .double):
      guard let x = a.order, let y = b.order else { return false }
      order = x < y ? -1 : x == y ? 0 : 1
    default:
      guard let x = a.text, let y = b.text else {
        throw RuleFailure(operation.a, .operands(a, b))
      }
      try spend(min(x.utf8.count, y.utf8.count) / StepCost.bytesOrdered, operation.a)
      // Compares the whole texts. The order of children compares only their beginnings.
      order = x.compareCodeUnits(with: y)
    }
    switch operation.code {
    case .less: return order < 0
    case .lessOrEqual: return order <= 0
    case .greater: return order > 0
    default: return order >= 0
    }
  }

  mutating func calculate(
    _ operation: Program.Operation, _ index: Int32
  ) throws(RuleFailure) -> Value {
    let a = try value(operation.a)
    if operation.code == .negate {
      switch a {
      case .integer(let x):
        let (result, overflow) = Int64(0).subtractingReportingOverflow(x)
        return overflow ? Value(-Double(x)) : .integer(result)
      case .double(let x): return Value(-x)
      default: throw RuleFailure(operation.a, .expected("a number", found: a))
      }
    }
    let b = try value(operation.b)
    if case .integer(let x) = a, case .integer(let y) = b,
      let result = Arithmetic.exact(operation.code, x, y)
    {
      return .integer(result)
    }
    if let x = a.number, let y = b.number {
      return Value(Arithmetic.rounded(operation.code, x, y))
    }
    guard operation.code == .add else {
      let (operand, value) = a.number == nil ? (operation.a, a) : (operation.b, b)
      throw RuleFailure(operand, .expected("a number", found: value))
    }
    return try concatenate(a, b, index)
  }

  /// Evaluates `+` of strings, or of a string and a number.
  private mutating func concatenate(
    _ a: Value, _ b: Value, _ index: Int32
  ) throws(RuleFailure) -> Value {
    guard let x = a.concatenated, let y = b.concatenated else {
      throw RuleFailure(index, .operands(a, b))
    }
    guard x.utf8.count + y.utf8.count <= RuleLimits.stringBytesMax else {
      throw RuleFailure(index, .tooLong)
    }
    try spend((x.utf8.count + y.utf8.count) / StepCost.bytesCopied, index)
    return .string(x + y)
  }

  /// Evaluates a string method that returns a bool.
  mutating func test(_ operation: Program.Operation) throws(RuleFailure) -> Bool {
    let text = try string(operation.a)
    if operation.code == .matches { return try matches(text, operation) }
    let part = try string(operation.b)
    switch operation.code {
    case .contains:
      try spend((text.utf8.count + part.utf8.count) / StepCost.bytesSearched, operation.a)
      return text.containsBytes(part)
    case .beginsWith:
      try spend(part.utf8.count / StepCost.bytesEqual, operation.a)
      return text.hasBytePrefix(part)
    default:
      try spend(part.utf8.count / StepCost.bytesEqual, operation.a)
      return text.hasByteSuffix(part)
    }
  }

  /// Returns the number of UTF-16 code units of a text, like JavaScript.
  mutating func length(of text: String, _ index: Int32) throws(RuleFailure) -> Int64 {
    try spend(text.utf8.count / StepCost.bytesCounted, index)
    return Int64(text.utf16.count)
  }

  /// Evaluates a string method that does not return a bool.
  mutating func text(
    _ operation: Program.Operation, _ index: Int32
  ) throws(RuleFailure) -> Value {
    let text = try string(operation.a)
    switch operation.code {
    case .length: return .integer(try length(of: text, index))
    case .toLowerCase, .toUpperCase:
      try spend(text.utf8.count * StepCost.casedByte, index)
      return .string(operation.code == .toLowerCase ? text.lowercased() : text.uppercased())
    default:
      let part = try string(operation.b)
      let other = try string(operation.c)
      try spend((text.utf8.count + part.utf8.count) * StepCost.replacedByte, index)
      guard
        let result = text.replacingBytes(part, with: other, bytesMax: RuleLimits.stringBytesMax)
      else { throw RuleFailure(index, .tooLong) }
      try spend(result.utf8.count / StepCost.bytesCopied, index)
      return .string(result)
    }
  }

  /// Returns the time in a push id; null for a text that is not a push id.
  mutating func pushTime(_ operation: Program.Operation) throws(RuleFailure) -> Value {
    let value = try value(operation.a)
    let key: Key?
    if case .key(let wildcard) = value {
      key = wildcard
    } else if let text = value.text {
      key = text.utf8.count == PushID.length ? try? Key(text) : nil
    } else {
      throw RuleFailure(operation.a, .expected("a string", found: value))
    }
    return key.flatMap(PushID.time).map { .integer($0) } ?? .null
  }

  func queryValue(_ field: Program.QueryField) -> Value {
    let query = query ?? .all
    // An unbounded request has no order. Firebase's server reports key order for it, and its own
    // rules depend on that.
    let order = query.isUnbounded && query.order == .priority ? .key : query.order
    switch field {
    case .orderByKey: return .bool(order == .key)
    case .orderByPriority: return .bool(order == .priority)
    case .orderByValue: return .bool(order == .value)
    case .orderByChild:
      if case .child(let path) = order { return .string(path.text) }
      return .null
    case .startAt: return value(of: query.lower, in: order)
    case .endAt: return value(of: query.upper, in: order)
    case .equalTo:
      guard let lower = query.lower, lower == query.upper else { return .null }
      return value(of: lower, in: order)
    case .limitToFirst:
      if case .first(let count) = query.limit { return .integer(Int64(count)) }
      return .null
    case .limitToLast:
      if case .last(let count) = query.limit { return .integer(Int64(count)) }
      return .null
    }
  }

  private func value(of bound: Query.Bound?, in order: Order) -> Value {
    guard let bound else { return .null }
    if order == .key { return bound.key.map { .key($0) } ?? .null }
    return Value(bound.value)
  }
}

/// Costs of operations on text: mostly bytes per step; steps per byte where a byte costs more.
///
/// Measured in a release build, so that a step takes about equally long for all operations; see
/// `RuleLimits.stepsMax`.
enum StepCost {
  /// Bytes per step of a comparison for equality.
  static let bytesEqual = 64
  /// Bytes per step of a comparison for order.
  static let bytesOrdered = 8
  /// Bytes per step of a search.
  static let bytesSearched = 4
  /// Bytes per step of a copy.
  static let bytesCopied = 32
  /// Bytes per step of counting UTF-16 code units.
  static let bytesCounted = 8
  /// Bytes per step of splitting a path into keys.
  static let bytesOfPath = 2

  /// Steps per byte of a change of case.
  static let casedByte = 2
  /// Steps per byte of a replacement, in the worst case.
  static let replacedByte = 2
}

/// Arithmetic: exact for 64-bit integers while the result is one, else in IEEE doubles.
enum Arithmetic {
  /// Returns the result, if it is a 64-bit integer.
  static func exact(_ code: Program.Code, _ a: Int64, _ b: Int64) -> Int64? {
    let result: (partialValue: Int64, overflow: Bool)
    switch code {
    case .add: result = a.addingReportingOverflow(b)
    case .subtract: result = a.subtractingReportingOverflow(b)
    case .multiply: result = a.multipliedReportingOverflow(by: b)
    case .divide:
      guard b != 0, a.remainderReportingOverflow(dividingBy: b).partialValue == 0 else {
        return nil
      }
      result = a.dividedReportingOverflow(by: b)
    case .remainder:
      guard b != 0 else { return nil }
      // Only -1 can make the quotient overflow; the remainder is always 0.
      result = b == -1 ? (0, false) : a.remainderReportingOverflow(dividingBy: b)
    default: return nil
    }
    return result.overflow ? nil : result.partialValue
  }

  /// Returns the result in doubles. Division by zero gives NaN, as on Firebase's server, where
  /// neither `1/0 > 2` nor `1/0 < 2` holds.
  static func rounded(_ code: Program.Code, _ a: Double, _ b: Double) -> Double {
    switch code {
    case .add: a + b
    case .subtract: a - b
    case .multiply: a * b
    case .divide: b == 0 ? .nan : a / b
    default: b == 0 ? .nan : a.truncatingRemainder(dividingBy: b)
    }
  }
}

extension Value {
  /// The order value of a number; nil for any other value.
  fileprivate var order: OrderValue? {
    switch self {
    case .integer(let value): .integer(value)
    case .double(let value): value.isNaN ? nil : .double(value)
    default: nil
    }
  }

  /// The text of the value as an operand of `+` beside a string; nil for a value that cannot be
  /// one.
  fileprivate var concatenated: String? {
    switch self {
    case .integer(let value): String(value)
    case .double(let value): Value.text(of: value)
    default: text
    }
  }
}
