import CanopyTree

/// The simplest model of the tree: the leaves by path, and the priorities by path.
///
/// Shares no code with `Node`. Everything costs O(size). A write filters two dictionaries, so its
/// effect on one location does not depend on any other.
struct NaiveTree: Equatable {
  typealias Path = [NaiveKey]

  private(set) var leaves: [Path: NaiveLeaf] = [:]
  /// The priorities; only of paths that exist.
  private(set) var priorities: [Path: NaiveLeaf] = [:]

  /// Creates an empty tree.
  init() {}

  init(_ leaf: NaiveLeaf) {
    leaves[[]] = leaf
  }

  /// Creates a tree with the contents of a node.
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

  /// The number of levels below.
  var height: Int { leaves.keys.map(\.count).max() ?? 0 }

  /// Returns the tree at a path.
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

  /// Applies changes, none at or below another.
  mutating func update(_ changes: [Change]) {
    for change in changes {
      switch change {
      case .set(let path, let value): replace(path, value)
      case .priority(let path, let priority): priorities[path] = priority
      }
    }
    // An absent node has no priority. The update is complete before this is decided.
    priorities = priorities.filter { path, _ in leaves.keys.contains { $0.starts(with: path) } }
  }

  mutating func set(_ path: Path, _ value: NaiveTree) {
    update([.set(path, value)])
  }

  private mutating func replace(_ path: Path, _ value: NaiveTree) {
    leaves = leaves.filter { !$0.key.starts(with: path) }
    priorities = priorities.filter { !$0.key.starts(with: path) }
    // A child replaces a leaf.
    if !value.isAbsent { leaves = leaves.filter { !path.starts(with: $0.key) } }
    put(value, at: path)
  }

  private mutating func put(_ value: NaiveTree, at path: Path) {
    for (place, leaf) in value.leaves { leaves[path + place] = leaf }
    for (place, priority) in value.priorities { priorities[path + place] = priority }
  }
}

extension NaiveTree {
  /// The same contents as a node, built from the leaves up.
  var node: Node {
    var node = leaf?.node ?? .absent
    if leaf == nil {
      // Unsorted, so that the tree has to sort.
      node = Node(children: Set(keys).map { (Key.of($0.description), self[[$0]].node) })
    }
    return priority.map { node.withPriority($0.node) } ?? node
  }

  /// The contents as JSON in export style, members in no particular order.
  var json: String {
    if isAbsent { return "null" }
    var members = Set(keys).map { NaiveLeaf.quoted($0.description) + ":" + self[[$0]].json }
    if let priority { members.append("\".priority\":" + priority.json) }
    guard let leaf else { return "{" + members.joined(separator: ",") + "}" }
    return members.isEmpty ? leaf.json : "{\".value\":" + leaf.json + "," + members[0] + "}"
  }
}
