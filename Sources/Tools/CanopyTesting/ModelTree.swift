public import CanopyTree

/// The simplest model of a tree: a table of leaves and a table of priorities.
///
/// Every change searches both tables, so the model is slow. It shares no pages, so it cannot have the errors that a
/// tree of shared pages can have.
public struct ModelTree: Sendable {
  private var leaves: [[Key]: Node] = [:]
  private var priorities: [[Key]: Node] = [:]

  /// Creates an empty tree.
  public init() {}

  /// Applies the assignments of one commit. At one path, values precede the priority.
  public mutating func apply(_ assignments: [Assignment]) {
    let sorted = assignments.sorted { $0.location < $1.location }
    for assignment in sorted where !assignment.location.isPriority {
      set(assignment.location.path.keys, assignment.value)
    }
    for assignment in sorted where assignment.location.isPriority {
      let path = assignment.location.path.keys
      priorities[path] = assignment.value.isAbsent ? nil : assignment.value
    }
    // A branch without children does not exist and has no priority. Only the state after the whole commit counts: a
    // commit may remove the last child and add another.
    priorities = priorities.filter { place, _ in leaves.keys.contains { $0.starts(with: place) } }
  }

  private mutating func set(_ path: [Key], _ node: Node) {
    leaves = leaves.filter { !$0.key.starts(with: path) }
    priorities = priorities.filter { !$0.key.starts(with: path) }
    insert(node, at: path)
    if !node.isAbsent {
      // The nodes above have children now, so they are not leaves.
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
