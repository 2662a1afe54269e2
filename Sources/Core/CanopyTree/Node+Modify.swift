extension Node {
  /// Changes one child. A branch is created with its first child and removed with its last.
  ///
  /// If the node is a leaf, a new child replaces the leaf's value and keeps its priority; an absent
  /// child leaves the leaf unchanged.
  ///
  /// - Complexity: O(log n), and the cost of `body`.
  mutating func modifyChild(_ key: Key, _ body: (inout Node) -> Void) {
    var priority: Node?
    modifyChildOnly(key) {
      body(&$0)
      if $0.isPrioritized { priority = $0.priority }
    }
    guard let priority, !indexes.contains(where: { $0.order == .priority }) else { return }
    // Without the index, no other child has a priority: there is nothing to sort.
    let position = Position(value: OrderValue(priority).compared, key: key)
    addIndex(OrderIndex(.priority, positions: [position]))
  }

  private mutating func modifyChildOnly(_ key: Key, _ body: (inout Node) -> Void) {
    // Take the storage out while it is changed, so that it is uniquely referenced. (A `switch`
    // would hold a second reference in debug builds.)
    if case .branch(var children) = storage {
      storage = .absent
      children.modify(key) { Child.modify(&$0, key, body) }
      storage = children.isEmpty ? .absent : .branch(children)
    } else if case .packed(let packed) = storage {
      var child = packed.child(key)
      body(&child)
      storage = packed.replacing(key, with: child).storage
    } else if case .indexed(var box) = storage {
      storage = .absent
      if !isKnownUniquelyReferenced(&box) { box = box.copy() }
      box.modifyChild(key, body)
      storage = box.children.isEmpty ? .absent : .indexed(box)
    } else if case .prioritized(var box) = storage {
      storage = .absent
      if isKnownUniquelyReferenced(&box) {
        box.forgetDigest()
      } else {
        box = Prioritized(node: box.node, priority: box.priority)
      }
      box.node.modifyChild(key, body)
      storage = box.node.isAbsent ? .absent : .prioritized(box)
    } else {
      var child = Node.absent
      body(&child)
      if !child.isAbsent { self = Node(ascending: CollectionOfOne(Child(key: key, node: child))) }
    }
  }

  /// Replaces the node at a path below this one; absent removes it. Branches that become empty are
  /// removed too.
  ///
  /// - Complexity: O(depth × log n).
  public mutating func set(_ value: Node, at path: Path) {
    modify(at: path.keys[...]) { $0 = value }
  }

  /// Returns a copy with another node at a path below.
  public func setting(_ value: Node, at path: Path) -> Node {
    var copy = self
    copy.set(value, at: path)
    return copy
  }

  /// Changes the node at a path below.
  mutating func modify(at keys: ArraySlice<Key>, _ body: (inout Node) -> Void) {
    guard let key = keys.first else { return body(&self) }
    modifyChild(key) { $0.modify(at: keys.dropFirst(), body) }
  }

  /// Adds an index of the children in this order, unless it exists or there are no children.
  ///
  /// - Complexity: O(n log n) the first time.
  mutating func addIndex(_ order: Order) {
    addIndex(order) { OrderIndex(order, of: $0) }
  }

  /// Adds an existing index of the children, unless there is one in this order or there are no
  /// children.
  mutating func addIndex(_ index: OrderIndex) {
    addIndex(index.order) { _ in index }
  }

  private mutating func addIndex(_ order: Order, _ make: (Children) -> OrderIndex) {
    guard order != .key, !indexes.contains(where: { $0.order == order }), let children else {
      return
    }
    var taken = Storage.absent
    swap(&taken, &storage)
    switch consume taken {
    case .indexed(var box):
      if !isKnownUniquelyReferenced(&box) { box = box.copy() }
      box.addIndex(make(children))
      storage = .indexed(box)
    case .prioritized(let box):
      var node = box.node
      node.addIndex(order, make)
      storage = .prioritized(Prioritized(node: node, priority: box.priority))
    default:
      storage = .indexed(IndexedBranch(children: children, indexes: [make(children)]))
    }
  }
}
