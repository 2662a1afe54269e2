internal import CanopyGateway
internal import CanopyRules
internal import CanopyTree

/// The security rules, their regular expressions and their test cases.
extension FuzzedDecoder {
  /// A file of rules. Accepted rules decide a few requests.
  static let rules = FuzzedDecoder(
    name: "rules",
    sources: [
      "Core/CanopyRules/Compiler+Members.swift", "Core/CanopyRules/Compiler+Snapshots.swift",
      "Core/CanopyRules/Compiler.swift", "Core/CanopyRules/Escape.swift",
      "Core/CanopyRules/ExpressionParser.swift", "Core/CanopyRules/RuleLoader.swift",
      "Core/CanopyRules/RulesDocument.swift", "Core/CanopyRules/RuleSet.swift",
      "Core/CanopyRules/Token.swift",
      "Serving/CanopyGateway/StrictRules.swift",
    ]
  ) { input in
    guard let rules = try? RuleSet(utf8: input) else { return false }
    let strict = StrictRules.json(String(decoding: input, as: UTF8.self))
    try expect(
      (try? strict.withUnsafeBytes { try JSONValue(json: $0, limits: .none) }) != nil,
      "the rules without comments are not JSON: \(strict.shown)")
    let root = FuzzTree.tree.root
    for caller in RuleCheck.callers {
      for path in RuleCheck.paths {
        try RuleCheck.read(rules, path, in: root, as: caller)
        try RuleCheck.write(rules, path, in: root, as: caller)
      }
    }
    return true
  }

  /// A regular expression, and after a line feed a text.
  static let patterns = FuzzedDecoder(
    name: "patterns",
    sources: [
      "Core/CanopyRules/Pattern.swift", "Core/CanopyRules/PatternParser.swift",
      "Core/CanopyRules/PatternTable.swift", "Core/CanopyRules/ScalarSet.swift",
    ]
  ) { input in
    let parts = input.split(
      separator: UInt8(ascii: "\n"), maxSplits: 1, omittingEmptySubsequences: false)
    let pattern = String(decoding: parts[0], as: UTF8.self)
    let text = String(decoding: (parts.count > 1 ? parts[1] : []).prefix(48), as: UTF8.self)
    let node = Node(text)
    let caller = RuleCaller(auth: nil, now: 0)
    func matches(_ pattern: String, _ flags: String) throws -> Bool?? {
      var output = JSONOutput()
      output.append("{\"rules\":{\".read\":")
      output.append(string: "data.val().matches(/\(pattern)/\(flags))")
      output.append("}}")
      guard let rules = try? RuleSet(utf8: output.bytes) else { return nil }
      try RuleCheck.read(rules, .root, in: node, as: caller)
      return .some(rules.mayRead(.root, in: node, as: caller, stepsMax: .max))
    }
    guard let result = try matches(pattern, "") else { return false }
    _ = try matches(pattern, "i")
    // A pattern occurs in a text exactly if the text is something, the pattern and something.
    if let result,
      case .some(.some(let other)) = try matches(#"^[\s\S]*("# + pattern + #")[\s\S]*$"#, "")
    {
      try expect(result == other, "\(pattern.debugDescription) in \(text.debugDescription) differs")
    }
    return true
  }

  /// A file of rule cases, as `canopy rules` reads it.
  static let ruleCases = FuzzedDecoder(
    name: "rule-cases",
    sources: ["Core/CanopyRules/RuleCaseReader.swift", "Core/CanopyRules/RuleCases.swift"]
  ) { input in
    guard let text = String(validating: input, as: UTF8.self),
      let cases = try? RuleCases(json: text), let rules = RuleCheck.rules
    else { return false }
    try expect(
      cases.run(rules).count == cases.cases.count, "a case has no outcome: \(text.debugDescription)"
    )
    return true
  }
}

/// The requests that accepted rules decide.
private enum RuleCheck {
  static let rules = try? RuleSet(
    text: #"{"rules":{".read":"auth != null","a":{"$k":{".write":"auth.uid === $k","#
      + #"".validate":"newData.isString() && newData.val().length < 9"}}}}"#)

  static let callers = [
    RuleCaller(auth: nil, now: 1_700_000_000_000),
    RuleCaller(auth: RuleCaller.auth(uid: "ann"), now: 1_700_000_000_000),
  ]

  static let paths = ["", "a/b", "x/y/z"].compactMap { try? Path($0) }

  private static let values: [Node] = [
    .absent, Node("text"), (try? Node(json: #"{"b":"x","n":7}"#)) ?? .absent,
  ]

  static func read(
    _ rules: RuleSet, _ path: Path, in root: Node, as caller: RuleCaller
  ) throws(Finding) {
    let isAllowed = rules.mayRead(path, in: root, as: caller)
    let explained = rules.explainRead(path, in: root, as: caller).verdict.isAllowed
    try expect(isAllowed == explained, "reading \(path) and its explanation differ")
  }

  static func write(
    _ rules: RuleSet, _ path: Path, in root: Node, as caller: RuleCaller
  ) throws {
    for value in values {
      let location = Location(path)
      guard let write = try? Write.set(location, WriteValue(value)) else { continue }
      var tree = Tree(root: root)
      tree.apply(write.resolved(in: root, at: caller.now))
      let verdict = rules.authorize([location], before: root, after: tree.root, as: caller)
      let explained = rules.explainWrite(
        [location], before: root, after: tree.root, as: caller
      ).verdict
      try expect(verdict == explained, "writing \(path) and its explanation differ")
      // A write is denied early only if it is denied.
      let early = rules.denies(write, before: root, as: caller)
      let earliest = rules.denies(write, before: nil, as: caller)
      try expect(
        (!earliest || early) && (!early || !verdict.isAllowed),
        "writing \(path) is denied too early")
    }
  }
}
