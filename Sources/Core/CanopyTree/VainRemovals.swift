extension Node {
  /// Returns assignments below this node without the removals at locations that have nothing. These change nothing, and
  /// must neither copy a page nor unpack a packed branch.
  ///
  /// - Parameter assignments: all assignments of a commit, none at or below another.
  /// - Returns: the others, and whether one that was left out is that of a priority or has a priority above it.
  /// - Complexity: O(depth × log siblings) for each removal, and O(bytes) in a packed branch.
  func withoutVainRemovals(
    _ assignments: [Assignment]
  ) -> (others: [Assignment], passesPriority: Bool) {
    var passesPriority = false
    guard
      let first = assignments.firstIndex(where: { isVainRemoval($0, &passesPriority) })
    else { return (assignments, false) }
    var others = Array(assignments[..<first])
    for assignment in assignments[(first + 1)...]
    where !isVainRemoval(assignment, &passesPriority) {
      others.append(assignment)
    }
    return (others, passesPriority)
  }

  /// Whether an assignment removes something that does not exist.
  ///
  /// - Parameter passesPriority: is set to true if so, and if it is that of a priority or has a priority above it.
  private func isVainRemoval(_ assignment: Assignment, _ passesPriority: inout Bool) -> Bool {
    guard assignment.value.isAbsent else { return false }
    let location = assignment.location
    var passes = location.isPriority
    var node = self
    var keys = location.path.keys[...]
    while let key = keys.first {
      if node.isPrioritized { passes = true }
      if let packed = node.packed {
        let count = packed.existingCount(of: keys)
        // A packed branch has no priorities below it.
        guard count < keys.count || location.isPriority else { return false }
        passesPriority = passesPriority || passes
        return true
      }
      node = node.children?.node(key) ?? .absent
      if node.isAbsent { break }
      keys.removeFirst()
    }
    let exists = location.isPriority && keys.isEmpty ? node.isPrioritized : !node.isAbsent
    guard !exists else { return false }
    passesPriority = passesPriority || passes
    return true
  }
}
