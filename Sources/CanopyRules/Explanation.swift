public import CanopyTree

/// How rules came to what they say: every rule that was asked, in sequence, with what each part of its
/// expression came to.
public struct Explanation: Sendable {
  /// A part of an expression and its value.
  public struct Part: Sendable {
    /// The part as it was written.
    public var text: String
    /// The bytes of the expression that it takes.
    public var range: Range<Int>
    /// Its value as a rule would write it, long ones shortened.
    public var value: String
  }

  /// A rule that was asked.
  public struct Step: Sendable {
    /// Its path in the file, such as `/posts/$id/.write`.
    public var rule: String
    /// Its line in the file.
    public var line: Int
    /// Where it was asked, such as `/posts/-Oxyz`.
    public var location: String
    /// Its expression.
    public var text: String
    /// What it came to.
    public var outcome: RuleOutcome
    /// What was evaluated, in sequence; constants and what was not needed are left out.
    public var parts: [Part]
  }

  /// What the rules say.
  public var verdict: Verdict
  /// The rules that were asked. The last one decided, if it is what the verdict names.
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

/// What a rule came to.
public enum RuleOutcome: Equatable, Sendable {
  /// It holds.
  case isTrue
  /// It does not hold.
  case isFalse
  /// It could not be evaluated, for this reason, and so does not hold.
  case failed(String)

  /// In words.
  public var sentence: String {
    switch self {
    case .isTrue: "true"
    case .isFalse: "false"
    case .failed(let reason): "failed: " + reason
    }
  }
}

extension RuleSet {
  /// As `mayRead`, with how it came to that.
  public func explainRead(
    _ path: Path, _ query: Query? = nil, in root: Node, as caller: RuleCaller
  ) -> Explanation {
    var evaluator = Evaluator(
      frozenProgram, caller: caller, query: query, before: root, after: root, trace: FullTrace())
    let isAllowed = evaluator.reads(path, in: tree)
    return explanation(
      isAllowed ? .allowed : .denied(.notGranted(.read, at: path)), evaluator.trace)
  }

  /// As `judge`, with how it came to that.
  public func explainWrite(
    _ locations: [Location], before: Node, after: Node, as caller: RuleCaller
  ) -> Explanation {
    let (verdict, trace) = judge(
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
