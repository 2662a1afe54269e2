public import CanopyEngine
public import CanopyTree

/// The data of the blog that the server derives from a client's own writes to the tree, in the same commit.
///
/// Requests such as POST and COMMENT write all copies themselves. A raw write, as in the published samples, may write only
/// one: a star on one copy of a post, or a comment without the count. The server adds:
///
/// - the same change to the other copy of a post, in `/posts` or `/user-posts`;
/// - for a comment, `commentCount` in both copies and the entry in `/user-comments`;
/// - for the removal of a post, the removal of its comments and the reservation of its id;
/// - for a user name in a profile, the claim in `/usernames`, and the same changes as a RENAME; for a profile without
///   `createdAt`, that time.
///
/// The stars in `/posts` are the original, and the server replaces those of a write to `/user-posts` by them. So a client
/// that toggles its star with one transaction in each location, as the published samples do, toggles it once.
///
/// So after any write that the built-in rules allow, `SocialCheck` finds no problem. A write that contradicts the derived
/// data, such as a different title for each copy, is refused as a whole.
public enum DerivedData {
  /// The maximum number of locations of one write from which data is derived: that of posts and comments in one commit of
  /// `UnfinishedWork`. Each location is applied twice, and the other writers wait meanwhile.
  public static let locationsMax = UnfinishedWork.entriesMax

  /// Whether a write has more locations from which data is derived than it may. O(locations) if it has that many, else
  /// O(1).
  public static func isTooLarge(_ locations: some Collection<Location>) -> Bool {
    guard locations.count > locationsMax else { return false }
    return locations.reduce(0) { isSource($1) ? $0 + 1 : $0 } > locationsMax
  }

  /// Whether data may be derived from a write at a location.
  private static func isSource(_ location: Location) -> Bool {
    switch location.path.keys.first {
    case Layout.posts, Layout.userPosts, Layout.postComments, Layout.userComments: true
    default: false
    }
  }

  /// Returns all assignments of the commit, in the order of their locations and without overlaps; nil if there is no
  /// derived data.
  ///
  /// - Parameters:
  ///   - commentsMax: the maximum number of comments, and of other entries, that the commit removes with their posts.
  ///   - wait: returns the milliseconds that a user must wait before a renaming, or nil to continue, from the uid, a
  ///     function that counts the posts and comments to change, and the time.
  /// - Throws: `EngineError.denied` if the write contradicts the derived data. `SocialError.permissionDenied` if another user
  ///   has the name; `.rateLimited` if `wait` returns a time.
  /// - Complexity: O(assignments × log n), plus O(`commentsMax`) if posts are removed. Independent of the number of stars
  ///   on a post.
  public static func assignments(
    following write: ProposedWrite, commentsMax: Int = UnfinishedWork.entriesMax,
    wait: (_ uid: Key, _ entries: @escaping () -> Int, _ now: Int64) -> Int64? = { _, _, _ in nil }
  ) throws -> [Assignment]? {
    var derivation = Derivation(write: write)
    for assignment in derivation.assignments { try derivation.add(assignment) }
    derivation.addRemovals(commentsMax: commentsMax)
    derivation.addCommentCounts()
    try derivation.addProfiles(wait)
    return try derivation.merged()
  }
}

private struct Derivation {
  let write: ProposedWrite
  /// The assignments of the write, with the stars of the original in each copy of a post.
  private(set) var assignments: [Assignment]
  /// Whether `assignments` differ from those of the write.
  private var isChanged = false
  private var derived: [Assignment] = []
  /// The authors of the posts that are removed, by id.
  private var removed: [Key: Key] = [:]
  /// The posts whose number of comments has changed.
  private var counted: Set<Key> = []
  /// The users whose profiles are written.
  private var profiles: Set<Key> = []

  init(write: ProposedWrite) {
    self.write = write
    assignments = write.assignments
    for (i, assignment) in write.assignments.enumerated() {
      guard let value = originalStars(in: assignment) else { continue }
      assignments[i].value = value
      isChanged = true
    }
  }

  /// Returns the value of an assignment to the copy of a post, with the stars that the original has after the write; nil if
  /// these are the stars of the value.
  ///
  /// - Complexity: O(log n), and O(stars) for the value of a whole post.
  private func originalStars(in assignment: Assignment) -> Node? {
    let keys = assignment.location.path.keys
    guard keys.count > 2, keys[0] == Layout.userPosts, !assignment.location.isPriority else {
      return nil
    }
    let original = Layout.path(Layout.posts, keys[2])
    let post = write.after.at(original)
    // A post that the write creates has the stars that the write gives it.
    guard !post.isAbsent, write.before.at(original).child(Layout.uid).hasText(of: keys[1]) else {
      return nil
    }
    var value = assignment.value
    if keys.count == 3 {
      guard !value.isAbsent else { return nil }
      for key in [Layout.stars, Layout.starCount] where value.child(key) != post.child(key) {
        value.set(post.child(key), at: Layout.path(key))
      }
    } else if keys[3] == Layout.stars || keys[3] == Layout.starCount {
      value = keys[3...].reduce(post) { $0.child($1) }
    }
    return value == assignment.value ? nil : value
  }

