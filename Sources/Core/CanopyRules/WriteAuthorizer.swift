internal import CanopyTree

/// Evaluates the rules for the locations of a write.
///
/// Locations come in order, so those with a common prefix are adjacent, and each reuses the
/// evaluation of the prefix.
struct WriteAuthorizer<T: Trace> {
  let tree: RuleTree
  var evaluator: Evaluator<T>

  /// The nodes on the path: the index in the rule tree, and whether a write is granted there.
  private var entered: [(node: Int32, isGranted: Bool)] = []

  init(tree: RuleTree, evaluator: Evaluator<T>) {
    self.tree = tree
    self.evaluator = evaluator
    entered.reserveCapacity(9)
  }

  mutating func authorize(_ locations: some Sequence<Location>) -> Verdict {
    for location in locations {
      // Evaluate the root's rules only if the write has a location.
      let denial = (entered.isEmpty ? enter(0, isGranted: false) : nil) ?? authorize(location)
      // Rules that ran out of steps decide nothing about the write.
      if evaluator.isExhausted { return .denied(.tooManySteps) }
      if let denial { return .denied(denial) }
    }
    return .allowed
  }

  private mutating func authorize(_ location: Location) -> Denial? {
    let keys = location.path.keys
    evaluator.charge(1 + keys.count)
    var depth = 0
    while depth < keys.count, depth < evaluator.keys.count, keys[depth] == evaluator.keys[depth] {
      depth += 1
    }
    evaluator.pop(to: depth)
    entered.removeLast(entered.count - depth - 1)
    while depth < keys.count {
      let (node, isGranted) = entered[depth]
      let next = tree.child(keys[depth], of: node)
      // Below the nodes of the file, nothing is granted or checked that was not above.
      guard next >= 0 else { break }
      evaluator.push(keys[depth])
      depth += 1
      if let denial = enter(next, isGranted: isGranted) { return denial }
    }
    let (node, isGranted) = entered[depth]
    guard isGranted else { return .notGranted(.write, at: location.path) }
    guard depth == keys.count, !location.isPriority else { return nil }
    return validateBelow(node)
  }

  /// Evaluates the rules of the node at the current location.
  private mutating func enter(_ index: Int32, isGranted: Bool) -> Denial? {
    let node = tree.nodes[Int(index)]
    let isGranted = isGranted || (node.write >= 0 && evaluator.holds(node.write))
    entered.append((index, isGranted))
    return validate(node)
  }

  private mutating func validate(_ node: RuleTree.RuleNode) -> Denial? {
    if evaluator.isExhausted { return .tooManySteps }
    guard node.validate >= 0, !evaluator.newData.isAbsent, !evaluator.holds(node.validate) else {
      return nil
    }
    let rule = tree.path(of: evaluator.program.rules[Int(node.validate)])
    return .invalid(rule: rule, at: evaluator.keys.reduce(.root) { $0.child($1) })
  }

  /// Evaluates the `.validate` rules below the current location, for the written data.
  private mutating func validateBelow(_ index: Int32) -> Denial? {
    let node = tree.nodes[Int(index)]
    guard node.validatesBelow, evaluator.newData.isBranch else { return nil }
    var denial: Denial?
    if node.wildcard < 0 {
      // Only named children have rules, however many others there are.
      for i in node.firstChild..<node.firstChild + node.childCount where denial == nil {
        let child = tree.children[Int(i)]
        evaluator.charge(1)
        denial = validateChild(child.key, child.node)
      }
    } else {
      evaluator.newData.forEachChild { key, _ in
        evaluator.charge(1)
        denial = validateChild(key, tree.child(key, of: index))
        return denial == nil && !evaluator.isExhausted
      }
    }
    return denial
  }

  private mutating func validateChild(_ key: Key, _ index: Int32) -> Denial? {
    let node = tree.nodes[Int(index)]
    guard node.validate >= 0 || node.validatesBelow else { return nil }
    let depth = evaluator.keys.count
    evaluator.push(key)
    defer { evaluator.pop(to: depth) }
    return validate(node) ?? validateBelow(index)
  }
}
