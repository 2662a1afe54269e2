extension Node {
  /// Changes one child; the branch comes into being with its first child and ends with its last.
  ///
  /// On a leaf, a child that comes to be replaces the leaf's value and keeps its priority; none leaves
  /// the leaf as it is. O(log n) and what `body` costs.
  mutating func modifyChild(_ key: Key, _ body: (inout Node) -> Void) {
    var isPrioritized = false
    modifyChildOnly(key) {
      body(&$0)
      isPrioritized = $0.isPrioritized
    }
    if isPrioritized { addIndex(.priority) }
  }

  private mutating func modifyChildOnly(_ key: Key, _ body: (inout Node) -> Void) {
    // What is changed is taken out of the storage meanwhile, so that it counts as unshared. (A
    // `switch` would keep a second reference to it in debug builds.)
    if case .branch(var children) = storage {
      storage = .absent
      children.modify(key) { Child.modify(&$0, key, body) }
      storage = children.isEmpty ? .absent : .branch(children)
    } else if case .record(let record) = storage {
      var child = record.child(key)
      body(&child)
      storage = record.replacing(key, with: child).storage
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

  /// Replaces what stands at a path below; absent removes it. Branches that this empties go too.
  /// O(depth × log n).
  public mutating func set(_ value: Node, at path: Path) {
    modify(at: path.keys[...]) { $0 = value }
  }

  /// The same with another node at a path below.
  public func setting(_ value: Node, at path: Path) -> Node {
    var copy = self
    copy.set(value, at: path)
    return copy
  }

  /// Changes what stands at a path below.
  mutating func modify(at keys: ArraySlice<Key>, _ body: (inout Node) -> Void) {
    guard let key = keys.first else { return body(&self) }
    modifyChild(key) { $0.modify(at: keys.dropFirst(), body) }
  }

  /// Keeps an index of the children in this order, if there are children and it is not kept yet.
  /// O(n log n) the first time.
  mutating func addIndex(_ order: Order) {
    addIndex(order) { OrderIndex(order, of: $0) }
  }

  /// Keeps an index that has been made of the children, if there are some and it is not kept yet.
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
