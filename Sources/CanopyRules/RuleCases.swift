internal import CanopyTree

/// Requests with the verdict that rules are expected to give: tests of a rules file, in a file.
///
///     { "users": { "ann": { "uid": "ann" } },
///       "now": 1700000000000,
///       "data": { "notes": { "ann": "old" } },
///       "cases": [
///         { "name": "a user changes their own note", "as": "ann",
///           "operation": "set", "path": "/notes/ann", "value": "new", "expect": "allow" },
///         { "name": "nobody reads them all",
///           "operation": "read", "path": "/notes", "query": { "limitToFirst": 10 },
///           "expect": "deny" } ] }
///
/// `as` names one of `users`, or is an `auth` itself; without it nobody is logged in. Operations are
/// `read`, `set`, `update` (whose value has paths for names) and `remove`. Cases may have `data` and
/// `now` of their own. Values may have `.priority` and `.sv`, as in requests. Each case begins with
/// the data; none sees what another wrote.
public struct RuleCases: Sendable {
  /// One request and what is expected.
  public struct Case: Sendable {
    /// What it is about; a sentence.
    public var name: String
    /// Whether it should be allowed.
    public var isAllowed: Bool
    var caller: RuleCaller
    var data: Node
    var request: Request
  }

  enum Request: Sendable {
    case read(Path, Query?)
    case write(Write)
  }

  /// How a case went.
  public struct Outcome: Sendable {
    /// The case.
    public var name: String
    /// Whether it should have been allowed.
    public var isAllowed: Bool
    /// What the rules said, and how they came to that.
    public var explanation: Explanation

    /// Whether the rules said what was expected.
    public var isAsExpected: Bool { explanation.verdict.isAllowed == isAllowed }
  }

  /// In the order of the file.
  public internal(set) var cases: [Case]

  /// Reads a file of cases.
  ///
  /// - Throws: `RuleCaseError`, which names the case; or the line, of what is not JSON.
  public init(json text: String) throws(RuleCaseError) {
    let file: JSONValue
    do throws(TreeError) { file = try JSONValue(json: text, limits: .none) } catch {
      guard case .invalidJSON(let sentence, let offset) = error else {
        throw RuleCaseError(sentence: "the file: \(error.sentence)")
      }
      let place = SourceText(file: "", bytes: Array(text.utf8)).position(of: offset)
      throw RuleCaseError(
        sentence: "line \(place.line), column \(place.column): \(sentence)")
    }
    cases = try RuleCaseReader(file).read()
  }

  /// Runs all cases.
  public func run(_ rules: RuleSet) -> [Outcome] {
    cases.map {
      Outcome(name: $0.name, isAllowed: $0.isAllowed, explanation: $0.explanation(by: rules))
    }
  }
}

extension RuleCases.Case {
  /// What rules say of the case, and how they come to that.
  func explanation(by rules: RuleSet) -> Explanation {
    switch request {
    case .read(let path, let query):
      return rules.explainRead(path, query, in: data, as: caller)
    case .write(let write):
      let (assignments, after) = carryOut(write)
      return rules.explainWrite(
        assignments.map(\.location), before: data, after: after, as: caller)
    }
  }

  /// What rules say of the case.
  func verdict(by rules: RuleSet) -> Bool {
    switch request {
    case .read(let path, let query):
      return rules.mayRead(path, query, in: data, as: caller)
    case .write(let write):
      let (assignments, after) = carryOut(write)
      return rules.judge(assignments, before: data, after: after, as: caller).isAllowed
    }
  }

  private func carryOut(_ write: Write) -> ([Assignment], Node) {
    let assignments = write.resolved(in: data, at: caller.now)
    var tree = Tree(root: data)
    tree.apply(assignments)
    return (assignments, tree.root)
  }
}

/// What is wrong with a file of cases.
public struct RuleCaseError: Error, Equatable, Sendable {
  /// One sentence.
  public var sentence: String
}
