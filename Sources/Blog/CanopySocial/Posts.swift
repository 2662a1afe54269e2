public import CanopyEngine
public import CanopyTree

/// Posts. Each has two copies, and every change writes both in one commit.
///
/// The functions that take a `Proposal` decide a transaction, on the engine's thread:
///
///     try await engine.transact { try Posts.toggleStar(id, by: uid, in: &$0) }
public enum Posts {
  /// Creates a post. The result is its id.
  ///
  /// Precondition: `Texts.checkPost` accepts the texts.
  public static func create(
    by uid: Key, title: String, body: String, in proposal: inout Proposal
  ) throws -> Decision<Key> {
    assert((try? Texts.checkPost(title: title, body: body)) != nil, "the texts were checked")
    let root = proposal.root
    guard let author = Users.username(of: uid, in: root) else { throw SocialError.noProfile }
    let id = proposal.nextKey { isFree($0, for: uid, in: root) }
    let post = Node(children: [
      (Layout.author, Node(author)), (Layout.body, Node(body)),
      (Layout.createdAt, Node(proposal.now)), (Layout.starCount, Node(Int64(0))),
      (Layout.title, Node(title)), (Layout.uid, Node(uid.text)),
    ])
    let write = try Write(Layout.copies(of: id, by: uid).map { .init($0, post) })
    return Decision(write, id)
  }

  /// Whether neither a post nor anything of a removed post is at an id.
  private static func isFree(_ id: Key, for uid: Key, in root: Node) -> Bool {
    root.child(Layout.posts).child(id).isAbsent
      && root.child(Layout.userPosts).child(uid).child(id).isAbsent
      && root.child(Layout.postComments).child(id).isAbsent
      && root.child(Layout.removedPosts).child(id).isAbsent
      && root.child(Layout.deletions).child(id).isAbsent
  }

  /// Replaces the title and the body of a post. Only its author may do that.
  ///
  /// Precondition: `Texts.checkPost` accepts the texts.
  public static func edit(
    _ id: Key, by uid: Key, title: String, body: String, in proposal: inout Proposal
  ) throws -> Decision<Void> {
    assert((try? Texts.checkPost(title: title, body: body)) != nil, "the texts were checked")
    try checkAuthor(of: id, is: uid, in: proposal.root)
    let (title, body) = (Node(title), Node(body))
    let write = try Write(
      Layout.presentCopies(of: id, by: uid, in: proposal.root).flatMap { copy in
        [
          Write.Item(copy.child(Layout.title), title), Write.Item(copy.child(Layout.body), body),
        ]
      })
    return Decision(write, ())
  }

  /// Removes both copies of a post, with its stars and comments. Only its author may do that. If the post has more than
  /// `commentsMax` comments, the commit writes `/deletions/<id>`, and `UnfinishedWork` removes the comments.
  ///
  /// - Parameter hasBuiltInRules: whether the built-in rules are in force. Under other rules `/removed-posts` may have
  ///   data of the administrator, so nothing in it changes.
  /// - Complexity: O(`commentsMax` × log n).
  public static func delete(
    _ id: Key, by uid: Key, commentsMax: Int = UnfinishedWork.entriesMax,
    hasBuiltInRules: Bool = true, in proposal: inout Proposal
  ) throws -> Decision<Void> {
    try checkAuthor(of: id, is: uid, in: proposal.root)
    var removal = PostRemoval(
      root: proposal.root, now: proposal.now, entriesLeft: commentsMax,
      reservesID: hasBuiltInRules)
    var assignments = removal.assignments(of: id, by: uid)
    if hasBuiltInRules { assignments += removal.expiredReservations(limit: 2) }
    return Decision(try Write(setting: assignments), ())
  }

  /// The result of putting a star on a post or removing it.
  public struct StarState: Equatable, Sendable {
    /// Whether the post has the caller's star now.
    public var isStarred: Bool
    /// The number of stars on the post now.
    public var starCount: Int64
  }

  /// Puts the caller's star on a post, or removes it. O(log stars).
  ///
  /// The count is computed from the stars, so that the two always agree.
  public static func toggleStar(
    _ id: Key, by uid: Key, in proposal: inout Proposal
  ) throws -> Decision<StarState> {
    let post = try find(id, in: proposal.root)
    let stars = post.childCount(at: Layout.stars, with: uid)
    let isStarred = !stars.hasKey
    let count = Int64(stars.count) + (isStarred ? 1 : -1)
    let copies = Layout.presentCopies(of: id, by: try author(of: post), in: proposal.root)
    var assignments: [Assignment] = []
    assignments.reserveCapacity(2 * copies.count)
    for copy in copies {
      // In the order of the locations.
      assignments.append(
        Assignment(
          copy.child(Layout.starCount),
          isPlanted(.starNotCounted) ? post.child(Layout.starCount) : Node(count)))
      assignments.append(
        Assignment(
          Path(keys: copy.keys + [Layout.stars, uid]), isStarred ? true : .absent))
    }
    let write = try Write(setting: assignments)
    return Decision(write, StarState(isStarred: isStarred, starCount: count))
  }

  /// Returns the post with an id. O(log posts).
  ///
  /// - Throws: `SocialError.notFound`.
  public static func find(_ id: Key, in root: Node) throws(SocialError) -> Node {
    let post = root.child(Layout.posts).child(id)
    guard !post.isAbsent else { throw .noPost }
    return post
  }

  static func author(of post: Node) throws(SocialError) -> Key {
    guard let uid = uid(of: post) else { throw .noPost }
    return uid
  }

  /// Returns the uid in a post or comment; nil if it has none.
  static func uid(of node: Node) -> Key? {
    node.textAsKey(at: Layout.uid)
  }

  private static func checkAuthor(
    of id: Key, is uid: Key, in root: Node
  ) throws(SocialError) {
    guard try author(of: find(id, in: root)) == uid else {
      throw .permissionDenied("only the author of a post may change or delete it")
    }
  }
}

extension Proposal {
  /// Returns the next new key that `isFree` accepts.
  ///
  /// While the clock is behind the greatest key, each new key is the last one plus one. So a client can predict it, and
  /// may have written to its location already.
  ///
  /// - Complexity: O(skipped keys). No key is skipped twice, because later keys sort after it.
  public mutating func nextKey(where isFree: (Key) -> Bool) -> Key {
    var key = nextKey()
    while !isFree(key) { key = nextKey() }
    return key
  }
}

/// The measures by which the server finds what a write of the blog adds to the tree.
extension Posts {
  /// Whether a post has the star of a user.
  public static func hasStar(of uid: Key, on id: Key, in root: Node) -> Bool {
    !root.child(Layout.posts).child(id).child(Layout.stars).child(uid).isAbsent
  }

  /// The bytes of the title and the body of a post; 0 if it does not exist.
  public static func textBytes(of id: Key, in root: Node) -> Int {
    textBytes(of: root.child(Layout.posts).child(id))
  }

  static func textBytes(of post: Node) -> Int {
    (post.textByteCount(of: Layout.title) ?? 0) + (post.textByteCount(of: Layout.body) ?? 0)
  }
}
