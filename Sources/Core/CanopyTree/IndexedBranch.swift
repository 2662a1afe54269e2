/// An index of the children of a branch, in an order other than key order.
struct OrderIndex: Sendable {
  let order: Order
  private(set) var positions: SortedTree<Position>

  /// Creates an index of all children.
  ///
  /// - Complexity: O(n log n).
  init(_ order: Order, of children: Children) {
    var all: [Position] = []
    all.reserveCapacity(children.count)
    children.forEach {
      all.append(Position(value: order.value(of: $0.node), key: $0.key))
      return true
    }
    self.init(order, positions: all)
  }

  /// Creates an index of children with these positions, in any sequence.
  ///
  /// - Complexity: O(n log n), and O(n) if they ascend.
  init(_ order: Order, positions: [Position]) {
    self.order = order
    let isSorted = zip(positions, positions.dropFirst()).allSatisfy { $0 < $1 }
    self.positions = SortedTree(ascending: isSorted ? positions : positions.sorted())
  }

  /// Updates the position of a child whose order value changed; nil means that the child is absent.
  ///
  /// - Complexity: O(log n).
  mutating func move(_ key: Key, from old: OrderValue?, to new: OrderValue?) {
    if let old, let new, old == new { return }
    if let old { positions.remove(Position(value: old, key: key)) }
    if let new { positions.insert(Position(value: new, key: key)) }
  }
}

/// The children of a branch together with their indexes.
///
/// `@unchecked Sendable`: only a thread that holds the only reference changes it.
final class IndexedBranch: @unchecked Sendable {
  private(set) var children: Children
  private(set) var indexes: [OrderIndex]

  init(children: Children, indexes: [OrderIndex]) {
    self.children = children
    self.indexes = indexes
  }

  func copy() -> IndexedBranch {
    IndexedBranch(children: children, indexes: indexes)
  }

  func addIndex(_ index: OrderIndex) {
    assert(index.positions.count == children.count, "an index lacks a child")
    indexes.append(index)
  }

  /// Changes one child and its position in every index.
  ///
  /// - Precondition: the caller holds the only reference.
  func modifyChild(_ key: Key, _ body: (inout Node) -> Void) {
    var old: [OrderValue?] = []
    var new: [OrderValue?] = []
    children.modify(key) { slot in
      old = indexes.map { index in slot.map { index.order.value(of: $0.node) } }
      Child.modify(&slot, key, body)
      new = indexes.map { index in slot.map { index.order.value(of: $0.node) } }
    }
    for i in indexes.indices {
      indexes[i].move(key, from: old[i], to: new[i])
      assert(indexes[i].positions.count == children.count, "an index lacks a child")
    }
  }
}

extension Child {
  /// Lets `body` change the node of a slot. An absent node empties the slot.
  static func modify(_ slot: inout Child?, _ key: Key, _ body: (inout Node) -> Void) {
    // Move the node out of the slot, so that it is uniquely referenced while it is changed.
    var node = slot.take()?.node ?? .absent
    body(&node)
    slot = node.isAbsent ? nil : Child(key: key, node: node)
  }
}
