internal import CanopyEngine
internal import CanopyTree

/// A position between two children in an order, or before or after all of them: one end of a range.
struct RangeEnd {
  private let value: OrderValue
  private let key: Key?
  private let isAfter: Bool

  /// Creates the start of the range of a query with this bound, or its end.
  init(_ bound: Query.Bound, _ order: Order, isStart: Bool) {
    value = order == .key ? .absent : bound.value.orderValue
    key = bound.key
    isAfter = isStart != bound.isInclusive
  }

  /// Whether the position is before a child.
  func isBefore(_ value: OrderValue, _ key: Key) -> Bool {
    if self.value != value { return self.value < value }
    guard let own = self.key else { return !isAfter }
    return own == key ? !isAfter : own < key
  }

  /// Whether the position is before another one.
  static func < (a: RangeEnd, b: RangeEnd) -> Bool {
    if a.value != b.value { return a.value < b.value }
    switch (a.key, b.key) {
    case (let first?, let second?) where first != second: return first < second
    case (_?, nil): return b.isAfter
    case (nil, _?): return !a.isAfter
    default: return !a.isAfter && b.isAfter
    }
  }
}

/// Views by the ranges of their queries, which all have the same order.
///
/// A search tree by the starts of the ranges. Each node knows the last end of the ranges below it. So a search passes
/// over the ranges that do not contain a child. Hashes, which a client cannot foresee, keep the tree balanced.
///
/// - Complexity: O(log n) for a change, and O(log n) for each view that a search finds; expected.
struct RangeIndex {
  private final class Node {
    /// The start of the range; nil before all children.
    let start: RangeEnd?
    /// The end of the range; nil after all children.
    let end: RangeEnd?
    let view: LocalView
    let priority: Int
    /// The last end at and below the node; nil after all children.
    var lastEnd: RangeEnd?
    var left: Node?
    var right: Node?

    init(_ view: LocalView) {
      let query = view.listening.query
      start = query.lower.map { RangeEnd($0, query.order, isStart: true) }
      end = query.upper.map { RangeEnd($0, query.order, isStart: false) }
      self.view = view
      priority = view.number.hashValue
      lastEnd = end
    }

    /// Whether the node comes before another one.
    func isBefore(_ other: Node) -> Bool {
      switch (start, other.start) {
      case (let a?, let b?):
        if a < b { return true }
        if b < a { return false }
      case (nil, _?): return true
      case (_?, nil): return false
      case (nil, nil): break
      }
      return view.number < other.view.number
    }

    func update() {
      lastEnd = end
      for child in [left, right] {
        guard let child, let last = lastEnd else { continue }
        guard let other = child.lastEnd else {
          lastEnd = nil
          continue
        }
        if last < other { lastEnd = other }
      }
    }
  }

  private var root: Node?

  var isEmpty: Bool { root == nil }

  /// Adds a view. It must not be in the index.
  mutating func insert(_ view: LocalView) {
    let node = Node(view)
    let (before, after) = RangeIndex.split(root, at: node)
    root = RangeIndex.join(RangeIndex.join(before, node), after)
  }

  /// Removes a view, if it is there.
  mutating func remove(_ view: LocalView) {
    root = RangeIndex.remove(Node(view), from: root)
  }

  /// Visits the views whose ranges contain a child, until `body` returns false.
  ///
  /// - Parameter looks: is increased by the number of nodes that were looked at.
  /// - Returns: whether all were visited.
  func visit(
    containing value: OrderValue, _ key: Key, looks: inout Int, _ body: (LocalView) -> Bool
  ) -> Bool {
    RangeIndex.visit(root, value, key, &looks, body)
  }

  private static func visit(
    _ node: Node?, _ value: OrderValue, _ key: Key, _ looks: inout Int, _ body: (LocalView) -> Bool
  ) -> Bool {
    guard let node else { return true }
    looks += 1
    // All ranges end before the child.
    if node.lastEnd?.isBefore(value, key) == true { return true }
    guard visit(node.left, value, key, &looks, body) else { return false }
    // This range and all those to the right start after the child.
    guard node.start?.isBefore(value, key) ?? true else { return true }
    if node.end?.isBefore(value, key) != true, !body(node.view) { return false }
    return visit(node.right, value, key, &looks, body)
  }

  /// Divides the nodes into those before a new node, and those after it.
  private static func split(_ node: Node?, at new: Node) -> (before: Node?, after: Node?) {
    guard let node else { return (nil, nil) }
    if node.isBefore(new) {
      let (before, after) = split(node.right, at: new)
      node.right = before
      node.update()
      return (node, after)
    }
    let (before, after) = split(node.left, at: new)
    node.left = after
    node.update()
    return (before, node)
  }

  /// Joins nodes of which all in `a` come before those in `b`.
  private static func join(_ a: Node?, _ b: Node?) -> Node? {
    guard let a else { return b }
    guard let b else { return a }
    if a.priority > b.priority {
      a.right = join(a.right, b)
      a.update()
      return a
    }
    b.left = join(a, b.left)
    b.update()
    return b
  }

  private static func remove(_ removed: Node, from node: Node?) -> Node? {
    guard let node else { return nil }
    if node.view === removed.view { return join(node.left, node.right) }
    if removed.isBefore(node) {
      node.left = remove(removed, from: node.left)
    } else {
      node.right = remove(removed, from: node.right)
    }
    node.update()
    return node
  }
}

extension BoundValue {
  /// The value as it orders children.
  fileprivate var orderValue: OrderValue {
    switch self {
    case .absent: .absent
    case .bool(let value): .bool(value)
    case .integer(let value): .integer(value)
    case .double(let value): .double(value)
    case .string(let bytes): .string(String(decoding: bytes, as: UTF8.self))
    }
  }
}
