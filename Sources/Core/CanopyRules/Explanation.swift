public import CanopyTree

/// The explanation of a verdict: every evaluated rule, in sequence, with the value of each part of
/// its expression.
public struct Explanation: Sendable {
  /// One part of an expression with its value.
  public struct Part: Sendable {
    /// The text of the part.
    public var text: String
    /// The byte range of the part in the expression.
    public var range: Range<Int>
    /// The value in the notation of rules, shortened.
    public var value: String
  }

  /// One evaluated rule.
  public struct Step: Sendable {
    /// The path of the rule in the file, such as `/posts/$id/.write`.
    public var rule: String
    /// The line of the rule in the file.
    public var line: Int
    /// The location at which the rule was evaluated, such as `/posts/-Oxyz`.
    public var location: String
    /// The expression of the rule.
    public var text: String
    /// The outcome of the rule.
    public var outcome: RuleOutcome
    /// The evaluated parts, in sequence, without constants.
    public var parts: [Part]
  }

  /// The verdict.
  public var verdict: Verdict
  /// The evaluated rules, in sequence. The last one decided, if the verdict names it.
  public var steps: [Step]

  /// The explanation as text of several lines, for a terminal.
  public var text: String {
    var lines: [String] = []
    for step in steps {
      lines.append("\(step.rule) (line \(step.line)) at \(step.location): \(step.outcome.sentence)")
      for part in step.parts { lines.append("    \(part.text)  =>  \(part.value)") }
    }
    switch verdict {
    case .allowed: lines.append("allowed")
    case .denied(let denial): lines.append("denied: " + denial.sentence)
    }
    return lines.joined(separator: "\n")
  }
}

/// The outcome of a rule.
public enum RuleOutcome: Equatable, Sendable {
  /// The rule holds.
  case isTrue
  /// The rule does not hold.
  case isFalse
  /// The rule could not be evaluated, for this reason, and therefore does not hold.
  case failed(String)

  /// The outcome in words.
  public var sentence: String {
    switch self {
    case .isTrue: "true"
    case .isFalse: "false"
    case .failed(let reason): "failed: " + reason
    }
  }
}

extension RuleSet {
  /// Returns the explanation of the verdict that `mayRead` gives.
  public func explainRead(
    _ path: Path, _ query: Query? = nil, in root: Node, as caller: RuleCaller
  ) -> Explanation {
    var evaluator = Evaluator(
      frozenProgram, caller: caller, query: query, before: root, after: root, trace: FullTrace())
    let isAllowed = evaluator.mayRead(path, in: tree)
    return explanation(
      isAllowed ? .allowed : .denied(.notGranted(.read, at: path)), evaluator.trace)
  }

  /// Returns the explanation of the verdict that `authorize` gives.
  public func explainWrite(
    _ locations: [Location], before: Node, after: Node, as caller: RuleCaller
  ) -> Explanation {
    let (verdict, trace) = authorize(
      locations[...], before: before, after: after, as: caller, trace: FullTrace())
    return explanation(verdict, trace)
  }

  private func explanation(_ verdict: Verdict, _ trace: FullTrace) -> Explanation {
    let steps = trace.entries.map { entry in
      let rule = program.rules[Int(entry.rule)]
      return Explanation.Step(
        rule: tree.path(of: rule), line: rule.line, location: entry.location.description,
        text: String(decoding: rule.text, as: UTF8.self), outcome: entry.outcome,
        parts: entry.values.map { value in
          let range = program.ranges[Int(value.operation)]
          let bytes = Int(range.lowerBound)..<Int(range.upperBound)
          return Explanation.Part(
            text: String(decoding: rule.text[bytes], as: UTF8.self), range: bytes,
            value: value.value.description)
        })
    }
    return Explanation(verdict: verdict, steps: steps)
  }
}
