extension Node {
  /// Returns a description of the first violated structural invariant; nil if there is none. For
  /// tests and `canopy verify`.
  ///
  /// - Complexity: O(size × log).
  public func brokenInvariant() -> String? {
    switch storage {
    case .absent, .bool, .string: return nil
    case .integer: return nil
    case .double(let value):
      if !value.isFinite { return "a number is not finite" }
      return Int64(exactly: value) == nil ? nil : "an integer is a double"
    case .branch(let children):
      return check(children, [])
    case .packed(let packed):
      return check(packed)
    case .indexed(let box):
      return check(box.children, box.indexes)
    case .prioritized(let box):
      if box.node.isAbsent { return "a priority of an absent node" }
      if box.node.isPrioritized { return "two priorities of a node" }
      switch box.priority.value {
      case .integer, .double, .string: return box.node.brokenInvariant()
      default: return "a priority is neither a number nor a string"
      }
    }
  }

  private func check(_ packed: PackedBranch) -> String? {
    let read = packed.withText { text in try? WriteValue(json: text, limits: .none).node.packed }
    guard let read, read.hasSameText(as: packed), read.childCount == packed.childCount else {
      return "the text of a packed branch is not the one that would be written"
    }
    return nil
  }

  private func check(_ children: Children, _ indexes: [OrderIndex]) -> String? {
    if children.isEmpty { return "a branch is empty" }
    if let problem = children.brokenInvariant() { return problem }
    var problem: String?
    children.forEach { child in
      if child.node.isAbsent { problem = "a child is absent" }
      if child.node.isPrioritized, !indexes.contains(where: { $0.order == .priority }) {
        problem = "a child has a priority and there is no index for it"
      }
      problem = problem ?? child.node.brokenInvariant()
      return problem == nil
    }
    for index in indexes where problem == nil {
      problem = index.positions.brokenInvariant()
      var held = 0
      children.forEach {
        if index.order != .priority || $0.node.isPrioritized { held += 1 }
        return true
      }
      if index.positions.count != held || !index.isComplete(for: children) {
        problem = "an index lacks a child"
      }
      problem = problem ?? index.keys?.brokenInvariant()
      index.positions.forEach { position in
        guard let child = children.find(position.key),
          index.order.value(of: child.node) == position.value
        else {
          problem = "an index has a stale position"
          return false
        }
        if let keys = index.keys, keys.find(position.key) == nil {
          problem = "an index lacks the key of a position"
        }
        return problem == nil
      }
    }
    return problem
  }
}
