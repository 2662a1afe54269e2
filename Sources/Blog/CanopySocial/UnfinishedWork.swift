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
  /// The maximum number of posts at which one step of a `StarSearch` looks.
  public static let scannedMax = 1_000
  /// The number of looked-up stars after which such a step ends.
  public static let lookupsMax = 4_000

  /// Whether a tree has unfinished work: a mark. A text or number in the location of the marks is
  /// not one. O(1).
  public static func exists(in root: Node) -> Bool {
    Layout.marks.contains { root.child($0).childCount > 0 }
  }

  /// Whether a write leaves work for later commits, because it writes a mark. O(locations).
  public static func isLeft(by write: Write) -> Bool {
    write.assignments.contains { assignment in
      guard let first = assignment.location.path.keys.first else { return false }
      return !assignment.value.isAbsent && Layout.marks.contains(first)
    }
  }

  /// Decides the next step of a mark. It writes at least the change of the mark, and nothing if there is no such mark. A
  /// mark of `Erasure.stars` has no step: see `StarSearch`.
  ///
  /// A mark in `/deletions` that is not `true`, or in `/erasures` that is not a stage, is removed, and nothing else. Only the
  /// administrator can have made it.
  ///
  /// - Parameters:
  ///   - mark: the mark whose turn it is; nil for the first one.
  ///   - entriesMax: the maximum number of entries that the step changes.
  ///   - deleted: those of `Mark.accountsToDelete` that do not exist any more. Nothing of their users is removed before.
  /// - Complexity: O(`entriesMax` × log n).
  public static func step(
    of mark: Mark? = nil, in proposal: inout Proposal, entriesMax: Int = UnfinishedWork.entriesMax,
    withoutAccounts deleted: [Key] = []
  ) throws -> Decision<Void> {
    let root = proposal.root
    var turns = Turns()
    guard let mark = mark ?? turns.nextMark(in: root) else { return Decision(nil, ()) }
    let key = mark.key
    let node = root.child(mark.place).child(key)
    guard !node.isAbsent else { return Decision(nil, ()) }
    switch mark.place {
    case Layout.renames:
      return Decision(try Write(rename(key, node, in: root, entriesMax: entriesMax)), ())
    case Layout.deletions:
      return Decision(try Write(delete(key, node, in: root, entriesMax: entriesMax)), ())
    default:
      let removal = Erasure.Removal(root: root, now: proposal.now, entriesMax: entriesMax)
      return Decision(try erase(key, by: removal, in: root, withoutAccounts: deleted), ())
    }
  }

  private static func erase(
    _ uid: Key, by removal: Erasure.Removal, in root: Node, withoutAccounts deleted: [Key]
  ) throws -> Write? {
    let place = Layout.path(Layout.erasures, uid)
    var removal = removal
    let rest: Erasure?
    switch Erasure(root.at(place)) {
    case nil: rest = nil
    case .account:
      let changes = Erasure.withoutAccounts(deleted, in: root)
      return changes.isEmpty ? nil : try Write(setting: changes)
    case .posts: rest = removal.removePosts(of: uid) ? .comments : .posts
    case .comments: rest = removal.removeComments(of: uid) ? .stars : .comments
    case .stars: return nil
    }
    let round = Erasure.round(of: root.at(place))
    let change = Assignment(place, rest?.node(round: round) ?? .absent)
    return try Write(setting: removal.distinctAssignments + [change])
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
