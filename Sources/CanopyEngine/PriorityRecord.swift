internal import CanopyTree

/// Makes what a commit does to priorities explicit, so that its assignments are absolute.
///
/// A commit can take a priority away without naming it: that of a branch whose last child it removes.
/// It can also name one to no effect: that of a place where nothing stands. Neither is the same again
/// when the commit is applied to a checkpoint of which parts are newer, where the branch has another
/// child by now, or something stands at that place. So a commit also records the priorities, as they
/// are after it, of all branches above what it wrote that had one, and of all places whose priority
/// it set.
///
/// A few lookups; priorities are rare, so mostly there is nothing to record.
struct PriorityRecord {
  private var places: [Path] = []

  /// Looks for priorities above what assignments are about to write.
  ///
  /// - Parameters:
  ///   - assignments: in the order of their locations.
  ///   - root: the tree before them.
  init(of assignments: [Assignment], in root: Node) {
    collect(assignments[...], root, depth: 0)
  }

  private mutating func collect(_ group: ArraySlice<Assignment>, _ node: Node, depth: Int) {
    guard let first = group.first else { return }
    if !node.priority.isAbsent { places.append(first.location.path.prefix(depth)) }
    var rest = group.drop { $0.location.path.count <= depth + 1 }
    while node.isBranch, let key = rest.first?.location.path.keys[depth] {
      let end = rest.firstIndex { $0.location.path.keys[depth] != key } ?? rest.endIndex
      let below = rest[..<end].drop { $0.location.path.count == depth + 1 }
      collect(below, node.child(key), depth: depth + 1)
      rest = rest[end...].drop { $0.location.path.count <= depth + 1 }
    }
  }

  /// Adds what is to be recorded.
  ///
  /// - Parameters:
  ///   - assignments: those that this was made of.
  ///   - root: the tree after them.
  func complete(_ assignments: inout [Assignment], in root: Node) {
    var isExplicit: Set<Path> = []
    for i in assignments.indices where assignments[i].location.isPriority {
      let path = assignments[i].location.path
      assignments[i].value = root.at(path).priority
      isExplicit.insert(path)
    }
    let missing = places.filter { !isExplicit.contains($0) }
    guard !missing.isEmpty else { return }
    assignments += missing.map {
      Assignment(Location($0, isPriority: true), root.at($0).priority)
    }
    assignments.sort { $0.location < $1.location }
  }
}