  /// Adds the assignments that are derived from one assignment.
  mutating func add(_ assignment: Assignment) throws(EngineError) {
    let keys = assignment.location.path.keys
    switch keys.first {
    case Layout.posts:
      guard keys.count > 1 else { throw .denied }
      try addCopy(of: keys[1], at: assignment)
    case Layout.userPosts:
      guard keys.count > 2 else { throw .denied }
      try addOriginal(of: keys[2], by: keys[1], at: assignment)
    case Layout.postComments:
      guard keys.count > 2 else { throw .denied }
      try addListing(of: keys[2], on: keys[1])
    case Layout.userComments:
      guard keys.count > 2 else { throw .denied }
      try checkListing(of: keys[2], by: keys[1])
    case Layout.users:
      guard keys.count > 1 else { throw .denied }
      profiles.insert(keys[1])
    default: break
    }
  }

  /// Adds the same assignment in `/user-posts`.
  private mutating func addCopy(of id: Key, at assignment: Assignment) throws(EngineError) {
    let place = Layout.path(Layout.posts, id)
    let (old, new) = (write.before.at(place), write.after.at(place))
    if old.isAbsent, new.isAbsent { return }
    guard let uid = Posts.uid(of: old) ?? Posts.uid(of: new) else { throw .denied }
    let copy = Layout.path(Layout.userPosts, uid, id)
    let oldCopy = write.before.at(copy)
    // Only the administrator can have removed one of the copies. A write to the other does not restore it.
    guard !old.isAbsent || (oldCopy.isAbsent && !hasUnfinishedRemoval(id)) else { throw .denied }
    if new.isAbsent { removed[id] = uid }
    guard old.isAbsent || oldCopy.child(Layout.uid).hasText(of: uid) else { return }
    move(assignment, from: place, to: copy)
  }

  /// Adds the same assignment in `/posts`.
  private mutating func addOriginal(
    of id: Key, by uid: Key, at assignment: Assignment
  ) throws(EngineError) {
    let place = Layout.path(Layout.userPosts, uid, id)
    let (old, new) = (write.before.at(place), write.after.at(place))
    if old.isAbsent, new.isAbsent { return }
    let original = Layout.path(Layout.posts, id)
    let oldOriginal = write.before.at(original)
    if old.isAbsent {
      guard oldOriginal.isAbsent, !hasUnfinishedRemoval(id) else { throw .denied }
    } else {
      guard old.child(Layout.uid).hasText(of: uid), oldOriginal.child(Layout.uid).hasText(of: uid)
      else { return }
    }
    if new.isAbsent { removed[id] = uid }
    move(assignment, from: place, to: original)
  }

  /// Whether comments of a removed post with this id are still to be removed. A new post would lose its own comments.
  private func hasUnfinishedRemoval(_ id: Key) -> Bool {
    !write.before.at(Layout.path(Layout.deletions, id)).isAbsent
  }

  private mutating func move(_ assignment: Assignment, from place: Path, to other: Path) {
    guard let rest = assignment.location.path.relative(to: place) else { return }
    let location = Location(
      other.appending(rest), isPriority: assignment.location.isPriority)
    derived.append(Assignment(location, assignment.value))
  }

  /// Adds or removes the entry of a comment in `/user-comments`.
  private mutating func addListing(of comment: Key, on id: Key) throws(EngineError) {
    let place = Layout.path(Layout.postComments, id, comment)
    let (old, new) = (write.before.at(place), write.after.at(place))
    guard old.isAbsent != new.isAbsent else { return }
    guard let author = Posts.uid(of: old.isAbsent ? new : old) else { throw .denied }
    let listing = Layout.path(Layout.userComments, author, comment)
    counted.insert(id)
    if new.isAbsent {
      derived.append(Assignment(listing, .absent))
    } else {
      // A user's comments have distinct ids across all posts, because the list has one entry for each id.
      guard write.before.at(listing).isAbsent else { throw .denied }
      derived.append(Assignment(listing, Node(id.text)))
    }
  }

