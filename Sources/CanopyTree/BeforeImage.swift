extension Tree {
  /// What has to be assigned to take assignments back: the before-images of the places that they
  /// write, in order, none at or below another.
  ///
  /// To be asked before they are applied. Where a write makes a branch of a leaf, the image is of the
  /// leaf; and as a branch loses its priority with its last child, the priorities on the way are
  /// part of it.
  ///
  /// O(depth × log siblings) for each.
  public func beforeImage(of assignments: [Assignment]) -> [Assignment] {
    var images: [Assignment] = []
    images.reserveCapacity(assignments.count)
    for assignment in assignments { addImage(of: assignment.location, to: &images) }
    return images.sortedByLocation().withoutOverlaps()
  }

  private func addImage(of location: Location, to images: inout [Assignment]) {
    var node = root
    for (depth, key) in location.path.keys.enumerated() {
      guard node.isBranch else {
        images.append(Assignment(location.path.prefix(depth), node))
        return
      }
      if !node.priority.isAbsent {
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
  /// Without those at or below the one before; of an order by location.
  fileprivate func withoutOverlaps() -> [Assignment] {
    var result: [Assignment] = []
    result.reserveCapacity(count)
    for assignment in self {
      if let last = result.last, last.location.overlaps(next: assignment.location) { continue }
      result.append(assignment)
    }
    return result
  }
}
