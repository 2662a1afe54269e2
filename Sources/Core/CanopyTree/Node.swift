internal import Synchronization

/// A value of the tree: absent, a leaf (bool, number, string), or a branch of children by key.
///
/// An immutable value: changing a copy leaves the original unchanged, and both share all unchanged
/// parts. 17 bytes; a copy costs at most one reference count.
///
/// Always in normal form: a branch has at least one child, no child is absent, and a number that
/// fits into a 64-bit integer is stored as one.
///
/// A node may have a priority (a number or a string) that orders it among its siblings.
public struct Node: Sendable {
  enum Storage: Sendable {
    case absent
    case bool(Bool)
    case integer(Int64)
    case double(Double)
    case string(String)
    case branch(Children)
    case packed(PackedBranch)
    case indexed(IndexedBranch)
    case prioritized(Prioritized)
  }

  var storage: Storage

  init(storage: Storage) {
    self.storage = storage
  }

  /// The absent node: null, `{}` and `[]` in JSON.
  public static let absent = Node(storage: .absent)

  /// Creates a bool leaf.
  public init(_ value: Bool) {
    storage = .bool(value)
  }

  /// Creates a number leaf. All 64-bit integers are exact.
  public init(_ value: Int64) {
    storage = .integer(value)
  }

  /// Creates a number leaf; nil for NaN and the infinities, which the tree does not hold.
  public init?(_ value: Double) {
    guard value.isFinite else { return nil }
    if let integer = Int64(exactly: value) {
      storage = .integer(integer)
    } else {
      storage = .double(value)
    }
  }

  /// Creates a string leaf.
  public init(_ value: String) {
    storage = .string(value)
  }

  /// Creates a branch. Absent children are left out; of duplicate keys the last wins.
  ///
  /// - Complexity: O(n log n), and O(n) if the keys ascend.
  public init(children: some Sequence<(Key, Node)>) {
    self.init(entries: children.map { Child(key: $0, node: $1) })
  }

  /// Creates a branch from an array. The generic initializer is not specialised in other modules;
  /// this one is.
  public init(children: [(Key, Node)]) {
    self.init(entries: children.map { Child(key: $0, node: $1) })
  }

  init(entries: some Sequence<Child>) {
    self.init(ascending: Child.normalized(Array(entries), pausing: {}))
  }

  init(ascending children: some Collection<Child>) {
    self.init(ascending: children, pausing: {})
  }

  /// - Parameter pause: called often while a large branch is made.
  /// - Throws: the error of `pause`.
  init<E: Error>(
    ascending children: some Collection<Child>, pausing pause: () throws(E) -> Void
  ) throws(E) {
    if let packed = PackedBranch(ascending: children) {
      storage = .packed(packed)
      return
    }
    guard !children.isEmpty else {
      storage = .absent
      return
    }
    let branch = try Children(ascending: children, pausing: pause)
    storage = .branch(branch)
    if children.contains(where: { $0.node.isPrioritized }) {
      addIndex(try OrderIndex(.priority, of: branch, pausing: pause))
    }
  }

  /// Whether a copy of the node counts no reference.
  var isPlain: Bool {
    switch storage {
    case .absent, .bool, .integer, .double: true
    default: false
    }
  }

  /// Whether the node has a priority.
  ///
  /// A branch with a prioritized child always keeps an index by priority, of such children only.
  /// Without that index, priority order (the default of queries) is key order.
  var isPrioritized: Bool {
    if case .prioritized = storage { true } else { false }
  }
}

/// A key and its node.
struct Child: SortedElement {
  var key: Key
  var node: Node

  var sortKey: Key { key }
  var isPlain: Bool { key.isPlain && node.isPlain }
  /// The children of big branches are mostly references, so pages are small. With 8 instead of 32,
  /// starring one of 100,000 posts takes two thirds of the time, and reading is not slower.
  static var leafMax: Int { 8 }
  static var referenceOffset: Int? { MemoryLayout<Child>.offset(of: \.node) }

  /// Returns the children sorted, without absent ones, and only the last of each key.
  ///
  /// - Parameter pause: called often while many children are sorted.
  /// - Throws: the error of `pause`.
  static func normalized<E: Error>(
    _ children: [Child], pausing pause: () throws(E) -> Void
  ) throws(E) -> [Child] {
    var isNormal = true
    for i in children.indices {
      if children[i].node.isAbsent || (i > 0 && !(children[i - 1].key < children[i].key)) {
        isNormal = false
        break
      }
    }
    if isNormal { return children }
    // Sort positions instead of children: equal keys then stay in their original sequence.
    let positions = try children.indices.sorted(pausing: pause) {
      children[$0].key != children[$1].key ? children[$0].key < children[$1].key : $0 < $1
    }
    var result: [Child] = []
    result.reserveCapacity(children.count)
    for (i, position) in positions.enumerated() {
      let child = children[position]
      let isLast = i + 1 == positions.count || children[positions[i + 1]].key != child.key
      if isLast, !child.node.isAbsent { result.append(child) }
    }
    return result
  }
}

/// The children of a branch, in key order.
typealias Children = SortedTree<Child>

/// A node with a priority.
///
/// `@unchecked Sendable`: only a thread that holds the only reference changes it; the mark is
/// atomic.
final class Prioritized: @unchecked Sendable, DigestOwner {
  /// The node: not absent, and without a priority of its own.
  var node: Node
  /// The priority: a number or a string.
  var priority: Node
  private let digestMark = Atomic<UInt32>(0)

  deinit {
    forgetDigest()
  }

  func withDigestMark<R>(_ body: (borrowing Atomic<UInt32>) -> R) -> R { body(digestMark) }

  init(node: Node, priority: Node) {
    self.node = node
    self.priority = priority
  }
}
