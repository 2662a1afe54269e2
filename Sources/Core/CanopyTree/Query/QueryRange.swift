/// The range of positions within a query's bounds.
struct QueryRange {
  private struct Edge {
    let value: OrderValue
    let key: Key?
    let isInclusive: Bool
    let comparesValue: Bool

    init(_ bound: Query.Bound, _ order: Order) {
      value = bound.value.orderValue
      key = bound.key
      isInclusive = bound.isInclusive
      comparesValue = order != .key
    }

    /// Creates the edge at a position, which is inside the range.
    init(_ position: Position) {
      value = position.value
      key = position.key
      isInclusive = true
      comparesValue = true
    }

    /// Returns a negative number, zero or a positive number if a position is before, at or after
    /// the edge.
    func compare(_ value: OrderValue, _ key: Key) -> Int {
      if comparesValue {
        let order = OrderValue.compare(value, self.value)
        if order != 0 { return order }
      }
      guard let bound = self.key else { return 0 }
      return key < bound ? -1 : key == bound ? 0 : 1
    }
  }

  private var lower: Edge?
  private let upper: Edge?

  init(_ query: Query) {
    lower = query.lower.map { Edge($0, query.order) }
    upper = query.upper.map { Edge($0, query.order) }
  }

  /// Removes the positions before this one from the range.
  mutating func begin(at position: Position) {
    lower = Edge(position)
  }

  var hasLower: Bool { lower != nil }
  var hasUpper: Bool { upper != nil }

  /// Whether a position is before the range.
  func isBelow(_ value: OrderValue, _ key: Key) -> Bool {
    guard let lower else { return false }
    let order = lower.compare(value, key)
    return lower.isInclusive ? order < 0 : order <= 0
  }

  /// Whether a position is after the range.
  func isAbove(_ value: OrderValue, _ key: Key) -> Bool {
    guard let upper else { return false }
    let order = upper.compare(value, key)
    return upper.isInclusive ? order > 0 : order >= 0
  }

  /// Whether a position is in the range.
  func contains(_ value: OrderValue, _ key: Key) -> Bool {
    !isBelow(value, key) && !isAbove(value, key)
  }
}
