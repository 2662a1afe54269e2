extension Query {
  /// Returns the children that the query selects, in its order. A leaf has none.
  ///
  /// - Complexity: O(log n + result) in key order, and if the location keeps the index; else O(n
  ///   log n): see `isIndexed`. By priority, O(log² n) for each child without a priority, if most of
  ///   its siblings have one.
  public func children(of node: Node) -> [(key: Key, node: Node)] {
    guard let ordered = OrderedChildren(order, of: node) else { return [] }
    var result: [(key: Key, node: Node)] = []
    var remaining = Int.max
    var isBackward = false
    switch limit {
    case .first(let n): remaining = n
    case .last(let n):
      remaining = n
      isBackward = true
    case nil: break
    }
    result.reserveCapacity(min(remaining, ordered.children.count))
    func add(_ key: Key, _ node: Node) -> Bool {
      result.append((key, node))
      remaining -= 1
      return remaining > 0
    }
    if isBackward {
      ordered.forEachBackward(in: QueryRange(self), add)
      result.reverse()
    } else {
      ordered.forEach(in: QueryRange(self), add)
    }
    return result
  }

  /// Visits the children that the query selects, in its order, until `body` returns false. A leaf has
  /// none. Nothing is collected.
  ///
  /// - Returns: whether all were visited.
  /// - Complexity: that of `children(of:)`, for the children visited.
  @discardableResult
  public func forEachChild(of node: Node, _ body: (Key, Node) -> Bool) -> Bool {
    guard let ordered = OrderedChildren(order, of: node) else { return true }
    var range = QueryRange(self)
    var remaining = Int.max
    switch limit {
    case .first(let n): remaining = n
    case .last(let n):
      let ranks = ordered.ranks(in: range)
      if ranks.count > n, let first = ordered.position(atRank: ranks.upperBound - n) {
        range.begin(at: first)
      }
    case nil: break
    }
    var isWanted = true
    ordered.forEach(in: range) { key, node in
      isWanted = body(key, node)
      remaining -= 1
      return isWanted && remaining > 0
    }
    return isWanted
  }

  /// Returns the number of children that the query selects.
  ///
  /// - Complexity: O(log n) in key order and with an index; else O(n log n).
  public func count(in node: Node) -> Int {
    guard let ordered = OrderedChildren(order, of: node) else { return 0 }
    let inRange = ordered.ranks(in: QueryRange(self)).count
    switch limit {
    case .first(let n), .last(let n): return min(n, inRange)
    case nil: return inRange
    }
  }

  /// Whether the location keeps the index that the query needs, so that its cost is that of its
  /// result. By priority it always does, but see `passesChildren`.
  public func isIndexed(in node: Node) -> Bool {
    followsKeys(node) || !node.isBranch || node.indexes.contains { $0.order == order }
  }

  /// Whether the query may pass children that it does not select, because some children have a priority and others have
  /// none. Then each selected child may cost as much as some tens of children.
  public func passesChildren(in node: Node) -> Bool {
    guard order == .priority else { return false }
    return node.indexes.contains {
      $0.order == .priority && !$0.positions.isEmpty && $0.positions.count < node.childCount
    }
  }

  /// Whether the query's order is key order: by key; and by priority if no child has one.
  func followsKeys(_ node: Node) -> Bool {
    switch order {
    case .key: true
    case .priority: !node.indexes.contains { $0.order == .priority && !$0.positions.isEmpty }
    default: false
    }
  }
}

extension Query {
  /// Whether the location keeps the index that queries in this order need.
  public static func isIndexed(by order: Order, _ node: Node) -> Bool {
    var query = Query.all
    query.order = order
    return query.isIndexed(in: node)
  }
}
