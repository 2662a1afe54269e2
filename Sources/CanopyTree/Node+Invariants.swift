extension Node {
  /// What is wrong with the structure of a node; nil if nothing is. O(size × log), for tests and
  /// `canopy verify`.
  public func brokenInvariant() -> String? {
    switch storage {
    case .absent, .bool, .string: return nil
    case .integer: return nil
    case .double(let value):
      if !value.isFinite { return "a number is not finite" }
      return Int64(exactly: value) == nil ? nil : "an integer is a double"
    case .branch(let children):
      return check(children, [])
    case .record(let record):
      return check(record)
    case .indexed(let box):
      return check(box.children, box.indexes)
    case .prioritized(let box):
      if box.node.isAbsent || box.node.isPrioritized { return "a priority of nothing, or two" }
      switch box.priority.value {
      case .integer, .double, .string: return box.node.brokenInvariant()
      default: return "a priority is no number or string"
      }
    }
  }

  private func check(_ record: Record) -> String? {
    let read = record.withText { text in try? WriteValue(json: text, limits: .none).node.record }
    guard let read, read.hasSameText(as: record), read.childCount == record.childCount else {
      return "the text of a record is not what would be written"
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
      if index.positions.count != children.count { problem = "an index has not all children" }
      index.positions.forEach { position in
        guard let child = children.find(position.key),
          index.order.value(of: child.node) == position.value
        else {
          problem = "an index has a stale position"
          return false
        }
        return true
      }
    }
    return problem
  }
}
