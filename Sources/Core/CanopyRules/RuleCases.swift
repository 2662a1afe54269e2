internal import CanopyTree

/// Requests with their expected verdicts: a test of a rules file.
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
/// `as` is one of `users`, or an `auth` object; without it the caller is anonymous. Operations are
/// `read`, `set`, `update` (whose value has paths as names) and `remove`. Cases may have `data` and
/// `now` of their own. Values may have `.priority` and `.sv`, as in requests. Each case starts from
/// the data and does not see the writes of others.
public struct RuleCases: Sendable {
  /// One request and its expected verdict.
  public struct Case: Sendable {
    /// The description of the case; a sentence.
    public var name: String
    /// Whether the request should be allowed.
    public var isAllowed: Bool
    var caller: RuleCaller
    var data: Node
    var request: Request
  }

  enum Request: Sendable {
    case read(Path, Query?)
    case write(Write)
  }

  /// The outcome of a case.
  public struct Outcome: Sendable {
    /// The description of the case.
    public var name: String
    /// Whether the request should have been allowed.
    public var isAllowed: Bool
    /// The verdict, with its explanation.
    public var explanation: Explanation

    /// Whether the verdict is the expected one.
    public var isAsExpected: Bool { explanation.verdict.isAllowed == isAllowed }
  }

  /// The cases, in the order of the file.
  public internal(set) var cases: [Case]

  /// Reads a file of cases.
  ///
  /// - Throws: `RuleCaseError`, which names the case, or the line for invalid JSON.
  public init(json text: String) throws(RuleCaseError) {
    let file: JSONValue
    do throws(TreeError) { file = try JSONValue(json: text, limits: .none) } catch {
      guard case .invalidJSON(let sentence, let offset) = error else {
        throw RuleCaseError(sentence: "the file: \(error.sentence)")
      }
      let position = SourceText(file: "", bytes: Array(text.utf8)).position(of: offset)
      throw RuleCaseError(
        sentence: "line \(position.line), column \(position.column): \(sentence)")
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
  /// Returns the verdict of rules on the case, with its explanation.
  func explanation(by rules: RuleSet) -> Explanation {
    switch request {
    case .read(let path, let query):
      return rules.explainRead(path, query, in: data, as: caller)
    case .write(let write):
      let (assignments, after) = apply(write)
      return rules.explainWrite(
        assignments.map(\.location), before: data, after: after, as: caller)
    }
  }

  /// Whether rules allow the request.
  func verdict(by rules: RuleSet) -> Bool {
    switch request {
    case .read(let path, let query):
      return rules.mayRead(path, query, in: data, as: caller)
    case .write(let write):
      let (assignments, after) = apply(write)
      return rules.authorize(assignments, before: data, after: after, as: caller).isAllowed
    }
  }

  private func apply(_ write: Write) -> ([Assignment], Node) {
    let assignments = write.resolved(in: data, at: caller.now)
    var tree = Tree(root: data)
    tree.apply(assignments)
    return (assignments, tree.root)
  }
}

/// An error in a file of rule cases.
public struct RuleCaseError: Error, Equatable, Sendable {
  /// A sentence that says what is wrong.
  public var sentence: String
}
