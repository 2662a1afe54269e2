/// The result of a query on one version of a location: a run of its children in the query's order.
///
/// Represented by ranks, without walking the children.
///
/// - Complexity: O(log n) to create, to test a child, and to find a neighbour, if the location
///   keeps the index; else O(n log n) to create.
struct QueryWindow {
  private let order: Order
  private let children: Children
  /// The positions in the query's order; nil in key order.
  private let positions: SortedTree<Position>?
  /// The ranks of the selected children among all children.
  let ranks: Range<Int>
  private let ends: (first: Position, last: Position)?

  init(_ query: Query, of node: Node) {
    order = query.order
    guard let children = node.children else {
      self.children = Children()
      positions = nil
      ranks = 0..<0
      ends = nil
      return
    }
    self.children = children
    let positions = query.followsKeys(node) ? nil : query.positions(of: node, children)
    self.positions = positions
    let range = QueryRange(query)
    let start = QueryWindow.countPrefix(children, positions) { range.isBelow($0, $1) }
    let end = QueryWindow.countPrefix(children, positions) { !range.isAbove($0, $1) }
    switch query.limit {
    case _ where end <= start: ranks = 0..<0
    case .first(let n): ranks = start..<start + min(n, end - start)
    case .last(let n): ranks = end - min(n, end - start)..<end
    case nil: ranks = start..<end
    }
    assert(ranks.upperBound <= children.count, "a rank is out of range")
    if let first = QueryWindow.position(children, positions, ranks.lowerBound), !ranks.isEmpty,
      let last = QueryWindow.position(children, positions, ranks.upperBound - 1)
    {
      ends = (first, last)
    } else {
      ends = nil
    }
  }

  private static func countPrefix(
    _ children: Children, _ positions: SortedTree<Position>?, _ body: (OrderValue, Key) -> Bool
  ) -> Int {
    positions?.countPrefix { body($0.value, $0.key) } ?? children.countPrefix { body(.absent, $0) }
  }

  private static func position(
    _ children: Children, _ positions: SortedTree<Position>?, _ rank: Int
  ) -> Position? {
    if let positions { return positions.element(atRank: rank) }
    return children.element(atRank: rank).map { Position(value: .absent, key: $0.key) }
  }

  /// Returns the position of a child in the order of this version.
  func position(of key: Key, _ node: Node) -> Position {
    Position(value: positions == nil ? .absent : order.value(of: node), key: key)
  }

  /// Whether the window contains a child of this version at a position.
  func contains(_ position: Position) -> Bool {
    guard let ends else { return false }
    return !(position < ends.first) && !(ends.last < position)
  }

  /// Returns the key of the selected child before a position.
  func previous(to position: Position) -> Key? {
    let rank =
      positions?.countPrefix { $0 < position } ?? children.countPrefix { $0 < position.key }
    guard rank > ranks.lowerBound else { return nil }
    return QueryWindow.position(children, positions, min(rank, ranks.upperBound) - 1)?.key
  }

  /// Returns the children in this window that would be outside another version's window if they
  /// were unchanged.
  ///
  /// - Complexity: O(log n + their number).
  func outside(_ other: QueryWindow) -> [(position: Position, node: Node)] {
    var result: [(Position, Node)] = []
    var low = ranks.lowerBound
    while low < ranks.upperBound, let entry = entry(low), other.isBefore(entry.position) {
      result.append(entry)
      low += 1
    }
    var high = ranks.upperBound
    while high > low, let entry = entry(high - 1), other.isAfter(entry.position) {
      result.append(entry)
      high -= 1
    }
    return result
  }

  private func entry(_ rank: Int) -> (position: Position, node: Node)? {
    guard let position = QueryWindow.position(children, positions, rank) else { return nil }
    return (position, children.find(position.key)?.node ?? .absent)
  }

  private func isBefore(_ position: Position) -> Bool {
    ends.map { position < $0.first } ?? true
  }

  private func isAfter(_ position: Position) -> Bool {
    ends.map { $0.last < position } ?? true
  }
}
