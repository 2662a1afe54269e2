internal import CanopyTree

/// The removal of a post: both copies, the comments and other entries, and the id.
///
/// The id stays reserved for its author, in `/removed-posts`, while the rules accept push ids of its age from clients.
/// Otherwise another user could create a post to which existing links lead. Older ids need no reservation. Each removal
/// drops two reservations that are no longer needed, so their number is bounded by the number of posts that are removed
/// within `Limits.pushIDAgeMax`.
struct PostRemoval {
  let root: Node
  /// Milliseconds since 1970.
  let now: Int64
  /// The number of comments, and of other entries of posts, that may still be removed in the same commit.
  var entriesLeft: Int
  /// Whether the id stays reserved. Under other rules than the built-in ones anyone may be allowed to read
  /// `/removed-posts`, and it may have data of the administrator.
  var reservesID = true

  /// Returns the assignments that remove a post. If it has more than `entriesLeft` entries, they add a mark in
  /// `/deletions`, and `UnfinishedWork` removes the entries in steps.
  ///
  /// - Complexity: O(`entriesLeft` × log n).
  mutating func assignments(of id: Key, by uid: Key) -> [Assignment] {
    var result = Layout.copies(of: id, by: uid).map { Assignment($0, .absent) }
    let count = Layout.postEntries.reduce(0) { $0 + $1.entries(of: id, in: root).childCount }
    if count > entriesLeft {
      result.append(Assignment(Layout.path(Layout.deletions, id), true))
    } else {
      entriesLeft -= count
      for kind in Layout.postEntries {
        let entries = kind.entries(of: id, in: root)
        guard !entries.isAbsent else { continue }
        result.append(Assignment(Layout.path(kind.place, id), .absent))
        entries.forEachChild { key, entry in
          result += kind.removal(ofCopiesOf: key, entry, on: id)
          return true
        }
      }
    }
    if reservesID, let time = PushID.time(of: id), !isExpired(time) {
      result.append(Assignment(Layout.path(Layout.removedPosts, id), Node(uid.text)))
    }
    return result
  }

  /// Returns the assignments that drop reservations that are no longer needed. O(`limit`).
  func expiredReservations(limit: Int) -> [Assignment] {
    root.child(Layout.removedPosts).children(after: nil, limit: limit)
      .filter { PushID.time(of: $0.key).map(isExpired) ?? true }
      .map { Assignment(Layout.path(Layout.removedPosts, $0.key), .absent) }
  }

  /// Returns the assignments of a step that removes entries of a removed post, and whether they are the last ones.
  ///
  /// - Complexity: O(`entriesMax` × log n).
  static func step(
    of id: Key, in root: Node, entriesMax: Int
  ) -> (assignments: [Assignment], isLast: Bool) {
    var result: [Assignment] = []
    var left = entriesMax
    for kind in Layout.postEntries {
      let entries = kind.entries(of: id, in: root)
      let first = entries.children(after: nil, limit: left)
      for (key, entry) in first {
        result.append(Assignment(Layout.path(kind.place, id, key), .absent))
        result += kind.removal(ofCopiesOf: key, entry, on: id)
      }
      guard first.count == entries.childCount else { return (result, false) }
      left -= first.count
    }
    return (result, true)
  }

  private func isExpired(_ time: Int64) -> Bool {
    let (age, overflow) = now.subtractingReportingOverflow(time)
    return overflow || age > Limits.pushIDAgeMax
  }
}
