extension Node {
  /// The kind of a node, with the value of a leaf.
  public enum Value: Sendable {
    /// An absent node.
    case absent
    /// A bool leaf.
    case bool(Bool)
    /// A number leaf that is a 64-bit integer.
    case integer(Int64)
    /// A number leaf that is not a 64-bit integer.
    case double(Double)
    /// A string leaf.
    case string(String)
    /// A node with children.
    case branch
  }

  /// The kind and value, without the priority.
  ///
  /// - Complexity: O(1).
  public var value: Value {
    switch storage {
    case .absent: .absent
    case .bool(let value): .bool(value)
    case .integer(let value): .integer(value)
    case .double(let value): .double(value)
    case .string(let value): .string(value)
    case .branch, .packed, .indexed: .branch
    case .prioritized(let box): box.node.value
    }
  }

  /// Whether the node is absent.
  public var isAbsent: Bool {
    if case .absent = storage { true } else { false }
  }

  /// Whether the node has children.
  public var isBranch: Bool {
    switch storage {
    case .branch, .packed, .indexed: true
    case .prioritized(let box): box.node.isBranch
    default: false
    }
  }

  /// Whether the node is a bool, a number or a string.
  public var isLeaf: Bool { !isAbsent && !isBranch }

  /// The value of a bool leaf.
  public var boolValue: Bool? {
    if case .bool(let value) = value { value } else { nil }
  }

  /// The value of a number leaf, if it is a 64-bit integer.
  public var integerValue: Int64? {
    if case .integer(let value) = value { value } else { nil }
  }

  /// The value of a number leaf, as a double.
  public var doubleValue: Double? {
    switch value {
    case .integer(let value): Double(value)
    case .double(let value): value
    default: nil
    }
  }

  /// The value of a string leaf.
  public var stringValue: String? {
    if case .string(let value) = value { value } else { nil }
  }

  /// The priority: absent, a number or a string.
  public var priority: Node {
    if case .prioritized(let box) = storage { box.priority } else { .absent }
  }

  /// The node without its priority.
  public var withoutPriority: Node {
    if case .prioritized(let box) = storage { box.node } else { self }
  }

  /// Returns the node with another priority. An absent node has none.
  public func withPriority(_ priority: Node) -> Node {
    let node = withoutPriority
    guard !node.isAbsent, !priority.isAbsent else { return node }
    let box = Prioritized(node: node, priority: priority.withoutPriority)
    return Node(storage: .prioritized(box))
  }

  /// The children.
  ///
  /// - Complexity: O(1), and O(bytes) for a packed branch.
  var children: Children? {
    switch storage {
    case .branch(let children): children
    case .packed(let packed): packed.children
    case .indexed(let box): box.children
    case .prioritized(let box): box.node.children
    default: nil
    }
  }

  /// Whether the node is stored as its JSON text, so that writing it is a copy.
  public var isPacked: Bool { packed != nil }

  /// The packed branch, if the node is one, with or without a priority.
  var packed: PackedBranch? {
    switch storage {
    case .packed(let packed): packed
    case .prioritized(let box): box.node.packed
    default: nil
    }
  }

  var indexes: [OrderIndex] {
    switch storage {
    case .indexed(let box): box.indexes
    case .prioritized(let box): box.node.indexes
    default: []
    }
  }

  /// The number of children.
  ///
  /// - Complexity: O(1).
  public var childCount: Int { packed?.childCount ?? children?.count ?? 0 }

  /// The approximate cost of finding a child, in steps of about ten nanoseconds. A packed branch
  /// parses its text each time.
  ///
  /// - Complexity: O(1).
  public var lookupSteps: Int { 4 + (packed?.byteCount ?? 0) / 32 }

  /// Returns the child with this key, or absent.
  ///
  /// - Complexity: O(log n), and O(bytes of the child) in a packed branch.
  public func child(_ key: Key) -> Node {
    if let packed { return packed.child(key) }
    return children?.node(key) ?? .absent
  }

  /// Returns the node at a path below this one, or absent.
  ///
  /// - Complexity: O(depth × log n), and O(bytes) in a packed branch.
  public func at(_ path: Path) -> Node {
    var node = self
    var keys = path.keys[...]
    while let key = keys.first {
      if let packed = node.packed { return packed.at(keys) }
      guard let children = node.children else { return .absent }
      node = children.node(key)
      keys.removeFirst()
    }
    return node
  }

  /// Visits the children in key order until `body` returns false.
  public func forEachChild(_ body: (Key, Node) -> Bool) {
    if let packed { return packed.forEach(body) }
    children?.forEach { body($0.key, $0.node) }
  }

  /// Visits the children of one of several parts of about the same size, in key order: the parts have each child once.
  /// Used to read a large branch on several threads. A packed branch has one part with children, the first.
  ///
  /// - Precondition: `part` is at least 0 and less than `parts`.
  public func forEachChild(inPart part: Int, of parts: Int, _ body: (Key, Node) -> Void) {
    assert(0..<parts ~= part, "there is no such part")
    guard packed == nil, parts > 1, let children else {
      if part > 0 { return }
      return forEachChild {
        body($0, $1)
        return true
      }
    }
    children.forEach(inPart: part, of: parts) { body($0.key, $0.node) }
  }

