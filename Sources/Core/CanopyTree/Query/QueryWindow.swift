/// The result of a query on one version of a location: a run of its children in the query's order.
///
/// Represented by ranks, without walking the children.
///
/// - Complexity: O(log n) to create, to test a child, and to find a neighbour, if the location
///   keeps the index; else O(n log n) to create.
struct QueryWindow {
  /// The children in the query's order; nil if there are none.
  private let ordered: OrderedChildren?
  /// The ranks of the selected children among all children.
  let ranks: Range<Int>
  private let ends: (first: Position, last: Position)?

  init(_ query: Query, of node: Node) {
    ordered = OrderedChildren(query.order, of: node)
    guard let ordered else {
      ranks = 0..<0
      ends = nil
      return
    }
    let inRange = ordered.ranks(in: QueryRange(query))
    switch query.limit {
    case _ where inRange.isEmpty: ranks = 0..<0
    case .first(let n): ranks = inRange.prefix(n)
    case .last(let n): ranks = inRange.suffix(n)
    case nil: ranks = inRange
    }
    assert(ranks.upperBound <= ordered.children.count, "a rank is out of range")
    if !ranks.isEmpty, let first = ordered.position(atRank: ranks.lowerBound),
      let last = ordered.position(atRank: ranks.upperBound - 1)
    {
      ends = (first, last)
    } else {
      ends = nil
    }
  }

  /// Returns the position of a child in the order of this version.
  func position(of key: Key, _ node: Node) -> Position {
    ordered?.position(of: key, node) ?? Position(value: .absent, key: key)
  }

  /// Whether the window contains a child of this version at a position.
  func contains(_ position: Position) -> Bool {
    guard let ends else { return false }
    return !(position < ends.first) && !(ends.last < position)
  }

  /// Returns the key of the selected child before a position.
  func previous(to position: Position) -> Key? {
    guard let ordered else { return nil }
    let rank = ordered.countPrefix { Position(value: $0, key: $1) < position }
    guard rank > ranks.lowerBound else { return nil }
    return ordered.position(atRank: min(rank, ranks.upperBound) - 1)?.key
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
    guard let ordered, let position = ordered.position(atRank: rank) else { return nil }
    return (position, ordered.children.node(position.key))
  }

  private func isBefore(_ position: Position) -> Bool {
    ends.map { position < $0.first } ?? true
  }

  private func isAfter(_ position: Position) -> Bool {
    ends.map { $0.last < position } ?? true
  }
}