  /// Refuses an entry for a comment that does not exist, and the removal of the entry of a comment that exists.
  private func checkListing(of comment: Key, by uid: Key) throws(EngineError) {
    let place = Layout.path(Layout.userComments, uid, comment)
    let (old, new) = (write.before.at(place), write.after.at(place))
    guard old != new else { return }
    if !new.isAbsent {
      guard isComment(comment, on: new, by: uid) else { throw .denied }
    }
    guard old.isAbsent || !isComment(comment, on: old, by: uid) else { throw .denied }
  }

  /// Whether a comment of the user exists after the write.
  private func isComment(_ comment: Key, on post: Node, by uid: Key) -> Bool {
    guard let id = post.stringValue.flatMap({ try? Key($0) }) else { return false }
    return write.after.at(Layout.path(Layout.postComments, id, comment, Layout.uid))
      .hasText(of: uid)
  }

  /// Adds the removal of all data of removed posts.
  mutating func addRemovals(commentsMax: Int) {
    guard !removed.isEmpty else { return }
    var removal = PostRemoval(root: write.after, now: write.time, entriesLeft: commentsMax)
    for (id, uid) in removed.sorted(by: { $0.key < $1.key }) {
      derived += removal.assignments(of: id, by: uid)
    }
    derived += removal.expiredReservations(limit: 2 * removed.count)
  }

  /// Adds the number of comments in both copies of a post.
  mutating func addCommentCounts() {
    for id in counted where removed[id] == nil {
      let post = write.after.at(Layout.path(Layout.posts, id))
      guard let uid = Posts.uid(of: post) else { continue }
      let count = write.after.at(Layout.path(Layout.postComments, id)).childCount
      let isNew = write.before.at(Layout.path(Layout.posts, id)).isAbsent
      for copy in Layout.copies(of: id, by: uid)
      where isNew || write.before.at(copy).child(Layout.uid).hasText(of: uid) {
        derived.append(Assignment(copy.child(Layout.commentCount), Comments.node(count: count)))
      }
    }
  }

  /// Adds the claims of user names, the changes of names in posts and comments, and the times of profiles.
  mutating func addProfiles(
    _ wait: (_ uid: Key, _ entries: @escaping () -> Int, _ now: Int64) -> Int64?
  ) throws {
    for uid in profiles.sorted() {
      let place = Layout.path(Layout.users, uid)
      let (old, new) = (write.before.at(place), write.after.at(place))
      guard let name = new.child(Layout.username).stringValue else { throw EngineError.denied }
      if new.child(Layout.createdAt).isAbsent {
        let time = old.child(Layout.createdAt)
        complete(place.child(Layout.createdAt), time.isAbsent ? Node(write.time) : time)
      }
      do {
        let naming = try Users.naming(
          uid, name, before: write.before, after: write.after,
          hasNewName: old.child(Layout.username) != new.child(Layout.username)
        ) { wait(uid, $0, write.time) }
        // The name does not change in posts and comments that go in this commit.
        let gone = Set(derived.lazy.filter { $0.value.isAbsent }.map(\.location.path))
        derived += gone.isEmpty ? naming : naming.filter { !isBelow($0.location.path, gone) }
      } catch SocialError.conflict(let text) {
        // The error is that of the rules, with the reason: every client may read which user has a name.
        throw SocialError.permissionDenied(text)
      }
    }
  }

  private func isBelow(_ path: Path, _ places: Set<Path>) -> Bool {
    var path = path
    while let parent = path.parent {
      if places.contains(parent) { return true }
      path = parent
    }
    return false
  }

  /// Adds a value below one that the write may set.
  private mutating func complete(_ path: Path, _ value: Node) {
    if let index = assignments.lastIndex(where: {
      !$0.location.isPriority && path.hasPrefix($0.location.path)
    }), let rest = path.relative(to: assignments[index].location.path), !rest.isRoot {
      assignments[index].value.set(value, at: rest)
      isChanged = true
    } else {
      derived.append(Assignment(path, value))
    }
  }

  /// Returns the assignments of the write and the derived ones, sorted and without overlaps; nil if none was derived.
  ///
  /// - Throws: `EngineError.denied` if two assignments give a location different values.
  func merged() throws(EngineError) -> [Assignment]? {
    if derived.isEmpty, !isChanged { return nil }
    var result: [Assignment] = []
    for assignment in (assignments + derived).sorted(by: { $0.location < $1.location }) {
      guard let last = result.last, last.location.overlaps(next: assignment.location) else {
        result.append(assignment)
        continue
      }
      guard last.value(at: assignment.location) == assignment.value else { throw .denied }
    }
    return result
  }
}

extension Assignment {
  /// Returns the value that the assignment gives to a location at or below its own.
  fileprivate func value(at other: Location) -> Node {
    if location == other { return value }
    let node = value.at(other.path.relative(to: location.path) ?? .root)
    return other.isPriority ? node.priority : node
  }
}
