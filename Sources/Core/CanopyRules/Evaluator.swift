internal import CanopyTree

/// Evaluates the rules along a path.
///
/// Evaluates lazily, from the left. The current location is a stack of the keys from the root and
/// of the nodes on the way, before and after the write, so `data`, `newData` and their parents are
/// at hand. Copies nothing of the tree.
struct Evaluator<T: Trace> {
  private let frozenProgram: Frozen<Program>
  let caller: RuleCaller
  let query: Query?
  let trace: T
  /// The steps that the request may still use, at all locations together. Negative once they are
  /// used up; then every rule fails.
  private(set) var stepsLeft: Int

  /// The keys from the root to the current location.
  private(set) var keys: [Key] = []
  /// The nodes from the root to the current location: one more than keys.
  private(set) var before: [Node]
  /// The same nodes after the write; equal to `before` in a read.
  private(set) var after: [Node]

  var program: Program { @inline(__always) get { frozenProgram.value } }

  init(
    _ program: Frozen<Program>, caller: RuleCaller, query: Query?, before: Node, after: Node,
    trace: T, stepsMax: Int = RuleLimits.stepsMax
  ) {
    frozenProgram = program
    self.caller = caller
    self.query = query
    self.trace = trace
    stepsLeft = stepsMax
    keys.reserveCapacity(8)
    self.before = []
    self.after = []
    self.before.reserveCapacity(9)
    self.after.reserveCapacity(9)
    self.before.append(before)
    self.after.append(after)
  }

  /// The node at the current location before the write.
  var data: Node { before[keys.count] }
  /// The node at the current location after the write.
  var newData: Node { after[keys.count] }

  /// Whether the request has used more steps than it may.
  var isExhausted: Bool { stepsLeft < 0 }

  /// Uses steps. If too few are left, the request is exhausted.
  @inline(__always)
  mutating func charge(_ steps: Int) {
    stepsLeft = steps <= stepsLeft ? stepsLeft - steps : -1
  }

  /// Uses steps.
  ///
  /// - Throws: `RuleFailure` if too few are left.
  @inline(__always)
  mutating func spend(_ steps: Int, _ operation: Int32) throws(RuleFailure) {
    guard steps <= stepsLeft else {
      stepsLeft = -1
      throw RuleFailure(operation, .tooManySteps)
    }
    stepsLeft -= steps
  }

  /// Moves to a child of the current location.
  mutating func push(_ key: Key) {
    let depth = keys.count
    charge(before[depth].lookupSteps + after[depth].lookupSteps)
    before.append(before[depth].child(key))
    after.append(after[depth].child(key))
    keys.append(key)
  }

  /// Moves to a child in a read, where both versions are the same.
  mutating func pushUnchanged(_ key: Key) {
    charge(data.lookupSteps)
    let child = data.child(key)
    keys.append(key)
    before.append(child)
    after.append(child)
  }

  /// Moves up to a depth.
  mutating func pop(to depth: Int) {
    while keys.count > depth {
      keys.removeLast()
      before.removeLast()
      after.removeLast()
    }
  }

  /// Whether a rule holds at the current location. A rule that fails does not hold.
  mutating func holds(_ rule: Int32) -> Bool {
    let operation = program.rules[Int(rule)].operation
    trace.begin(rule, at: keys)
    do throws(RuleFailure) {
      let result = try bool(operation)
      trace.end(result)
      return result
    } catch {
      trace.fail(error)
      return false
    }
  }

  /// Evaluates an operation that must return a bool.
  mutating func bool(_ index: Int32) throws(RuleFailure) -> Bool {
    try spend(1, index)
    let operation = program.operations[Int(index)]
    let result: Bool
    switch operation.code {
    case .and:
      var holds = true
      for i in operation.a..<operation.a + operation.b where holds {
        holds = try bool(program.lists[Int(i)])
      }
      result = holds
    case .or:
      var holds = false
      for i in operation.a..<operation.a + operation.b where !holds {
        holds = try bool(program.lists[Int(i)])
      }
      result = holds
    case .not: result = try !bool(operation.a)
    case .equal: result = try equal(operation)
    case .notEqual: result = try !equal(operation)
    case .less, .lessOrEqual, .greater, .greaterOrEqual: result = try compare(operation)
    case .conditional:
      let choice = try bool(operation.a) ? operation.b : operation.c
      result = try bool(choice)
    case .exists: result = try !node(operation.a).isAbsent
    case .hasAnyChild: result = try node(operation.a).isBranch
    case .allExist:
      var all = true
      for i in operation.a..<operation.a + operation.b where all {
        all = try !node(program.lists[Int(i)]).isAbsent
      }
      result = all
    case .isNumber: result = try node(operation.a).doubleValue != nil
    case .isString:
      if case .string = try node(operation.a).value { result = true } else { result = false }
    case .isBoolean: result = try node(operation.a).boolValue != nil
    case .contains, .beginsWith, .endsWith, .matches: result = try test(operation)
    default:
      let value = try value(index)
      guard case .bool(let bool) = value else {
        throw RuleFailure(index, .expected("a bool", found: value))
      }
      return bool
    }
    if T.isOn { trace.note(index, .bool(result)) }
    return result
  }

