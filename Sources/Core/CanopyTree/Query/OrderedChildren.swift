/// The children of a branch in an order.
///
/// By priority, the children without a priority come first, by key; the index holds the others.
///
/// - Complexity: O(1) to create in key order or with an index, else O(n log n). With an index, a rank
///   is found in O(log n), and in O(log² n) among the children without a priority.
struct OrderedChildren {
  private enum Form {
    case keys
    case index(SortedTree<Position>)
    case priorities(SortedTree<Position>, keys: SortedTree<IndexedKey>)
  }

  let children: Children
  private let order: Order
  private let form: Form

  /// Creates the order of a branch; nil if the node has no children.
  init?(_ order: Order, of node: Node) {
    guard let children = node.children else { return nil }
    self.children = children
    self.order = order
    if order == .key {
      form = .keys
      return
    }
    let existing = node.indexes.first { $0.order == order }
    if order == .priority {
      // Without the index, no child has a priority.
      if let existing, let keys = existing.keys, !keys.isEmpty {
        form = .priorities(existing.positions, keys: keys)
      } else {
        form = .keys
      }
    } else {
      form = .index((existing ?? OrderIndex(order, of: children)).positions)
    }
  }

  /// Returns the position of a child of this version.
  func position(of key: Key, _ node: Node) -> Position {
    if case .keys = form { return Position(value: .absent, key: key) }
    return Position(value: order.value(of: node), key: key)
  }

  /// Returns the number of positions that are below.
  ///
  /// - Precondition: `isBelow` is true for a prefix of the positions.
  func countPrefix(_ isBelow: (OrderValue, Key) -> Bool) -> Int {
    switch form {
    case .keys: return children.countPrefix { isBelow(.absent, $0) }
    case .index(let positions): return positions.countPrefix { isBelow($0.value, $0.key) }
    case .priorities(let positions, let keys):
      return children.countPrefix { isBelow(.absent, $0) }
        - keys.countPrefix { isBelow(.absent, $0) }
        + positions.countPrefix { isBelow($0.value, $0.key) }
    }
  }

  /// Returns the ranks of the children in a range.
  func ranks(in range: QueryRange) -> Range<Int> {
    let end = range.hasUpper ? countPrefix { !range.isAbove($0, $1) } : children.count
    let start = range.hasLower ? countPrefix { range.isBelow($0, $1) } : 0
    return start..<max(start, end)
  }

  /// Returns the position with `rank` positions before it, or nil.
  func position(atRank rank: Int) -> Position? {
    switch form {
    case .keys:
      return children.element(atRank: rank).map { Position(value: .absent, key: $0.key) }
    case .index(let positions): return positions.element(atRank: rank)
    case .priorities(let positions, let keys):
      let others = children.count - keys.count
      if rank >= others { return positions.element(atRank: rank - others) }
      return otherKey(atRank: rank, keys).map { Position(value: .absent, key: $0) }
    }
  }

  /// Visits the children in a range in order, until `body` returns false.
  func forEach(in range: QueryRange, _ body: (Key, Node) -> Bool) {
    let isBelow: ((Key) -> Bool)? = range.hasLower ? { range.isBelow(.absent, $0) } : nil
    func visitOther(_ child: Child) -> Bool {
      !range.isAbove(.absent, child.key) && body(child.key, child.node)
    }
    func visit(_ positions: SortedTree<Position>) {
      let isBelow: ((Position) -> Bool)? =
        range.hasLower ? { range.isBelow($0.value, $0.key) } : nil
      positions.forEach(from: isBelow) {
        !range.isAbove($0.value, $0.key) && body($0.key, children.node($0.key))
      }
    }
    switch form {
    case .keys: children.forEach(from: isBelow, visitOther)
    case .index(let positions): visit(positions)
    case .priorities(let positions, let keys):
      if forEachOther(keys, from: isBelow, visitOther) { visit(positions) }
    }
  }

  /// Visits the children in a range in reverse order, until `body` returns false.
  func forEachBackward(in range: QueryRange, _ body: (Key, Node) -> Bool) {
    let isAbove: ((Key) -> Bool)? = range.hasUpper ? { range.isAbove(.absent, $0) } : nil
    func visitOther(_ child: Child) -> Bool {
      !range.isBelow(.absent, child.key) && body(child.key, child.node)
    }
    func visit(_ positions: SortedTree<Position>) -> Bool {
      let isAbove: ((Position) -> Bool)? =
        range.hasUpper ? { range.isAbove($0.value, $0.key) } : nil
      return positions.forEachBackward(from: isAbove) {
        !range.isBelow($0.value, $0.key) && body($0.key, children.node($0.key))
      }
    }
    switch form {
    case .keys: children.forEachBackward(from: isAbove, visitOther)
    case .index(let positions): _ = visit(positions)
    case .priorities(let positions, let keys):
      if visit(positions) { forEachOtherBackward(keys, from: isAbove, visitOther) }
    }
  }
}

/// The children without a priority, in a branch in which others have one.
extension OrderedChildren {
  /// The number of successive children with a priority that a walk passes one by one. It then finds
  /// the next child without one by its rank, so a walk costs O(log² n) for each child it visits,
  /// however many have a priority.
  private static var passedMax: Int { 32 }

  /// Returns the number of children without a priority before a key.
  private func othersBefore(_ key: Key, _ keys: SortedTree<IndexedKey>) -> Int {
    children.countPrefix { $0 < key } - keys.countPrefix { $0 < key }
  }

  /// Returns the key of the child without a priority that has `rank` such children before it, or nil.
  private func otherKey(atRank rank: Int, _ keys: SortedTree<IndexedKey>) -> Key? {
    guard rank >= 0, rank < children.count - keys.count else { return nil }
    // The children with a priority before it are those with at most `rank` others before them.
    let passed = keys.countPrefix { othersBefore($0, keys) <= rank }
    return children.element(atRank: rank + passed)?.key
  }

  /// Visits the children without a priority by key, until `body` returns false.
  ///
  /// - Returns: whether the end was reached.
  private func forEachOther(
    _ keys: SortedTree<IndexedKey>, from isBelow: ((Key) -> Bool)?, _ body: (Child) -> Bool
  ) -> Bool {
    var start = isBelow
    while true {
      var passed = 0
      var last: Key?
      let isAtEnd = children.forEach(from: start) { child in
        guard child.node.isPrioritized else {
          passed = 0
          return body(child)
        }
        passed += 1
        if passed > Self.passedMax { last = child.key }
        return last == nil
      }
      guard let last else { return isAtEnd }
      guard let next = otherKey(atRank: othersBefore(last, keys), keys) else { return true }
      start = { $0 < next }
    }
  }

  /// Visits the children without a priority by key in reverse order, until `body` returns false.
  private func forEachOtherBackward(
    _ keys: SortedTree<IndexedKey>, from isAbove: ((Key) -> Bool)?, _ body: (Child) -> Bool
  ) {
    var start = isAbove
    while true {
      var passed = 0
      var last: Key?
      children.forEachBackward(from: start) { child in
        guard child.node.isPrioritized else {
          passed = 0
          return body(child)
        }
        passed += 1
        if passed > Self.passedMax { last = child.key }
        return last == nil
      }
      guard let last, let next = otherKey(atRank: othersBefore(last, keys) - 1, keys) else {
        return
      }
      start = { next < $0 }
    }
  }
}
