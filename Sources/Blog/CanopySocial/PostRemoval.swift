internal import CanopyTree

/// The removal of a post: both copies, the comments, and the id.
///
/// The id stays reserved for its author, in `/removed-posts`, while the rules accept push ids of its age from clients.
/// Otherwise another user could create a post to which existing links lead. Older ids need no reservation. Each removal
/// drops two reservations that are no longer needed, so their number is bounded by the number of posts that are removed
/// within `Limits.pushIDAgeMax`.
struct PostRemoval {
  let root: Node
  /// Milliseconds since 1970.
  let now: Int64
  /// The number of comments that may still be removed in the same commit.
  var commentsLeft: Int

  /// Returns the assignments that remove a post. If it has more than `commentsLeft` comments, they add a mark in
  /// `/deletions`, and `UnfinishedWork` removes the comments in steps.
  ///
  /// - Complexity: O(`commentsLeft` × log n).
  mutating func assignments(of id: Key, by uid: Key) -> [Assignment] {
    var result = Layout.copies(of: id, by: uid).map { Assignment($0, .absent) }
    let comments = root.child(Layout.postComments).child(id)
    if comments.childCount > commentsLeft {
      result.append(Assignment(Layout.path(Layout.deletions, id), true))
    } else if !comments.isAbsent {
      commentsLeft -= comments.childCount
      result.append(Assignment(Layout.path(Layout.postComments, id), .absent))
      comments.forEachChild { comment, node in
        result += PostRemoval.listing(of: comment, node)
        return true
      }
    }
    if let time = PushID.time(of: id), !isExpired(time) {
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

  /// Returns the assignments of a step that removes comments of a removed post.
  static func assignments(
    of comments: [(key: Key, node: Node)], on id: Key
  ) -> [Assignment] {
    comments.flatMap { comment, node in
      [Assignment(Layout.path(Layout.postComments, id, comment), .absent)]
        + listing(of: comment, node)
    }
  }

  /// Returns the assignment that removes a comment from the list by author.
  private static func listing(of comment: Key, _ node: Node) -> [Assignment] {
    guard let author = Posts.uid(of: node) else { return [] }
    return [Assignment(Layout.path(Layout.userComments, author, comment), .absent)]
  }

  private func isExpired(_ time: Int64) -> Bool {
    let (age, overflow) = now.subtractingReportingOverflow(time)
    return overflow || age > Limits.pushIDAgeMax
  }
}
