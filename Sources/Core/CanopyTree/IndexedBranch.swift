/// An index of the children of a branch, in an order other than key order.
///
/// An index by priority holds only the children that have a priority, so the first one among any
/// number of siblings costs O(log n).
struct OrderIndex: Sendable {
  let order: Order
  private(set) var positions: SortedTree<Position>
  /// The keys of the children in an index by priority; nil in another order.
  private(set) var keys: SortedTree<IndexedKey>?

  /// Creates an index of the children.
  ///
  /// - Complexity: O(n log n).
  init(_ order: Order, of children: Children) {
    self.init(order, of: children, pausing: {})
  }

  /// Creates an index of the children.
  ///
  /// - Parameter pause: called often while there are many.
  /// - Throws: the error of `pause`.
  init<E: Error>(
    _ order: Order, of children: Children, pausing pause: () throws(E) -> Void
  ) throws(E) {
    var all: [Position] = []
    if order != .priority { all.reserveCapacity(children.count) }
    children.forEach {
      if order != .priority || $0.node.isPrioritized {
        all.append(Position(value: order.value(of: $0.node).compared, key: $0.key))
      }
      return true
    }
    try self.init(order, positions: all, pausing: pause)
  }

  /// Creates an index of children with these positions, in any sequence.
  ///
  /// - Complexity: O(n log n), and O(n) if they ascend.
  init(_ order: Order, positions: [Position]) {
    self.init(order, positions: positions, pausing: {})
  }

  private init<E: Error>(
    _ order: Order, positions all: [Position], pausing pause: () throws(E) -> Void
  ) throws(E) {
    self.order = order
    let positions = order == .priority ? all.filter { $0.value != .absent } : all
    let isSorted = zip(positions, positions.dropFirst()).allSatisfy { $0 < $1 }
    self.positions = try SortedTree(
      ascending: isSorted ? positions : positions.sorted(pausing: pause, by: <), pausing: pause)
    if order == .priority {
      let sorted = try positions.map(\.key).sorted(pausing: pause, by: <)
      keys = try SortedTree(ascending: sorted.map { IndexedKey(key: $0) }, pausing: pause)
    }
  }

  /// An index of children that come one after the other. As long as their positions ascend, they become pages at once.
  struct Growing {
    let order: Order
    private var pages: SortedTree<Position>.Growing?
    /// All positions, if they do not ascend, or if not all children have one in the index.
    private var positions: [Position] = []

    init(_ order: Order) {
      self.order = order
      if order != .priority { pages = SortedTree<Position>.Growing() }
    }

    mutating func append(_ child: Child) {
      let position = Position(value: order.value(of: child.node).compared, key: child.key)
      if pages != nil {
        if pages?.append(position) == true { return }
        positions = pages?.finishAsArray() ?? []
        pages = nil
      }
      positions.append(position)
    }

    /// Returns the index. Call once.
    mutating func finish() -> OrderIndex {
      guard var pages = pages.take() else { return OrderIndex(order, positions: positions) }
      return OrderIndex(order, pages: pages.finish())
    }
  }

  private init(_ order: Order, pages: SortedTree<Position>) {
    self.order = order
    positions = pages
  }

  /// Whether the index holds a child with an order value; nil is that of an absent child.
  private func holds(_ value: OrderValue?) -> Bool {
    guard let value else { return false }
    return order != .priority || value != .absent
  }

  /// Whether the index would keep the memory of an old text that it shares with the child, although the child has an
  /// equal text in other memory now. The texts of an index by a child of the children are counted anyhow.
  private func keepsText(of old: OrderValue, without new: OrderValue) -> Bool {
    guard case .string(let old) = old, case .string(let new) = new else { return false }
    if case .child = order { return false }
    guard NodeMemory.bytes(of: old) > 0, old.utf8.count <= OrderValue.comparedBytesMax else {
      return false
    }
    return old.withUTF8Bytes { old in
      new.withUTF8Bytes { new in old.baseAddress != new.baseAddress }
    }
  }

  /// Whether the index has a position for each child that it holds: all children, and by priority at
  /// most all.
  func isComplete(for children: Children) -> Bool {
    guard let keys else { return positions.count == children.count }
    return positions.count == keys.count && keys.count <= children.count
  }

  /// Updates the position of a child whose order value changed; nil means that the child is absent.
  ///
  /// - Complexity: O(log n).
  mutating func move(_ key: Key, from old: OrderValue?, to new: OrderValue?) {
    if let old, let new, old == new, !keepsText(of: old, without: new) { return }
    let (wasHeld, isHeld) = (holds(old), holds(new))
    if wasHeld, let old { positions.remove(Position(value: old, key: key)) }
    if isHeld, let new { positions.insert(Position(value: new.compared, key: key)) }
    guard keys != nil, wasHeld != isHeld else { return }
    if isHeld { keys?.insert(IndexedKey(key: key)) } else { keys?.remove(key) }
  }
}

/// The key of a child in an index by priority.
struct IndexedKey: SortedElement {
  var key: Key

  var sortKey: Key { key }
  var isPlain: Bool { key.isPlain }
  /// Keys rarely hold references, so copying a large page is cheap.
  static var leafMax: Int { 32 }
}

/// The children of a branch together with their indexes.
///
/// `@unchecked Sendable`: only a thread that holds the only reference changes it. A node copies a branch that it shares
/// before it changes it (`Node.modifyChild`, `Node.addIndex`). Only debug builds check that accesses do not overlap.
final class IndexedBranch: @unchecked Sendable {
  #if !DEBUG
    @exclusivity(unchecked)
  #endif
  private(set) var children: Children
  #if !DEBUG
    @exclusivity(unchecked)
  #endif
  private(set) var indexes: [OrderIndex]

  init(children: Children, indexes: [OrderIndex]) {
    WorkCounter.createObject()
    self.children = children
    self.indexes = indexes
  }

  func copy() -> IndexedBranch {
    IndexedBranch(children: children, indexes: indexes)
  }

  func addIndex(_ index: OrderIndex) {
    assert(index.isComplete(for: children), "an index lacks a child")
    indexes.append(index)
  }

  /// Changes one child and its position in every index.
  ///
  /// - Precondition: the caller holds the only reference.
  func modifyChild(_ key: Key, _ body: (inout Node) -> Void) {
    if indexes.count == 1, let order = indexes.first?.order {
      // As below, without arrays.
      var old: OrderValue?
      var new: OrderValue?
      children.modify(key) { slot in
        old = slot.map { order.value(of: $0.node) }
        Child.modify(&slot, key, body)
        new = slot.map { order.value(of: $0.node) }
      }
      indexes[0].move(key, from: old, to: new)
      return assert(indexes[0].isComplete(for: children), "an index lacks a child")
    }
    var old: [OrderValue?] = []
    var new: [OrderValue?] = []
    children.modify(key) { slot in
      old = indexes.map { index in slot.map { index.order.value(of: $0.node) } }
      Child.modify(&slot, key, body)
      new = indexes.map { index in slot.map { index.order.value(of: $0.node) } }
    }
    for i in indexes.indices {
      indexes[i].move(key, from: old[i], to: new[i])
      assert(indexes[i].isComplete(for: children), "an index lacks a child")
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
