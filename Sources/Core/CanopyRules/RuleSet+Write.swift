public import CanopyTree

extension RuleSet {
  /// Returns the verdict of the rules on a write as a whole.
  ///
  /// A `.write` rule from the root down to each location must grant it. Then every applicable
  /// `.validate` must hold: on the path to the location, at it, and below it for all written data;
  /// each only where the new node is not absent.
  ///
  /// Firebase's documentation requires validate rules at all levels of the hierarchy, and a
  /// simulator that was compared with its server also evaluates those above a location: a rule
  /// `hasChildren([…])` of a parent refuses a write to a child that leaves the parent incomplete.
  /// Canopy does the same, also for removals, as long as the parent is not empty. A rule against
  /// removal belongs into `.write`.
  ///
  /// - Parameters:
  ///   - locations: the written locations; in order, none below another, as in a `Write`.
  ///   - before: the root before the write.
  ///   - after: the root after the complete write, with server values resolved.
  ///   - caller: the writer; `now` is the time that server values were resolved with.
  /// - Complexity: the rules on the paths, O(depth × log siblings), and the written data. A rule on
  ///   the path of several locations is evaluated once.
  public func authorize(
    _ locations: [Location], before: Node, after: Node, as caller: RuleCaller
  ) -> Verdict {
    authorize(locations[...], before: before, after: after, as: caller, trace: NoTrace()).verdict
  }

  /// Returns the verdict of the rules on a write, from its assignments.
  public func authorize(
    _ assignments: [Assignment], before: Node, after: Node, as caller: RuleCaller
  ) -> Verdict {
    let locations = assignments.lazy.map { $0.location }
    return authorize(locations, before: before, after: after, as: caller, trace: NoTrace()).verdict
  }

  /// Whether the rules deny a write for a reason that the written data cannot change. Then `authorize` denies it as well,
  /// and the write need not be applied to find that out.
  ///
  /// The `.write` rules are asked, and for each location that gets a value the `.validate` rules on the path to it. A rule
  /// that reads `newData` is taken to hold, as long as it has not failed before it does so.
  ///
  /// - Parameters:
  ///   - before: the root before the write; nil if it is not known. Then rules that read data or the time are taken to
  ///     hold as well, and the answer is the same at any time.
  /// - Complexity: the rules on the paths up to the location that is denied, O(depth × log siblings) each.
  public func denies(_ write: Write, before: Node?, as caller: RuleCaller) -> Bool {
    denies(targets(of: write), before: before, as: caller)
  }

  /// Whether the rules deny a write for a reason that neither the written data nor the present data can change, as far as
  /// a few steps of the rules show that.
  ///
  /// - Parameter stepsMax: the most steps.
  /// - Returns: nil if the rules take more steps.
  public func denies(_ write: Write, as caller: RuleCaller, stepsMax: Int) -> Bool? {
    var authorizer = EarlyAuthorizer(
      tree: tree, frozenProgram, before: nil, caller: caller,
      stepsMax: min(stepsMax, RuleLimits.stepsMax))
    let isDenied = targets(of: write).contains { authorizer.denies($0.location, isSet: $0.isSet) }
    return authorizer.isExhausted ? nil : isDenied
  }

  /// Whether the `.write` rules deny a write to some locations for a reason that the written data cannot change.
  func denies(
    _ locations: some Sequence<Location>, before: Node?, as caller: RuleCaller
  ) -> Bool {
    denies(locations.map { (location: $0, isSet: false) }, before: before, as: caller)
  }

  private func denies(
    _ targets: some Sequence<(location: Location, isSet: Bool)>, before: Node?,
    as caller: RuleCaller
  ) -> Bool {
    var authorizer = EarlyAuthorizer(tree: tree, frozenProgram, before: before, caller: caller)
    return targets.contains { authorizer.denies($0.location, isSet: $0.isSet) }
  }

  /// The locations of a write, in order, and whether each has a value after it.
  private func targets(
    of write: Write
  ) -> some Sequence<(location: Location, isSet: Bool)> {
    write.assignments.indices.lazy.map { index in
      let location = write.assignments[index].location
      return (location, !location.isPriority && write.setsValue(at: index))
    }
  }

  func authorize<L: Sequence<Location>, T: Trace>(
    _ locations: L, before: Node, after: Node, as caller: RuleCaller, trace: T
  ) -> (verdict: Verdict, trace: T) {
    let evaluator = Evaluator(
      frozenProgram, caller: caller, query: nil, before: before, after: after, trace: trace)
    var authorizer = WriteAuthorizer(tree: tree, evaluator: evaluator)
    let verdict = authorizer.authorize(locations)
    return (verdict, authorizer.evaluator.trace)
  }
}
