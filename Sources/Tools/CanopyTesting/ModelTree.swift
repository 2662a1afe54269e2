public import CanopyTree

/// What the tree is, said as plainly as possible: a table of leaves and one of priorities.
///
/// Every change goes through both tables, so it is slow, and too simple to be wrong in the ways in
/// which a tree of shared pages can be.
public struct ModelTree: Sendable {
  private var leaves: [[Key]: Node] = [:]
  private var priorities: [[Key]: Node] = [:]

  /// An empty tree.
  public init() {}

  /// Carries out the assignments of one commit; of one place, what is below it before its priority.
  public mutating func apply(_ assignments: [Assignment]) {
    let sorted = assignments.sorted { $0.location < $1.location }
    for assignment in sorted where !assignment.location.isPriority {
      set(assignment.location.path.keys, assignment.value)
    }
    for assignment in sorted where assignment.location.isPriority {
      let path = assignment.location.path.keys
      priorities[path] = assignment.value.isAbsent ? nil : assignment.value
    }
    // A branch that has no child any more is gone, and its priority with it. A commit is judged as a
    // whole: it may take the last child and bring another.
    priorities = priorities.filter { place, _ in leaves.keys.contains { $0.starts(with: place) } }
  }

  private mutating func set(_ path: [Key], _ node: Node) {
    leaves = leaves.filter { !$0.key.starts(with: path) }
    priorities = priorities.filter { !$0.key.starts(with: path) }
    insert(node, at: path)
    if !node.isAbsent {
      // What is above has children now, so it is no leaf.
      for count in 0..<path.count { leaves[Array(path.prefix(count))] = nil }
    }
  }

  private mutating func insert(_ node: Node, at path: [Key]) {
    if !node.priority.isAbsent { priorities[path] = node.priority }
    if node.isLeaf { leaves[path] = node.withoutPriority }
    node.forEachChild { key, child in
      insert(child, at: path + [key])
      return true
    }
  }

  /// The tree as a node.
  public var root: Node {
    node(at: [], leaves.map { ($0.key, $0.value) })
  }

  private func node(at path: [Key], _ below: [(path: [Key], leaf: Node)]) -> Node {
    let priority = priorities[path] ?? .absent
    if let own = below.first(where: { $0.path == path }) {
      return own.leaf.withPriority(priority)
    }
    let groups = Dictionary(grouping: below) { $0.path[path.count] }
    return Node(children: groups.map { ($0.key, node(at: path + [$0.key], $0.value)) })
      .withPriority(priority)
  }
}
