internal import CanopyTree

extension Evaluator {
  /// Returns the node of a snapshot.
  mutating func node(_ index: Int32) throws(RuleFailure) -> Node {
    let snapshot = program.snapshots[Int(index)]
    if T.lacksData, !trace.knows(snapshot.base) { throw RuleFailure(-1, .unknownData) }
    if snapshot.mustCollect { return try collect(snapshot) }
    let depth = snapshot.base == .root ? 0 : keys.count
    guard snapshot.up <= depth else { throw RuleFailure(-1, .noParent) }
    let base = depth - Int(snapshot.up)
    var node = snapshot.base == .newData ? after[base] : before[base]
    var visited = T.recordsReads ? Array(keys.prefix(base)) : []
    defer { if T.recordsReads { trace.visit(visited) } }
    for i in snapshot.firstStep..<snapshot.firstStep + snapshot.stepCount {
      let step = program.steps[Int(i)]
      switch step.kind {
      case .key:
        try spend(node.lookupSteps, -1)
        node = node.child(program.keys[Int(step.index)])
        if T.recordsReads { visited.append(program.keys[Int(step.index)]) }
      case .path: node = try descend(from: node, step.index, &visited)
      case .up, .nowhere: return .absent
      }
    }
    return node
  }

  /// Returns the node at the path that an operation returns, below `node`. A path with an invalid
  /// key or without keys gives an absent node.
  ///
  /// - Parameter visited: the keys so far, if the trace records locations.
  private mutating func descend(
    from node: Node, _ operation: Int32, _ visited: inout [Key]
  ) throws(RuleFailure) -> Node {
    switch try value(operation) {
    case .key(let key):
      if T.recordsReads { visited.append(key) }
      try spend(node.lookupSteps, operation)
      return node.child(key)
    case .string(let text):
      try spend(text.utf8.count / StepCost.bytesOfPath + node.lookupSteps, operation)
      if !text.utf8.contains(UInt8(ascii: "/")) {
        guard let key = try? Key(text) else { return .absent }
        if T.recordsReads { visited.append(key) }
        return node.child(key)
      }
      guard let path = try? Path(text), !path.isRoot else { return .absent }
      if T.recordsReads { visited += path.keys }
      var node = node
      for key in path.keys {
        try spend(node.lookupSteps, operation)
        node = node.child(key)
      }
      return node
    case let value:
      throw RuleFailure(operation, .expected("a string", found: value))
    }
  }

  /// Returns the node of a snapshot that calls `parent()` after a computed `child(…)`. Collects the
  /// keys first, because going up needs them.
  private mutating func collect(_ snapshot: Program.Snapshot) throws(RuleFailure) -> Node {
    let depth = snapshot.base == .root ? 0 : keys.count
    guard snapshot.up <= depth else { throw RuleFailure(-1, .noParent) }
    var visited: [Key?] = keys.prefix(depth - Int(snapshot.up)).map { $0 }
    for i in snapshot.firstStep..<snapshot.firstStep + snapshot.stepCount {
      let step = program.steps[Int(i)]
      switch step.kind {
      case .key: visited.append(program.keys[Int(step.index)])
      case .nowhere: visited.append(nil)
      case .up:
        guard visited.popLast() != nil else { throw RuleFailure(-1, .noParent) }
      case .path:
        let text = try string(step.index)
        try spend(text.utf8.count / StepCost.bytesOfPath, step.index)
        if let path = try? Path(text), !path.isRoot {
          visited.append(contentsOf: path.keys)
        } else {
          visited.append(nil)
        }
      }
    }
    if T.recordsReads { trace.visit(visited.prefix { $0 != nil }.compactMap { $0 }) }
    var node = snapshot.base == .newData ? after[0] : before[0]
    for key in visited {
      guard let key else { return .absent }
      try spend(node.lookupSteps, -1)
      node = node.child(key)
    }
    return node
  }
}
