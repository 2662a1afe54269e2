extension Node {
  /// What kind of thing a node is, with the value of a leaf.
  public enum Value: Sendable {
    /// Nothing.
    case absent
    /// A leaf.
    case bool(Bool)
    /// A leaf: a number that is an integer.
    case integer(Int64)
    /// A leaf: any other number.
    case double(Double)
    /// A leaf.
    case string(String)
    /// Children by key.
    case branch
  }

  /// The kind and value, without the priority. O(1).
  public var value: Value {
    switch storage {
    case .absent: .absent
    case .bool(let value): .bool(value)
    case .integer(let value): .integer(value)
    case .double(let value): .double(value)
    case .string(let value): .string(value)
    case .branch, .record, .indexed: .branch
    case .prioritized(let box): box.node.value
    }
  }

  /// Whether there is nothing.
  public var isAbsent: Bool {
    if case .absent = storage { true } else { false }
  }

  /// Whether it has children.
  public var isBranch: Bool {
    switch storage {
    case .branch, .record, .indexed: true
    case .prioritized(let box): box.node.isBranch
    default: false
    }
  }

  /// Whether it is a bool, a number or a string.
  public var isLeaf: Bool { !isAbsent && !isBranch }

  /// The truth value of a bool.
  public var boolValue: Bool? {
    if case .bool(let value) = value { value } else { nil }
  }

  /// The number, if it is an integer of 64 bits.
  public var integerValue: Int64? {
    if case .integer(let value) = value { value } else { nil }
  }

  /// The number, as a double.
  public var doubleValue: Double? {
    switch value {
    case .integer(let value): Double(value)
    case .double(let value): value
    default: nil
    }
  }

  /// The text of a string.
  public var stringValue: String? {
    if case .string(let value) = value { value } else { nil }
  }

  /// The priority: absent, a number or a string.
  public var priority: Node {
    if case .prioritized(let box) = storage { box.priority } else { .absent }
  }

  /// The same without its priority.
  public var withoutPriority: Node {
    if case .prioritized(let box) = storage { box.node } else { self }
  }

  /// The same with another priority; what is absent has none.
  public func withPriority(_ priority: Node) -> Node {
    let node = withoutPriority
    guard !node.isAbsent, !priority.isAbsent else { return node }
    let box = Prioritized(node: node, priority: priority.withoutPriority)
    return Node(storage: .prioritized(box))
  }

  /// The children. O(1), and for a record O(bytes).
  var children: Children? {
    switch storage {
    case .branch(let children): children
    case .record(let record): record.children
    case .indexed(let box): box.children
    case .prioritized(let box): box.node.children
    default: nil
    }
  }

  /// Whether the node is kept as its JSON text, so that to write it is to copy that.
  public var isText: Bool { record != nil }

  /// The record, if it is one, also with a priority.
  var record: Record? {
    switch storage {
    case .record(let record): record
    case .prioritized(let box): box.node.record
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

  /// The number of children. O(1).
  public var childCount: Int { record?.childCount ?? children?.count ?? 0 }

  /// The approximate cost of finding a child, in steps of some ten nanoseconds. O(1).
  ///
  /// What is in a record is made of its text each time.
  public var lookupSteps: Int { 4 + (record?.byteCount ?? 0) / 32 }

  /// The child with this key, or absent. O(log n), and O(its bytes) in a record.
  public func child(_ key: Key) -> Node {
    if let record { return record.child(key) }
    return children?.node(key) ?? .absent
  }

  /// The node at a path below, or absent. O(depth × log n), and O(bytes) in a record.
  public func at(_ path: Path) -> Node {
    var node = self
    var keys = path.keys[...]
    while let key = keys.first {
      if let record = node.record { return record.at(keys) }
      guard let children = node.children else { return .absent }
      node = children.node(key)
      keys.removeFirst()
    }
    return node
  }

  /// Visits the children in key order until `body` returns false.
  public func forEachChild(_ body: (Key, Node) -> Bool) {
    if let record { return record.forEach(body) }
    children?.forEach { body($0.key, $0.node) }
  }

  /// Returns up to `limit` children in key order, beginning with the first after `key`, or with the first of
  /// all if that is nil. So a large branch can be read in pieces.
  ///
  /// - Complexity: O(log n + limit), and O(bytes) in a record.
  public func children(after key: Key?, limit: Int) -> [(key: Key, node: Node)] {
    var result: [(key: Key, node: Node)] = []
    guard limit > 0 else { return result }
    func add(_ key: Key, _ node: Node) -> Bool {
      result.append((key, node))
      return result.count < limit
    }
    if let record {
      record.forEach { child, node in
        if let key, child <= key { return true }
        return add(child, node)
      }
    } else {
      children?.forEach(from: key.map { key in { $0 <= key } }) { add($0.key, $0.node) }
    }
    return result
  }

  /// The levels below this node: 0 for a leaf or nothing. O(size).
  public var height: Int {
    if let record { return record.height }
    var height = 0
    forEachChild { _, child in
      height = max(height, child.height + 1)
      return true
    }
    return height
  }

  /// What tells a branch from all other nodes, as long as somebody holds it: two with the same
  /// identity are the same. Nil for a leaf, and for a branch with indexes or a priority. O(1).
  public var identity: ObjectIdentifier? {
    switch storage {
    case .branch(let children): children.identity
    case .record(let record): record.identity
    default: nil
    }
  }

  /// Whether both are the same version of the same thing, found without looking inside branches.
  public func isIdentical(to other: Node) -> Bool {
    switch (storage, other.storage) {
    case (.branch(let a), .branch(let b)): a.isIdentical(to: b)
    case (.record(let a), .record(let b)): a.identity == b.identity
    case (.indexed(let a), .indexed(let b)): a === b || a.children.isIdentical(to: b.children)
    case (.branch(let a), .indexed(let b)), (.indexed(let b), .branch(let a)):
      a.isIdentical(to: b.children)
    case (.prioritized(let a), .prioritized(let b)): a === b
    case (.prioritized, _), (_, .prioritized): false
    default: !isBranch && !other.isBranch && self == other
    }
  }
}

extension Node: Equatable {
  /// Whether both hold the same data, priorities included. Strings are compared by their bytes, and
  /// indexes do not count. O(size), less what both share: versions of one thing are compared in
  /// O(log n) for each place where they were changed.
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
    case (.record(let a), .record(let b)): return a.hasSameText(as: b)
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
  /// A string leaf.
  public init(stringLiteral value: String) {
    self.init(value)
  }

  /// A number leaf.
  public init(integerLiteral value: Int64) {
    self.init(value)
  }

  /// A bool leaf.
  public init(booleanLiteral value: Bool) {
    self.init(value)
  }
}
