internal import CanopyTree

extension Evaluator {
  /// The node that a snapshot stands for.
  mutating func node(_ index: Int32) throws(RuleFailure) -> Node {
    let snapshot = program.snapshots[Int(index)]
    if snapshot.mustCollect { return try collect(snapshot) }
    let depth = snapshot.base == .root ? 0 : keys.count
    guard snapshot.up <= depth else { throw RuleFailure(-1, .noParent) }
    let base = depth - Int(snapshot.up)
    var node = snapshot.base == .newData ? after[base] : before[base]
    var way = T.notesPlaces ? Array(keys.prefix(base)) : []
    defer { if T.notesPlaces { trace.visit(way) } }
    for i in snapshot.firstStep..<snapshot.firstStep + snapshot.stepCount {
      let step = program.steps[Int(i)]
      switch step.kind {
      case .key:
        try spend(node.lookupSteps, -1)
        node = node.child(program.keys[Int(step.index)])
        if T.notesPlaces { way.append(program.keys[Int(step.index)]) }
      case .path: node = try descend(from: node, step.index, &way)
      case .up, .nowhere: return .absent
      }
    }
    return node
  }

  /// Goes down the path that an operation comes to. A path with a key that is none leads nowhere.
  ///
  /// - Parameter way: the keys so far, where somebody wants to know.
  private mutating func descend(
    from node: Node, _ operation: Int32, _ way: inout [Key]
  ) throws(RuleFailure) -> Node {
    switch try value(operation) {
    case .key(let key):
      if T.notesPlaces { way.append(key) }
      try spend(node.lookupSteps, operation)
      return node.child(key)
    case .string(let text):
      try spend(text.utf8.count / StepCost.bytesOfPath + node.lookupSteps, operation)
      if !text.utf8.contains(UInt8(ascii: "/")) {
        guard let key = try? Key(text) else { return .absent }
        if T.notesPlaces { way.append(key) }
        return node.child(key)
      }
      guard let path = try? Path(text) else { return .absent }
      if T.notesPlaces { way += path.keys }
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

  /// The slow way, for `….child(<not written out>).parent()`: the keys must be known to go up.
  private mutating func collect(_ snapshot: Program.Snapshot) throws(RuleFailure) -> Node {
    let depth = snapshot.base == .root ? 0 : keys.count
    guard snapshot.up <= depth else { throw RuleFailure(-1, .noParent) }
    var way: [Key?] = keys.prefix(depth - Int(snapshot.up)).map { $0 }
    for i in snapshot.firstStep..<snapshot.firstStep + snapshot.stepCount {
      let step = program.steps[Int(i)]
      switch step.kind {
      case .key: way.append(program.keys[Int(step.index)])
      case .nowhere: way.append(nil)
      case .up:
        guard way.popLast() != nil else { throw RuleFailure(-1, .noParent) }
      case .path:
        let text = try string(step.index)
        try spend(text.utf8.count / StepCost.bytesOfPath, step.index)
        if let path = try? Path(text) {
          way.append(contentsOf: path.keys)
        } else {
          way.append(nil)
        }
      }
    }
    if T.notesPlaces { trace.visit(way.prefix { $0 != nil }.compactMap { $0 }) }
    var node = snapshot.base == .newData ? after[0] : before[0]
    for key in way {
      guard let key else { return .absent }
      try spend(node.lookupSteps, -1)
      node = node.child(key)
    }
    return node
  }
}
