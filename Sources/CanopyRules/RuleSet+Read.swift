public import CanopyTree

extension RuleSet {
  /// Whether a location may be read: whether some `.read` from the root down to it holds.
  ///
  /// - Parameters:
  ///   - path: the location.
  ///   - query: what is wanted of it; nil for all. Rules see it as `query`.
  ///   - root: the tree.
  /// - Complexity: O(depth × log siblings), and the rules on the way.
  public func mayRead(
    _ path: Path, _ query: Query? = nil, in root: Node, as caller: RuleCaller
  ) -> Bool {
    var evaluator = Evaluator(
      program, caller: caller, query: query, before: root, after: root, trace: NoTrace())
    return evaluator.reads(path, in: tree)
  }

  /// As `mayRead`, with what the answer depends on: as long as nothing is written at, above or below
  /// these places, it stays the same for this caller. Costs a little more.
  public func judgeRead(
    _ path: Path, _ query: Query? = nil, in root: Node, as caller: RuleCaller
  ) -> ReadVerdict {
    let trace = PlacesTrace()
    var evaluator = Evaluator(
      program, caller: caller, query: query, before: root, after: root, trace: trace)
    let isAllowed = evaluator.reads(path, in: tree)
    return ReadVerdict(
      isAllowed: isAllowed, places: trace.places, dependsOnTime: trace.dependsOnTime)
  }
}

/// Whether something may be read, and how long that stays so.
public struct ReadVerdict: Equatable, Sendable {
  /// Whether it may.
  public var isAllowed: Bool
  /// Where rules looked into the tree. None: the answer is the same whatever the tree holds.
  public var places: [Path]
  /// Whether rules asked for the time.
  public var dependsOnTime: Bool
}

extension Evaluator {
  /// Whether some `.read` on the way holds. Deeper rules are asked only when those above did not
  /// grant: they cannot take anything back.
  mutating func reads(_ path: Path, in tree: RuleTree) -> Bool {
    var place: Int32 = 0
    var rest = path.keys[...]
    while true {
      let rule = tree.places[Int(place)].read
      if rule >= 0, holds(rule) { return true }
      guard let key = rest.popFirst() else { return false }
      place = tree.child(key, of: place)
      guard place >= 0 else { return false }
      pushUnchanged(key)
    }
  }
}
