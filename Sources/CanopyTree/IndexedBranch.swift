/// The children of a branch in an order other than that of their keys.
struct OrderIndex: Sendable {
  let order: Order
  private(set) var positions: SortedTree<Position>

  /// An index of all children. O(n log n).
  init(_ order: Order, of children: Children) {
    var all: [Position] = []
    all.reserveCapacity(children.count)
    children.forEach {
      all.append(Position(value: order.value(of: $0.node), key: $0.key))
      return true
    }
    self.init(order, positions: all)
  }

  /// An index of children with these places, in any sequence. O(n log n), and O(n) when they ascend.
  init(_ order: Order, positions: [Position]) {
    self.order = order
    let isSorted = zip(positions, positions.dropFirst()).allSatisfy { $0 < $1 }
    self.positions = SortedTree(ascending: isSorted ? positions : positions.sorted())
  }

  /// Takes note that a child's order value changed; nil is for no child. O(log n).
  mutating func move(_ key: Key, from old: OrderValue?, to new: OrderValue?) {
    if let old, let new, old == new { return }
    if let old { positions.remove(Position(value: old, key: key)) }
    if let new { positions.insert(Position(value: new, key: key)) }
  }
}

/// Children together with the indexes that are kept for them.
///
/// `@unchecked Sendable`: changed only while the thread that changes it holds the only reference.
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
    indexes.append(index)
  }

  /// Changes one child and every index of it. Only for the holder of the only reference.
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
    }
  }
}

extension Child {
  /// Lets `body` change the node of a slot; an absent node leaves the slot empty.
  static func modify(_ slot: inout Child?, _ key: Key, _ body: (inout Node) -> Void) {
    // The node is moved out of the slot, so that it counts as unshared while it is changed.
    var node = slot.take()?.node ?? .absent
    body(&node)
    slot = node.isAbsent ? nil : Child(key: key, node: node)
  }
}
