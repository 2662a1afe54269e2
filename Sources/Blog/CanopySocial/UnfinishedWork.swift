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

  /// Decides the next step of a mark. It writes at least the change of the mark, and nothing if there is no such mark.
  ///
  /// A mark in `/deletions` that is not `true`, or in `/erasures` that is not a stage, is removed, and nothing else. Only the
  /// administrator can have made it.
  ///
  /// - Parameters:
  ///   - mark: the mark whose turn it is; nil for the first one.
  ///   - entriesMax: the maximum number of entries that the step changes.
  ///   - scannedMax: the maximum number of posts in which the step looks for stars.
  ///   - deleted: the user of `Mark.accountToDelete`, if the account does not exist any more. Nothing is written before.
  /// - Complexity: O(`entriesMax` × log n + `scannedMax`).
  public static func step(
    of mark: Mark? = nil, in proposal: inout Proposal, entriesMax: Int = UnfinishedWork.entriesMax,
    scannedMax: Int = UnfinishedWork.scannedMax, withoutAccount deleted: Key? = nil
  ) throws -> Decision<Void> {
    let root = proposal.root
    var turns = Turns()
    guard let mark = mark ?? turns.next(in: root) else { return Decision(nil, ()) }
    let key = mark.key
    let node = root.child(mark.place).child(key)
    guard !node.isAbsent else { return Decision(nil, ()) }
    switch mark.place {
    case Layout.renames:
      return Decision(try Write(rename(key, node, in: root, entriesMax: entriesMax)), ())
    case Layout.deletions:
      return Decision(try Write(delete(key, node, in: root, entriesMax: entriesMax)), ())
    default:
      let erasure = Erasure(node)
      guard erasure != .account || deleted == key else { return Decision(nil, ()) }
      let place = Layout.path(Layout.erasures, key)
      guard let erasure else { return Decision(try Write([.init(place, .absent)]), ()) }
      var step = Erasure.Step(
        uid: key, root: root, now: proposal.now, entriesMax: entriesMax, scannedMax: scannedMax)
      let rest = step.carryOut(erasure)
      let mark = Assignment(place, rest?.node ?? .absent)
      return Decision(try Write(setting: step.distinctAssignments + [mark]), ())
    }
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

extension UnfinishedWork {
  /// The mark of one renaming, one removed post or one deleted user.
  public struct Mark: Equatable, Sendable {
    /// One of `Layout.marks`.
    let place: Key
    let key: Key
    /// The user whose account must be deleted before the step; nil for no user.
    public let accountToDelete: Key?

    /// The user whose data the work removes; nil for other work.
    public var erasedUser: Key? { place == Layout.erasures ? key : nil }

    /// Whether a tree still has the mark, because more steps follow.
    public func exists(in root: Node) -> Bool { !root.child(place).child(key).isAbsent }
  }

  /// The turns of the marks. Each mark gets a step before another gets its second one, so the work of one user delays that
  /// of others only in proportion to the number of users.
  ///
  /// A search for the stars of a deleted user takes many steps, and other users hardly see its effect. So as long as
  /// another mark exists, it comes first: the posts and comments of all deleted users are removed before any search.
  ///
  /// The turns are not stored. After a restart they begin again.
  public struct Turns: Sendable {
    /// The maximum number of marks in `/erasures` that one call examines. With more marks the search goes on with the next
    /// call, and searches for stars take turns meanwhile.
    static let examinedMax = 1_000

    /// The location and the key of the mark that was examined last.
    private var last: (place: Int, key: Key)?
    /// The user for whose stars a step searched last.
    private var lastSearch: Key?

    /// Begins with the first mark.
    public init() {}

    /// Returns the mark whose turn it is; nil if a tree has no unfinished work.
    ///
    /// - Complexity: O(`examinedMax` + log n).
    public mutating func next(in root: Node) -> Mark? {
      if let mark = nextWithoutSearch(in: root) { return mark }
      let erasures = root.child(Layout.erasures)
      let found =
        erasures.children(after: lastSearch, limit: 1).first
        ?? erasures.children(after: nil, limit: 1).first
      lastSearch = found?.key
      return found.map { Mark(Layout.erasures, $0.key, $0.node) }
    }

    /// Returns the next mark whose step is no search for stars; nil if none was found.
    private mutating func nextWithoutSearch(in root: Node) -> Mark? {
      var left = Self.examinedMax
      let begin = last
      // The location of the last mark comes first and last: the marks after it, and those before it.
      for offset in 0...Layout.marks.count where left > 0 {
        let index = ((begin?.place ?? 0) + offset) % Layout.marks.count
        let place = Layout.marks[index]
        let limit = place == Layout.erasures ? left : 1
        let after = offset == 0 ? begin?.key : nil
        for (key, node) in root.child(place).children(after: after, limit: limit) {
          last = (index, key)
          left -= 1
          if place == Layout.erasures, case .stars = Erasure(node) { continue }
          return Mark(place, key, node)
        }
      }
      return nil
    }
  }
}

extension UnfinishedWork.Mark {
  fileprivate init(_ place: Key, _ key: Key, _ node: Node) {
    self.place = place
    self.key = key
    accountToDelete = place == Layout.erasures && Erasure(node) == .account ? key : nil
  }
}

extension Write.Item {
  /// Creates the item for an assignment.
  init(_ assignment: Assignment) {
    self.init(assignment.location, WriteValue(assignment.value))
  }
}
