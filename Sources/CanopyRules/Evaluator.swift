internal import CanopyTree

/// Carries out the operations of rules at one place after the other.
///
/// Evaluates lazily and from the left. Where the rule is, is a stack: the keys from the root to the
/// place, and the nodes there before and after, so that `data`, `newData` and what `parent()` of them
/// is are at hand. Nothing of the tree is copied.
struct Evaluator<T: Trace> {
  private let frozenProgram: Frozen<Program>
  let caller: RuleCaller
  let query: Query?
  let trace: T
  /// The steps that the request may still take, in all of its places; negative from the moment when they did
  /// not suffice, and then every rule fails.
  private(set) var stepsLeft: Int

  /// The keys from the root to the place.
  private(set) var keys: [Key] = []
  /// The nodes from the root to the place; one more than keys.
  private(set) var before: [Node]
  /// The same after the write; as `before` where nothing is written.
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

  /// The node at the place before the write.
  var data: Node { before[keys.count] }
  /// The node at the place after the write.
  var newData: Node { after[keys.count] }

  /// Whether the request has taken more steps than it may.
  var isExhausted: Bool { stepsLeft < 0 }

  /// Takes steps away. When there are not so many, none are left.
  @inline(__always)
  mutating func charge(_ steps: Int) {
    stepsLeft = steps <= stepsLeft ? stepsLeft - steps : -1
  }

  /// Takes steps away.
  ///
  /// - Throws: `RuleFailure` when there are not so many.
  @inline(__always)
  mutating func spend(_ steps: Int, _ operation: Int32) throws(RuleFailure) {
    guard steps <= stepsLeft else {
      stepsLeft = -1
      throw RuleFailure(operation, .tooManySteps)
    }
    stepsLeft -= steps
  }

  /// Goes to a child of the place.
  mutating func push(_ key: Key) {
    let depth = keys.count
    charge(before[depth].lookupSteps + after[depth].lookupSteps)
    before.append(before[depth].child(key))
    after.append(after[depth].child(key))
    keys.append(key)
  }

  /// Goes to the same child in a read, which changes nothing.
  mutating func pushUnchanged(_ key: Key) {
    charge(data.lookupSteps)
    let child = data.child(key)
    keys.append(key)
    before.append(child)
    after.append(child)
  }

  /// Goes up until the place is so many keys from the root.
  mutating func pop(to depth: Int) {
    while keys.count > depth {
      keys.removeLast()
      before.removeLast()
      after.removeLast()
    }
  }

  /// Whether a rule holds at the place. What fails does not.
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

  /// Evaluates an operation that must come to a bool.
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
      if T.notesPlaces { trace.visitTime() }
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
    case .query: result = Program.QueryField(rawValue: operation.a).map(queryValue) ?? .null
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

  /// Both operands are evaluated, in sequence; most often one is a constant.
  private mutating func equal(_ operation: Program.Operation) throws(RuleFailure) -> Bool {
    let a = try value(operation.a)
    let b = try value(operation.b)
    if case .string(let text) = a, case .string(let other) = b {
      try spend(min(text.utf8.count, other.utf8.count) / StepCost.bytesEqual, operation.a)
    }
    return Value.equal(a, b)
  }

  /// The members of the token, from the outermost.
  private func member(_ operation: Program.Operation) -> Value {
    guard var node = caller.auth else { return .null }
    for i in operation.a..<operation.a + operation.b { node = node.child(program.keys[Int(i)]) }
    return Value(node)
  }

  /// A member of what is not an object is null, as is one that is missing.
  private func member(of object: Value, _ key: Key?) -> Value {
    guard case .branch(let node) = object, let key else { return .null }
    return Value(node.child(key))
  }

  /// A name that an operation comes to; nil if no key has it.
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

  /// The text that an operation comes to.
  mutating func string(_ index: Int32) throws(RuleFailure) -> String {
    let value = try value(index)
    guard let text = value.text else {
      throw RuleFailure(index, .expected("a string", found: value))
    }
    return text
  }
}

/// Why a rule could not be evaluated; it does not hold then, whatever else is in it.
struct RuleFailure: Error {
  enum Reason {
    case expected(StaticString, found: Value)
    case operands(Value, Value)
    case noParent
    case tooLong
    case tooManySteps
  }

  /// Where.
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
    }
  }
}
