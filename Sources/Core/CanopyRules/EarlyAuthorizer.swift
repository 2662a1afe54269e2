internal import CanopyTree

/// Evaluates the rules for the locations of a write that is not applied, as far as they do not depend on it: the `.write`
/// rules, and for each location that is set to a value the `.validate` rules on the path to it.
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
  /// - Parameters:
  ///   - before: the root before the write; nil if it is not known.
  ///   - stepsMax: the most steps.
  init(
    tree: RuleTree, _ program: Frozen<Program>, before: Node?, caller: RuleCaller,
    stepsMax: Int = RuleLimits.stepsMax
  ) {
    self.tree = tree
    trace = PartialDataTrace(knowsBefore: before != nil)
    let root = before ?? .absent
    evaluator = Evaluator(
      program, caller: caller, query: nil, before: root, after: root, trace: trace,
      stepsMax: stepsMax)
  }

  /// Whether the write has used more steps than it may.
  var isExhausted: Bool { evaluator.isExhausted }

  /// Whether the rules deny a write to a location for any value. The locations come in order.
  ///
  /// - Parameter isSet: whether the location has a value after the write. Then every branch above it has one too.
  mutating func denies(_ location: Location, isSet: Bool) -> Bool {
    if entered.isEmpty, !enter(0, mayBeGranted: false, isSet: isSet) { return true }
    return !isPossible(location, isSet: isSet) || evaluator.isExhausted
  }

  private mutating func isPossible(_ location: Location, isSet: Bool) -> Bool {
    let keys = location.path.keys
    evaluator.charge(1 + keys.count)
    var depth = 0
    while depth < keys.count, depth < evaluator.keys.count, keys[depth] == evaluator.keys[depth] {
      depth += 1
    }
    evaluator.pop(to: depth)
    entered.removeLast(entered.count - depth - 1)
    while isSet || !entered[depth].mayBeGranted, depth < keys.count {
      let next = tree.child(keys[depth], of: entered[depth].node)
      guard next >= 0 else { break }
      evaluator.pushUnchanged(keys[depth])
      let mayBeGranted = entered[depth].mayBeGranted
      depth += 1
      guard enter(next, mayBeGranted: mayBeGranted, isSet: isSet) else { return false }
    }
    return entered[depth].mayBeGranted
  }

  /// Evaluates the rules of the node at the current location. Returns false if its `.validate` rule denies the write.
  private mutating func enter(_ index: Int32, mayBeGranted: Bool, isSet: Bool) -> Bool {
    let node = tree.nodes[Int(index)]
    entered.append((index, mayBeGranted || mayHold(node.write)))
    return !isSet || node.validate < 0 || mayHold(node.validate)
  }

  private mutating func mayHold(_ rule: Int32) -> Bool {
    rule >= 0 && (evaluator.holds(rule) || trace.wasUndecided)
  }
}