  /// Returns up to `limit` children in key order, from the first after `key`, or from the first of
  /// all if `key` is nil. Used to read a large branch in pieces.
  ///
  /// - Complexity: O(log n + limit), and O(bytes) in a packed branch.
  public func children(after key: Key?, limit: Int) -> [(key: Key, node: Node)] {
    var result: [(key: Key, node: Node)] = []
    guard limit > 0 else { return result }
    func add(_ key: Key, _ node: Node) -> Bool {
      result.append((key, node))
      return result.count < limit
    }
    if let packed {
      packed.forEach { child, node in
        if let key, child <= key { return true }
        return add(child, node)
      }
    } else {
      children?.forEach(from: key.map { key in { $0 <= key } }) { add($0.key, $0.node) }
    }
    return result
  }

  /// The number of levels below this node: 0 for a leaf and for an absent node.
  ///
  /// - Complexity: O(size).
  public var height: Int {
    if let packed { return packed.height }
    var height = 0
    forEachChild { _, child in
      height = max(height, child.height + 1)
      return true
    }
    return height
  }

  /// The identity of a branch, valid as long as the branch is referenced: nodes with the same
  /// identity are equal. Nil for a leaf, and for a branch with indexes or a priority.
  ///
  /// - Complexity: O(1).
  public var identity: ObjectIdentifier? {
    switch storage {
    case .branch(let children): children.identity
    case .packed(let packed): packed.identity
    default: nil
    }
  }

  /// Whether both are the same version of the same node. Does not look inside branches, so equal
  /// branches may differ.
  public func isIdentical(to other: Node) -> Bool {
    switch (storage, other.storage) {
    case (.branch(let a), .branch(let b)): a.isIdentical(to: b)
    case (.packed(let a), .packed(let b)): a.identity == b.identity
    case (.indexed(let a), .indexed(let b)): a === b || a.children.isIdentical(to: b.children)
    case (.branch(let a), .indexed(let b)), (.indexed(let b), .branch(let a)):
      a.isIdentical(to: b.children)
    case (.prioritized(let a), .prioritized(let b)): a === b
    case (.prioritized, _), (_, .prioritized): false
    default: !isBranch && !other.isBranch && self == other
    }
  }

  /// Whether this is surely the same data as another version of the node has. Unlike `isIdentical`, it also finds that for
  /// a branch inside a packed one, which is created again for each look.
  ///
  /// - Complexity: O(1), and O(bytes) for a packed branch.
  public func isUnchanged(from other: Node) -> Bool {
    if case (.packed(let a), .packed(let b)) = (storage, other.storage) {
      return a.hasSameText(as: b)
    }
    return isIdentical(to: other)
  }
}

extension Node: Equatable {
  /// Whether both nodes hold the same data and priorities. Strings are compared by their bytes;
  /// indexes are ignored.
  ///
  /// - Complexity: O(size), without shared subtrees: two versions of one node are compared in O(log
  ///   n) for each change between them.
  public static func == (a: Node, b: Node) -> Bool {
    switch (a.storage, b.storage) {
    case (.absent, .absent): return true
    case (.bool(let a), .bool(let b)): return a == b
    case (.integer(let a), .integer(let b)): return a == b
    case (.double(let a), .double(let b)): return a == b
    case (.string(let a), .string(let b)): return a.hasSameBytes(as: b)
    case (.prioritized(let a), .prioritized(let b)):
      return a === b || (a.priority == b.priority && a.node == b.node)
    case (.prioritized, _), (_, .prioritized): return false
    case (.packed(let a), .packed(let b)): return a.hasSameText(as: b)
    default:
      guard a.childCount == b.childCount else { return false }
      guard let a = a.children, let b = b.children, a.count == b.count else { return false }
      return Children.forEachDifference(from: a, to: b, isSame: { $0.node == $1.node }) { _, _ in
        false
      }
    }
  }
}

extension Node: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral
{
  /// Creates a string leaf.
  public init(stringLiteral value: String) {
    self.init(value)
  }

  /// Creates a number leaf.
  public init(integerLiteral value: Int64) {
    self.init(value)
  }

  /// Creates a bool leaf.
  public init(booleanLiteral value: Bool) {
    self.init(value)
  }
}

extension Children {
  /// The largest page that is searched linearly: about the fields of one post.
  private static var scanMax: Int { 8 }

  /// Returns the child's node, or absent.
  ///
  /// Like `find`, without a copy of the key. A short key in a small page is found by a linear scan
  /// for equality, which is faster than a binary search.
  ///
  /// - Complexity: O(log n).
  func node(_ key: Key) -> Node {
    withLeaf(of: key) { leaf in
      leaf.withElements { elements in
        guard elements.count <= Self.scanMax, case .short(let high, let low) = key.form else {
          let (i, isFound) = leaf.search(key)
          return isFound ? elements[i].node : .absent
        }
        for i in 0..<elements.count {
          if case .short(let a, let b) = elements[i].key.form, a == high, b == low {
            return elements[i].node
          }
        }
        return .absent
      }
    }
  }
}
