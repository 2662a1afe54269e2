internal import CanopyTree

/// Evaluates the `.write` rules for the locations of a write that is not applied, as far as they do not depend on it.
///
/// Takes at most the steps that `WriteAuthorizer` takes, so a write that runs out of them here does so there as well.
/// As there, adjacent locations share the evaluation of their prefix.
struct EarlyAuthorizer {
  private let tree: RuleTree
  private let trace: PartialDataTrace
  private var evaluator: Evaluator<PartialDataTrace>

  /// The nodes on the path: the index in the rule tree, and whether a write may be granted there.
  private var entered: [(node: Int32, mayBeGranted: Bool)] = []

  /// Creates an authorizer.
  ///
  /// - Parameter before: the root before the write; nil if it is not known.
  init(tree: RuleTree, _ program: Frozen<Program>, before: Node?, caller: RuleCaller) {
    self.tree = tree
    trace = PartialDataTrace(knowsBefore: before != nil)
    let root = before ?? .absent
    evaluator = Evaluator(
      program, caller: caller, query: nil, before: root, after: root, trace: trace)
  }

  /// Whether one of the locations is denied, whatever is written.
  mutating func denies(_ locations: some Sequence<Location>) -> Bool {
    for location in locations {
      if entered.isEmpty { enter(0) }
      if !mayBeGranted(location) || evaluator.isExhausted { return true }
    }
    return false
  }

  private mutating func mayBeGranted(_ location: Location) -> Bool {
    let keys = location.path.keys
    evaluator.charge(1 + keys.count)
    var depth = 0
    while depth < keys.count, depth < evaluator.keys.count, keys[depth] == evaluator.keys[depth] {
      depth += 1
    }
    evaluator.pop(to: depth)
    entered.removeLast(entered.count - depth - 1)
    while !entered[depth].mayBeGranted, depth < keys.count {
      let next = tree.child(keys[depth], of: entered[depth].node)
      guard next >= 0 else { break }
      evaluator.pushUnchanged(keys[depth])
      depth += 1
      enter(next)
    }
    return entered[depth].mayBeGranted
  }

  /// Evaluates the `.write` rule of the node at the current location.
  private mutating func enter(_ index: Int32) {
    let rule = tree.nodes[Int(index)].write
    let holds = rule >= 0 && (evaluator.holds(rule) || trace.wasUndecided)
    entered.append((index, holds))
  }
}