  /// Evaluates an operation.
  mutating func value(_ index: Int32) throws(RuleFailure) -> Value {
    try spend(1, index)
    let operation = program.operations[Int(index)]
    let result: Value
    switch operation.code {
    case .constant: return program.constants[Int(operation.a)]
    case .wildcard: result = .key(keys[Int(operation.a)])
    case .now:
      if T.recordsReads { trace.visitTime() }
      if T.lacksData, !trace.knowsTime { throw RuleFailure(index, .unknownData) }
      result = .integer(caller.now)
    case .uid: result = caller.uid
    case .auth: result = member(operation)
    case .member:
      result = member(of: try value(operation.a), program.keys[Int(operation.b)])
    case .computedMember:
      let object = try value(operation.a)
      result = member(of: object, try key(operation.b))
    case .lengthOrMember:
      let object = try value(operation.a)
      if let text = object.text {
        result = .integer(try length(of: text, index))
      } else {
        result = member(of: object, program.keys[Int(operation.b)])
      }
    case .query:
      if T.recordsReads { trace.visitQuery() }
      result = Program.QueryField(rawValue: operation.a).map(queryValue) ?? .null
    case .val: result = Value(try node(operation.a))
    case .getPriority: result = Value(try node(operation.a).priority)
    case .childCount: result = .integer(Int64(try node(operation.a).childCount))
    case .conditional:
      let choice = try bool(operation.a) ? operation.b : operation.c
      result = try value(choice)
    case .negate, .add, .subtract, .multiply, .divide, .remainder:
      result = try calculate(operation, index)
    case .length, .replace, .toLowerCase, .toUpperCase: result = try text(operation, index)
    case .pushTime: result = try pushTime(operation)
    default:
      return .bool(try bool(index))
    }
    if T.isOn { trace.note(index, result) }
    return result
  }

  /// Compares both operands, after evaluating them in sequence.
  private mutating func equal(_ operation: Program.Operation) throws(RuleFailure) -> Bool {
    let a = try value(operation.a)
    let b = try value(operation.b)
    if case .string(let text) = a, case .string(let other) = b {
      try spend(min(text.utf8.count, other.utf8.count) / StepCost.bytesEqual, operation.a)
    }
    return Value.equal(a, b)
  }

  /// Returns a member of the token, at any depth.
  private func member(_ operation: Program.Operation) -> Value {
    guard var node = caller.auth else { return .null }
    for i in operation.a..<operation.a + operation.b { node = node.child(program.keys[Int(i)]) }
    return Value(node)
  }

  /// Returns a member of an object; null for a missing one, and for any other value.
  private func member(of object: Value, _ key: Key?) -> Value {
    guard case .branch(let node) = object, let key else { return .null }
    return Value(node.child(key))
  }

  /// Returns the result of an operation as a key; nil if it is not a valid key.
  private mutating func key(_ index: Int32) throws(RuleFailure) -> Key? {
    switch try value(index) {
    case .key(let key): return key
    case .string(let text): return try? Key(text)
    case let value: throw RuleFailure(index, .expected("a string", found: value))
    }
  }

  /// Whether a text matches the pattern of an operation.
  mutating func matches(
    _ text: String, _ operation: Program.Operation
  ) throws(RuleFailure) -> Bool {
    let pattern = program.patterns[Int(operation.b)]
    guard let result = pattern.matches(text, stepsLeft: &stepsLeft) else {
      stepsLeft = -1
      throw RuleFailure(operation.a, .tooManySteps)
    }
    return result
  }

  /// Returns the result of an operation, which must be a string.
  mutating func string(_ index: Int32) throws(RuleFailure) -> String {
    let value = try value(index)
    guard let text = value.text else {
      throw RuleFailure(index, .expected("a string", found: value))
    }
    return text
  }
}

/// The reason why a rule could not be evaluated. Such a rule does not hold, whatever its other
/// parts.
struct RuleFailure: Error {
  enum Reason {
    case expected(StaticString, found: Value)
    case operands(Value, Value)
    case noParent
    case tooLong
    case tooManySteps
    /// The rule reads data that is not known yet.
    case unknownData
  }

  /// The operation that failed.
  var operation: Int32
  var reason: Reason

  init(_ operation: Int32, _ reason: Reason) {
    self.operation = operation
    self.reason = reason
  }

  var sentence: String {
    switch reason {
    case .expected(let what, let found): "expected \(what); this is \(found.kind)"
    case .operands(let a, let b):
      "expected two numbers or two strings; these are \(a.kind) and \(b.kind)"
    case .noParent: "the root has no parent"
    case .tooLong: "the text would be too long"
    case .tooManySteps: "the rules of this request would take too long"
    case .unknownData: "the rule needs the data after the write"
    }
  }
}
