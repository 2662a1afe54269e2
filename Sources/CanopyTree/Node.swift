internal import Synchronization

/// A value of the tree: absent, a leaf (bool, number, string), or a branch of children by key.
///
/// Immutable in use: a node is a value, and changing a copy leaves the original as it was, while both
/// share all that did not change. 17 bytes; a copy costs at most one reference count.
///
/// Always in normal form: a branch has at least one child, no child is absent, and a number that a
/// 64-bit integer can hold is kept as one, whichever way it was written.
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
    case record(Record)
    case indexed(IndexedBranch)
    case prioritized(Prioritized)
  }

  var storage: Storage

  init(storage: Storage) {
    self.storage = storage
  }

  /// Nothing: what null, `{}` and `[]` mean.
  public static let absent = Node(storage: .absent)

  /// A leaf.
  public init(_ value: Bool) {
    storage = .bool(value)
  }

  /// A leaf. All 64-bit integers are kept exactly.
  public init(_ value: Int64) {
    storage = .integer(value)
  }

  /// A leaf; nil for NaN and the infinities, which the tree does not hold.
  public init?(_ value: Double) {
    guard value.isFinite else { return nil }
    if let integer = Int64(exactly: value) {
      storage = .integer(integer)
    } else {
      storage = .double(value)
    }
  }

  /// A leaf.
  public init(_ value: String) {
    storage = .string(value)
  }

  /// A branch. Absent children are left out; of two with one key, the later counts. O(n log n), and
  /// O(n) when the keys ascend.
  public init(children: some Sequence<(Key, Node)>) {
    self.init(entries: children.map { Child(key: $0, node: $1) })
  }

  /// As for any sequence, which other modules get unspecialised: this is compiled for arrays.
  public init(children: [(Key, Node)]) {
    self.init(entries: children.map { Child(key: $0, node: $1) })
  }

  init(entries: some Sequence<Child>) {
    self.init(ascending: Child.normalized(Array(entries)))
  }

  init(ascending children: some Collection<Child>) {
    if let record = Record(ascending: children) {
      storage = .record(record)
      return
    }
    storage = children.isEmpty ? .absent : .branch(Children(ascending: children))
    if children.contains(where: { $0.node.isPrioritized }) { addIndex(.priority) }
  }

  /// Whether the node has a priority.
  ///
  /// A branch that has such a child always keeps an index by priority. So where that index is
  /// missing, the order by priority, which is the default of queries, is the order by key.
  var isPrioritized: Bool {
    if case .prioritized = storage { true } else { false }
  }
}

/// A key and the node there.
struct Child: SortedElement {
  var key: Key
  var node: Node

  var sortKey: Key { key }
  /// Most children of big branches are references. Against pages of 32, a star on one of 100,000 posts
  /// takes two thirds of the time, and reading takes none the longer.
  static var leafMax: Int { 8 }

  /// Sorted, without absent ones, the last of each key.
  static func normalized(_ children: [Child]) -> [Child] {
    var isNormal = true
    for i in children.indices {
      if children[i].node.isAbsent || (i > 0 && !(children[i - 1].key < children[i].key)) {
        isNormal = false
        break
      }
    }
    if isNormal { return children }
    // Sort positions rather than children, so that equal keys keep the sequence they came in.
    let positions = children.indices.sorted {
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
/// `@unchecked Sendable`: changed only while the thread that changes it holds the only reference, but for
/// the mark, which is atomic.
final class Prioritized: @unchecked Sendable, DigestOwner {
  /// Present, and without a priority of its own.
  var node: Node
  /// A number or a string.
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
