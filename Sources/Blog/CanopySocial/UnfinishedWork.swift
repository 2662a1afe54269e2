internal import CanopyEngine
public import CanopyTree

/// Work of the blog that is too long for one commit: the new name on everything that a user has written,
/// and the removal of the comments of a removed post.
///
/// The writer would keep everybody waiting meanwhile. So the first commit does at most `entriesMax` entries
/// and leaves a mark in the tree, in `/renames` or `/deletions`; each further commit does as many more,
/// and the last one removes the mark. Other requests are carried out in between. The marks are as durable as
/// the rest of the tree, so a server that was killed goes on where it was.
///
/// Until a renaming is complete, older entries carry an older name. Comments of a removed post can be
/// neither read nor written by clients.
public enum UnfinishedWork {
  /// The most posts and comments that one commit changes.
  ///
  /// Measured in a release build on a core that was busy otherwise: 500 kept the writer for 5 to 6
  /// milliseconds, so these leave it room below the 10 that no request may exceed.
  public static let entriesMax = 250

  /// Whether a tree has a mark. O(1).
  public static func exists(in root: Node) -> Bool {
    !root.child(Layout.renames).isAbsent || !root.child(Layout.deletions).isAbsent
  }

  /// Returns the transaction that does the next step; nil if nothing is unfinished.
  ///
  /// - Complexity: O(`entriesMax` × log n).
  public static func step(
    in root: Node, entriesMax: Int = UnfinishedWork.entriesMax
  ) -> BlogTransaction<Void>? {
    guard exists(in: root) else { return nil }
    return { proposal in
      let root = proposal.root
      if let (uid, mark) = root.child(Layout.renames).children(after: nil, limit: 1).first {
        return Decision(try Write(rename(uid, mark, in: root, entriesMax: entriesMax)), ())
      }
      if let (id, _) = root.child(Layout.deletions).children(after: nil, limit: 1).first {
        return Decision(try Write(delete(id, in: root, entriesMax: entriesMax)), ())
      }
      return Decision(nil, ())
    }
  }

  private static func rename(
    _ uid: Key, _ mark: Node, in root: Node, entriesMax: Int
  ) -> [Write.Item] {
    let place = Layout.path(Layout.renames, uid)
    // Without a profile there is no name to put anywhere.
    guard let name = Users.username(of: uid, in: root) else { return [.init(place, .absent)] }
    let (items, rest) = Renaming(mark).step(
      of: uid, named: Node(name), in: root, entriesMax: entriesMax)
    return items + [.init(place, rest?.node ?? .absent)]
  }

  private static func delete(_ id: Key, in root: Node, entriesMax: Int) -> [Write.Item] {
    let comments = root.child(Layout.postComments).child(id)
    let first = comments.children(after: nil, limit: entriesMax)
    var items = PostRemoval.assignments(of: first, on: id).map(Write.Item.init)
    if first.count == comments.childCount {
      items.append(.init(Layout.path(Layout.deletions, id), .absent))
    }
    return items
  }
}

extension Write.Item {
  /// The item that makes an assignment.
  init(_ assignment: Assignment) {
    self.init(assignment.location, WriteValue(assignment.value))
  }
}
