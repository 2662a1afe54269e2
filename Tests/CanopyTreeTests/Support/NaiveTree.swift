import CanopyTree

/// The tree, as simply as it can be said: which leaf stands at which path, and which priority.
///
/// It shares no code with `Node`. Everything costs O(size), and a write is the filtering of two
/// dictionaries: what it says about one place does not depend on any other.
struct NaiveTree: Equatable {
  typealias Path = [NaiveKey]

  private(set) var leaves: [Path: NaiveLeaf] = [:]
  /// Only of places where something stands.
  private(set) var priorities: [Path: NaiveLeaf] = [:]

  /// Nothing.
  init() {}

  init(_ leaf: NaiveLeaf) {
    leaves[[]] = leaf
  }

  /// The same contents as a node's.
  init(_ node: Node) {
    if let leaf = NaiveLeaf(node) { leaves[[]] = leaf }
    node.forEachChild { key, child in
      put(NaiveTree(child), at: [NaiveKey(key)])
      return true
    }
    if let priority = NaiveLeaf(node.priority) { priorities[[]] = priority }
  }

  var isAbsent: Bool { leaves.isEmpty }
  var leaf: NaiveLeaf? { leaves[[]] }
  var priority: NaiveLeaf? { priorities[[]] }
  var isBranch: Bool { !isAbsent && leaf == nil }

  /// The keys of the children, in order.
  var keys: [NaiveKey] { Set(leaves.keys.compactMap(\.first)).sorted() }

  /// The levels below.
  var height: Int { leaves.keys.map(\.count).max() ?? 0 }

  /// What stands at a path.
  subscript(path: Path) -> NaiveTree {
    var result = NaiveTree()
    for (place, leaf) in leaves where place.starts(with: path) {
      result.leaves[Array(place.dropFirst(path.count))] = leaf
    }
    for (place, priority) in priorities where place.starts(with: path) {
      result.priorities[Array(place.dropFirst(path.count))] = priority
    }
    return result
  }

  /// One step of an update.
  enum Change {
    case set(Path, NaiveTree)
    case priority(Path, NaiveLeaf?)
  }

  /// Carries out changes of which none is at or below another.
  mutating func update(_ changes: [Change]) {
    for change in changes {
      switch change {
      case .set(let path, let value): replace(path, value)
      case .priority(let path, let priority): priorities[path] = priority
      }
    }
    // What is not there has no priority. An update is judged when all of it is done.
    priorities = priorities.filter { path, _ in leaves.keys.contains { $0.starts(with: path) } }
  }

  mutating func set(_ path: Path, _ value: NaiveTree) {
    update([.set(path, value)])
  }

  private mutating func replace(_ path: Path, _ value: NaiveTree) {
    leaves = leaves.filter { !$0.key.starts(with: path) }
    priorities = priorities.filter { !$0.key.starts(with: path) }
    // A leaf gives way to a child.
    if !value.isAbsent { leaves = leaves.filter { !path.starts(with: $0.key) } }
    put(value, at: path)
  }

  private mutating func put(_ value: NaiveTree, at path: Path) {
    for (place, leaf) in value.leaves { leaves[path + place] = leaf }
    for (place, priority) in value.priorities { priorities[path + place] = priority }
  }
}
