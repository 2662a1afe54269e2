extension Tree {
  /// Returns the assignments that undo `assignments`: the before-images of the locations that they
  /// write, in order, none at or below another.
  ///
  /// Call this before the assignments are applied. If a write replaces a leaf by a branch, the
  /// image is the leaf. A branch loses its priority with its last child, so the image includes the
  /// priorities on the way to each location.
  ///
  /// - Complexity: O(depth × log siblings) for each assignment.
  public func beforeImage(of assignments: [Assignment]) -> [Assignment] {
    var images: [Assignment] = []
    images.reserveCapacity(assignments.count)
    // The nodes on the way to the previous location, as far as there are any, and none in packed branches. The first is
    // the root.
    var nodes: [Node] = []
    nodes.reserveCapacity(8)
    nodes.append(root)
    var previous: Path?
    for assignment in assignments {
      let path = assignment.location.path
      let shared = previous?.sharedCount(with: path) ?? 0
      if nodes.count > shared + 1 { nodes.removeLast(nodes.count - shared - 1) }
      // The images have the priorities that are also above the previous location.
      let known = previous.map { min(shared + 1, $0.count) } ?? 0
      addImage(of: assignment.location, prioritiesFrom: known, on: &nodes, to: &images)
      previous = path
    }
    return images.sortedByLocation().withoutOverlaps()
  }

  /// Adds the image of a location.
  ///
  /// - Parameter nodes: the nodes at the first keys of the path; those at the other keys are added.
  private func addImage(
    of location: Location, prioritiesFrom known: Int, on nodes: inout [Node],
    to images: inout [Assignment]
  ) {
    let keys = location.path.keys
    var node = nodes.last ?? root
    for depth in (nodes.count - 1)..<keys.count {
      guard node.isBranch else {
        images.append(Assignment(location.path.prefix(depth), node))
        return
      }
      if depth >= known, !node.priority.isAbsent {
        images.append(
          Assignment(Location(location.path.prefix(depth), isPriority: true), node.priority))
      }
      if case .packed(let packed) = node.storage {
        let end = packed.end(of: keys[depth...])
        guard depth + end.depth == keys.count else {
          images.append(Assignment(location.path.prefix(depth + end.depth), end.node))
          return
        }
        node = end.node
        break
      }
      node = node.child(keys[depth])
      nodes.append(node)
    }
    if location.isPriority, !node.isAbsent {
      images.append(Assignment(location, node.priority))
    } else {
      images.append(Assignment(location.path, node))
    }
  }
}

extension [Assignment] {
  /// Returns the assignments without those at or below the preceding one.
  ///
  /// - Precondition: the assignments are sorted by location.
  fileprivate func withoutOverlaps() -> [Assignment] {
    assert(zip(self, dropFirst()).allSatisfy { $0.location <= $1.location }, "not sorted")
    let isOverlapping = indices.dropFirst().contains {
      self[$0 - 1].location.overlaps(next: self[$0].location)
    }
    guard isOverlapping else { return self }
    var result: [Assignment] = []
    result.reserveCapacity(count)
    for assignment in self {
      if let last = result.last, last.location.overlaps(next: assignment.location) { continue }
      result.append(assignment)
    }
    return result
  }
}
