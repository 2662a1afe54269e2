extension Query {
  /// Returns the children that the query selects, in its order. A leaf has none.
  ///
  /// - Complexity: O(log n + result) in key order, and if the location keeps the index; else O(n
  ///   log n): see `isIndexed`.
  public func children(of node: Node) -> [(key: Key, node: Node)] {
    guard let children = node.children else { return [] }
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
    result.reserveCapacity(min(remaining, children.count))
    walk(node, children, isBackward: isBackward) { key, node in
      result.append((key, node))
      remaining -= 1
      return remaining > 0
    }
    if isBackward { result.reverse() }
    return result
  }

  /// Returns the number of children that the query selects.
  ///
  /// - Complexity: O(log n) in key order and with an index; else O(n log n).
  public func count(in node: Node) -> Int {
    guard let children = node.children else { return 0 }
    let range = QueryRange(self)
    let inRange: Int
    if followsKeys(node) {
      inRange = QueryRange.count(children, range) { (.absent, $0) }
    } else {
      let positions = self.positions(of: node, children)
      inRange = QueryRange.count(positions, range) { ($0.value, $0.key) }
    }
    switch limit {
    case .first(let n), .last(let n): return min(n, inRange)
    case nil: return inRange
    }
  }

  /// Whether the location keeps the index that the query needs, so that its cost is that of its
  /// result.
  public func isIndexed(in node: Node) -> Bool {
    followsKeys(node) || !node.isBranch || node.indexes.contains { $0.order == order }
  }

  /// Whether the query's order is key order: by key; and by priority if no child has one.
  func followsKeys(_ node: Node) -> Bool {
    switch order {
    case .key: true
    case .priority: !node.indexes.contains { $0.order == .priority }
    default: false
    }
  }

  func positions(of node: Node, _ children: Children) -> SortedTree<Position> {
    let index = node.indexes.first { $0.order == order } ?? OrderIndex(order, of: children)
    return index.positions
  }

  private func walk(
    _ node: Node, _ children: Children, isBackward: Bool, _ body: (Key, Node) -> Bool
  ) {
    let range = QueryRange(self)
    if followsKeys(node) {
      if isBackward {
        let isAbove = range.hasUpper ? { range.isAbove(.absent, $0) } : nil
        children.forEachBackward(from: isAbove) {
          !range.isBelow(.absent, $0.key) && body($0.key, $0.node)
        }
      } else {
        let isBelow = range.hasLower ? { range.isBelow(.absent, $0) } : nil
        children.forEach(from: isBelow) {
          !range.isAbove(.absent, $0.key) && body($0.key, $0.node)
        }
      }
      return
    }
    let positions = self.positions(of: node, children)
    func visit(_ position: Position) -> Bool {
      body(position.key, children.find(position.key)?.node ?? .absent)
    }
    if isBackward {
      let isAbove = range.hasUpper ? { (p: Position) in range.isAbove(p.value, p.key) } : nil
      positions.forEachBackward(from: isAbove) { !range.isBelow($0.value, $0.key) && visit($0) }
    } else {
      let isBelow = range.hasLower ? { (p: Position) in range.isBelow(p.value, p.key) } : nil
      positions.forEach(from: isBelow) { !range.isAbove($0.value, $0.key) && visit($0) }
    }
  }
}

extension QueryRange {
  /// Returns the number of elements in the range.
  ///
  /// - Complexity: O(log n).
  fileprivate static func count<E: SortedElement>(
    _ tree: SortedTree<E>, _ range: QueryRange, _ position: (E.SortKey) -> (OrderValue, Key)
  ) -> Int {
    let end =
      range.hasUpper
      ? tree.countPrefix {
        let (value, key) = position($0)
        return !range.isAbove(value, key)
      } : tree.count
    let start =
      range.hasLower
      ? tree.countPrefix {
        let (value, key) = position($0)
        return range.isBelow(value, key)
      } : 0
    return max(0, end - start)
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
