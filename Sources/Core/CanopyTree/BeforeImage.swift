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
    var previous: Path?
    for assignment in assignments {
      let path = assignment.location.path
      // The images have the priorities that are also above the previous location.
      let known = previous.map { min($0.sharedCount(with: path) + 1, $0.count) } ?? 0
      addImage(of: assignment.location, prioritiesFrom: known, to: &images)
      previous = path
    }
    return images.sortedByLocation().withoutOverlaps()
  }

  private func addImage(
    of location: Location, prioritiesFrom known: Int, to images: inout [Assignment]
  ) {
    var node = root
    for (depth, key) in location.path.keys.enumerated() {
      guard node.isBranch else {
        images.append(Assignment(location.path.prefix(depth), node))
        return
      }
      if depth >= known, !node.priority.isAbsent {
        images.append(
          Assignment(Location(location.path.prefix(depth), isPriority: true), node.priority))
      }
      node = node.child(key)
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
    var result: [Assignment] = []
    result.reserveCapacity(count)
    for assignment in self {
      if let last = result.last, last.location.overlaps(next: assignment.location) { continue }
      result.append(assignment)
    }
    return result
  }
}
