public import CanopyTree

extension RuleSet {
  /// Judges a write as a whole.
  ///
  /// Each location must be granted by some `.write` from the root down to it. Then every `.validate`
  /// that applies must hold: on the way to the location, at it, and below it at all that was written;
  /// each only where there is something after the write.
  ///
  /// Firebase's documentation says that validate rules must be satisfied at all levels of the
  /// hierarchy, and a simulator that was compared with its server asks those above a location as well:
  /// a rule `hasChildren([…])` of a parent refuses a write to a child that leaves the parent
  /// incomplete. So they are asked here; of removals too, as long as something is left where they
  /// stand. A rule against removal belongs into `.write`.
  ///
  /// - Parameters:
  ///   - locations: what is written; in order, and such that none is below another, as in a `Write`.
  ///   - before: the root before.
  ///   - after: the root after the complete write, server values resolved.
  ///   - caller: who writes. `now` is the time that server values were resolved with.
  /// - Complexity: the rules on the way, O(depth × log siblings), and what is written. A rule that
  ///   several locations pass is asked once.
  public func judge(
    _ locations: [Location], before: Node, after: Node, as caller: RuleCaller
  ) -> Verdict {
    judge(locations[...], before: before, after: after, as: caller, trace: NoTrace()).verdict
  }

  /// Judges a write by what it comes to.
  public func judge(
    _ assignments: [Assignment], before: Node, after: Node, as caller: RuleCaller
  ) -> Verdict {
    let locations = assignments.lazy.map { $0.location }
    return judge(locations, before: before, after: after, as: caller, trace: NoTrace()).verdict
  }

  func judge<L: Sequence<Location>, T: Trace>(
    _ locations: L, before: Node, after: Node, as caller: RuleCaller, trace: T
  ) -> (verdict: Verdict, trace: T) {
    let evaluator = Evaluator(
      frozenProgram, caller: caller, query: nil, before: before, after: after, trace: trace)
    var judge = WriteJudge(tree: tree, evaluator: evaluator)
    let verdict = judge.judge(locations)
    return (verdict, judge.evaluator.trace)
  }
}
