import CanopyTree

extension NaiveTree {
  /// The same contents as a node, built from the leaves up.
  var node: Node {
    var node = leaf?.node ?? .absent
    if leaf == nil {
      // Not in order, so that the tree has to sort.
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
