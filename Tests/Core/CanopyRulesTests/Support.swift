import CanopyTesting
import CanopyTree

@testable import CanopyRules

/// Returns the rule set of a text.
func rules(_ text: String) throws -> RuleSet {
  try RuleSet(text: text, file: "test.json")
}

extension Pattern {
  /// Whether the pattern occurs in the text, without a limit on steps.
  func matches(_ text: String) -> Bool {
    var left = Int.max
    return matches(text, stepsLeft: &left) == true
  }
}

extension PatternTable {
  /// Compiles a pattern as the only one of its file.
  static func compile(_ text: String, ignoresCase: Bool = false) throws -> Pattern {
    var table = PatternTable()
    return try table.pattern(Array(text.utf8), ignoresCase: ignoresCase)
  }
}

/// Returns a tree from JSON, with priorities.
func tree(_ json: String) throws -> Node {
  try WriteValue(json: json).node
}

/// Returns the problems of a rules file, without the file's name.
func problems(_ text: String) -> [String] {
  do {
    _ = try rules(text)
    return []
  } catch let error as RulesError {
    return error.problems.map { String($0.description.dropFirst("test.json:".count)) }
  } catch {
    return ["\(error)"]
  }
}

/// Returns a caller with the `auth` of a user.
func user(_ uid: String) -> RuleCaller {
  RuleCaller(auth: RuleCaller.auth(uid: uid), now: 1_700_000_000_000)
}

let nobody = RuleCaller(auth: nil, now: 1_700_000_000_000)

/// The result of an expression as the `.read` rule of the root.
enum Evaluated: Equatable {
  case isInvalid(String)
  case outcome(RuleOutcome)

  static let isTrue = Evaluated.outcome(.isTrue)
  static let isFalse = Evaluated.outcome(.isFalse)

  var hasFailed: Bool {
    if case .outcome(.failed) = self { true } else { false }
  }

  var isInvalid: Bool {
    if case .isInvalid = self { true } else { false }
  }
}

/// Evaluates an expression as a `.read` rule, below the given number of wildcards.
func evaluate(
  _ expression: String, data: Node = .absent, as caller: RuleCaller = nobody,
  wildcards: [(name: String, key: Key)] = [], query: Query? = nil
) -> Evaluated {
  var output = JSONOutput()
  output.append("{\"rules\":")
  for wildcard in wildcards {
    output.append("{")
    output.append(string: wildcard.name)
    output.append(":")
  }
  output.append("{\".read\":")
  output.append(string: expression)
  output.append("}")
  for _ in wildcards { output.append("}") }
  output.append("}")
  do {
    let rules = try RuleSet(text: output.text)
    let path = wildcards.reduce(Path.root) { $0.child($1.key) }
    let explanation = rules.explainRead(path, query, in: data, as: caller)
    // Both ways of evaluating must agree for all requests.
    guard rules.mayRead(path, query, in: data, as: caller) == explanation.verdict.isAllowed else {
      return .isInvalid("mayRead and explainRead differ")
    }
    guard let outcome = explanation.steps.last?.outcome else { return .isInvalid("no rule") }
    return .outcome(outcome)
  } catch {
    return .isInvalid(error.problems[0].message)
  }
}

extension WriteValue {
  /// Creates a value from JSON text.
  init(json text: String) throws {
    var text = text
    self = try text.withUTF8 { try WriteValue(json: UnsafeRawBufferPointer($0)) }
  }
}

extension RuleSet {
  /// Returns the explanation of a write, evaluated like in the engine: resolve, apply, evaluate.
  func explain(_ write: Write, in root: Node, as caller: RuleCaller) -> Explanation {
    let assignments = write.resolved(in: root, at: caller.now)
    var tree = Tree(root: root)
    tree.apply(assignments)
    let explanation = explainWrite(
      assignments.map(\.location), before: root, after: tree.root, as: caller)
    let verdict = authorize(assignments, before: root, after: tree.root, as: caller)
    precondition(verdict == explanation.verdict, "authorize and explainWrite differ")
    return explanation
  }

  func maySet(
    _ location: String, _ json: String, in root: Node, as caller: RuleCaller = nobody
  ) throws -> Bool {
    let write = try Write.set(try Location(location), try WriteValue(json: json))
    return explain(write, in: root, as: caller).verdict.isAllowed
  }

  func mayUpdate(
    _ path: String, _ changes: [String: String], in root: Node, as caller: RuleCaller = nobody
  ) throws -> Bool {
    let write = try Write.update(
      try Path(path), try changes.map { (try Location($0.key), try WriteValue(json: $0.value)) })
    return explain(write, in: root, as: caller).verdict.isAllowed
  }
}
