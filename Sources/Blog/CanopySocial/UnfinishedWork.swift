public import CanopyEngine
public import CanopyTree

/// Work of the blog that is too long for one commit: changing the name in all posts and comments of a user, removing the
/// comments and other entries of a removed post, and removing everything of a user whose account is deleted.
///
/// All other writes would wait for such a commit. So the first commit changes at most `entriesMax` entries, and adds a mark
/// in `/renames`, `/deletions` or `/erasures`. Each further commit changes as many more, and the last one removes the mark. Other
/// requests run in between. The marks are durable, so a server continues the work after a crash.
///
/// Until a renaming is complete, some entries have the old name. Clients can neither read nor write the comments of a
/// removed post.
public enum UnfinishedWork {
  /// The maximum number of posts and comments that one commit changes.
  ///
  /// In a release build on a busy core, 500 entries occupied the writer for 5 to 6 ms. No request may exceed 10 ms.
  public static let entriesMax = 250
  /// The maximum number of posts in which one commit looks for the stars of a user. Nothing lists the stars by user.
  public static let scannedMax = 1_000

  /// Whether a tree has unfinished work: a mark. A text or number in the place of the marks is
  /// not one. O(1).
  public static func exists(in root: Node) -> Bool {
    Layout.marks.contains { root.child($0).childCount > 0 }
  }

  /// The user whose data is being removed, or the first of several; nil for no user. O(log n).
  public static func erasedUser(in root: Node) -> Key? {
    root.child(Layout.erasures).children(after: nil, limit: 1).first?.key
  }

  /// The user whose data is to be removed as soon as the account is deleted; nil for no user. O(log n).
  public static func accountToDelete(in root: Node) -> Key? {
    let first = root.child(Layout.erasures).children(after: nil, limit: 1).first
    return first.flatMap { Erasure($0.node) == .account ? $0.key : nil }
  }

  /// Whether a write leaves work for later commits, because it writes a mark. O(locations).
  public static func isLeft(by write: Write) -> Bool {
    write.assignments.contains { assignment in
      guard let first = assignment.location.path.keys.first else { return false }
      return !assignment.value.isAbsent && Layout.marks.contains(first)
    }
  }

  /// Decides the next step. It writes at least the change of a mark, and nothing if there is no unfinished work.
  ///
  /// A mark in `/deletions` that is not `true`, or in `/erasures` that is not a stage, is removed, and nothing else. Only the
  /// administrator can have made it.
  ///
  /// - Parameters:
  ///   - entriesMax: the maximum number of entries that the step changes.
  ///   - scannedMax: the maximum number of posts in which the step looks for stars.
  ///   - deleted: the user of `accountToDelete`, if the account does not exist any more. Nothing is written before.
  /// - Complexity: O(`entriesMax` × log n + `scannedMax`).
  public static func step(
    in proposal: inout Proposal, entriesMax: Int = UnfinishedWork.entriesMax,
    scannedMax: Int = UnfinishedWork.scannedMax, withoutAccount deleted: Key? = nil
  ) throws -> Decision<Void> {
    let root = proposal.root
    if let (uid, mark) = root.child(Layout.renames).children(after: nil, limit: 1).first {
      return Decision(try Write(rename(uid, mark, in: root, entriesMax: entriesMax)), ())
    }
    if let (id, mark) = root.child(Layout.deletions).children(after: nil, limit: 1).first {
      return Decision(try Write(delete(id, mark, in: root, entriesMax: entriesMax)), ())
    }
    if let (uid, mark) = root.child(Layout.erasures).children(after: nil, limit: 1).first {
      let erasure = Erasure(mark)
      guard erasure != .account || deleted == uid else { return Decision(nil, ()) }
      let place = Layout.path(Layout.erasures, uid)
      guard let erasure else { return Decision(try Write([.init(place, .absent)]), ()) }
      var step = Erasure.Step(
        uid: uid, root: root, now: proposal.now, entriesMax: entriesMax, scannedMax: scannedMax)
      let rest = step.carryOut(erasure)
      let mark = Assignment(place, rest?.node ?? .absent)
      return Decision(try Write(setting: step.distinctAssignments + [mark]), ())
    }
    return Decision(nil, ())
  }

  private static func rename(
    _ uid: Key, _ mark: Node, in root: Node, entriesMax: Int
  ) -> [Write.Item] {
    let place = Layout.path(Layout.renames, uid)
    // Without a profile there is no new name.
    guard let name = Users.username(of: uid, in: root) else { return [.init(place, .absent)] }
    let (assignments, rest) = Renaming(mark).step(
      of: uid, named: Node(name), in: root, entriesMax: entriesMax)
    return assignments.map(Write.Item.init) + [.init(place, rest?.node ?? .absent)]
  }

  private static func delete(
    _ id: Key, _ value: Node, in root: Node, entriesMax: Int
  ) -> [Write.Item] {
    let mark = Write.Item(Layout.path(Layout.deletions, id), .absent)
    // Only the administrator can have restored the post. Its comments stay.
    guard value == true, root.child(Layout.posts).child(id).isAbsent else { return [mark] }
    let (assignments, isLast) = PostRemoval.step(of: id, in: root, entriesMax: entriesMax)
    return assignments.map(Write.Item.init) + (isLast ? [mark] : [])
  }
}

extension Write.Item {
  /// Creates the item for an assignment.
  init(_ assignment: Assignment) {
    self.init(assignment.location, WriteValue(assignment.value))
  }
}
