public import CanopyTree

extension RuleSet {
  /// Whether the caller may read a location: whether any `.read` from the root down to it holds.
  ///
  /// - Parameters:
  ///   - path: the location.
  ///   - query: the query on it, or nil; `query` in rules.
  ///   - root: the tree.
  /// - Complexity: O(depth × log siblings), and the rules on the path.
  public func mayRead(
    _ path: Path, _ query: Query? = nil, in root: Node, as caller: RuleCaller
  ) -> Bool {
    var evaluator = Evaluator(
      frozenProgram, caller: caller, query: query, before: root, after: root, trace: NoTrace())
    return evaluator.mayRead(path, in: tree)
  }

  /// Whether the caller may read a location, as far as a few steps of the rules show that.
  ///
  /// - Parameter stepsMax: the most steps. A step takes five to fifteen nanoseconds.
  /// - Returns: nil if the rules take more steps.
  public func mayRead(
    _ path: Path, _ query: Query? = nil, in root: Node, as caller: RuleCaller, stepsMax: Int
  ) -> Bool? {
    var evaluator = Evaluator(
      frozenProgram, caller: caller, query: query, before: root, after: root, trace: NoTrace(),
      stepsMax: min(stepsMax, RuleLimits.stepsMax))
    let isAllowed = evaluator.mayRead(path, in: tree)
    return evaluator.isExhausted ? nil : isAllowed
  }

  /// Returns whether the caller may read a location, with the dependencies of the answer: it stays
  /// the same for this caller as long as no commit writes at, above or below them. Costs a little
  /// more than `mayRead`.
  public func authorizeRead(
    _ path: Path, _ query: Query? = nil, in root: Node, as caller: RuleCaller
  ) -> ReadVerdict {
    authorizeRead(path, query, in: root, as: caller, stepsMax: RuleLimits.stepsMax).verdict
  }

  /// Returns the same as far as a few steps of the rules show that.
  ///
  /// - Parameter stepsLeft: the most steps. It is reduced by those that were taken.
  /// - Returns: nil if the rules take more steps than are left. Rules that take more than `RuleLimits.stepsMax` deny.
  public func authorizeRead(
    _ path: Path, _ query: Query? = nil, in root: Node, as caller: RuleCaller,
    stepsLeft: inout Int
  ) -> ReadVerdict? {
    let stepsMax = min(max(0, stepsLeft), RuleLimits.stepsMax)
    let (verdict, left) = authorizeRead(path, query, in: root, as: caller, stepsMax: stepsMax)
    stepsLeft -= stepsMax - max(0, left)
    return left < 0 && stepsMax < RuleLimits.stepsMax ? nil : verdict
  }

  /// - Returns: the verdict, and the steps that are left; these are negative if the rules take more.
  private func authorizeRead(
    _ path: Path, _ query: Query?, in root: Node, as caller: RuleCaller, stepsMax: Int
  ) -> (verdict: ReadVerdict, stepsLeft: Int) {
    let trace = DependencyTrace()
    var evaluator = Evaluator(
      frozenProgram, caller: caller, query: query, before: root, after: root, trace: trace,
      stepsMax: stepsMax)
    let isAllowed = evaluator.mayRead(path, in: tree)
    let verdict = ReadVerdict(
      isAllowed: isAllowed, paths: trace.locations, dependsOnTime: trace.dependsOnTime,
      dependsOnQuery: trace.dependsOnQuery)
    return (verdict, evaluator.stepsLeft)
  }
}

extension Evaluator {
  /// Whether any `.read` on the path holds. Evaluates deeper rules only if those above do not
  /// grant: deeper rules cannot revoke.
  mutating func mayRead(_ path: Path, in tree: RuleTree) -> Bool {
    var node: Int32 = 0
    var rest = path.keys[...]
    while true {
      let rule = tree.nodes[Int(node)].read
      if rule >= 0, holds(rule) { return true }
      guard let key = rest.popFirst() else { return false }
      node = tree.child(key, of: node)
      guard node >= 0 else { return false }
      pushUnchanged(key)
    }
  }
}
