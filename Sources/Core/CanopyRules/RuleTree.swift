internal import CanopyTree

/// The tree of the keys in a rules file, as flat arrays, with the rules of each node.
struct RuleTree: Sendable {
  /// One node: a key, or a wildcard for all keys that have no node beside it.
  struct RuleNode: Sendable {
    /// The index in `Program.rules`; -1 for none.
    var read: Int32 = -1
    var write: Int32 = -1
    var validate: Int32 = -1
    /// The range of the named children in `children`.
    var firstChild: Int32 = 0
    var childCount: Int32 = 0
    /// The node of all other children; -1 for none.
    var wildcard: Int32 = -1
    /// The parent; -1 for the root.
    var parent: Int32 = -1
    /// Whether a node below has a `.validate`.
    var validatesBelow = false
  }

  /// The nodes; the root is the first.
  var nodes: [RuleNode] = []
  /// The name of each node in the file.
  var labels: [String] = []
  /// The named children of all nodes, ordered by key within each node.
  var children: [(key: Key, node: Int32)] = []

  /// The most named children that are searched linearly; more are bisected.
  private static let scanMax: Int32 = 8

  /// Returns the node for a child; -1 if there is none.
  func child(_ key: Key, of node: Int32) -> Int32 {
    let node = nodes[Int(node)]
    var low = node.firstChild
    var high = low + node.childCount
    if node.childCount > Self.scanMax {
      while low < high {
        let middle = (low + high) / 2
        if children[Int(middle)].key < key { low = middle + 1 } else { high = middle }
      }
      high = min(low + 1, node.firstChild + node.childCount)
    }
    while low < high {
      if children[Int(low)].key == key { return children[Int(low)].node }
      low += 1
    }
    return node.wildcard
  }

  /// Returns the path of a node: `/posts/$id`.
  func path(of node: Int32) -> String {
    var labels: [String] = []
    var node = node
    while node > 0 {
      labels.append(self.labels[Int(node)])
      node = nodes[Int(node)].parent
    }
    return "/" + labels.reversed().joined(separator: "/")
  }

  /// Returns the path of a rule: `/posts/$id/.write`.
  func path(of rule: Program.Rule) -> String {
    let path = path(of: rule.node)
    return (path == "/" ? "" : path) + "/" + rule.kind.rawValue
  }
}
