public import CanopyEngine
public import CanopyTree

/// The remaining work of removing everything that a user has added to the blog. Between two steps it is stored in
/// `/erasures`.
///
/// The stages are in this order: the account, which another module deletes; the posts, with the comments on them; the
/// comments on posts of others; the stars on posts of others, for which `StarSearch` searches; and with the last step the
/// profile and its name. So the name stays taken while anything of the user is left. After each step, all copies and counts
/// agree.
///
/// A user without posts and comments skips their stages. Such a removal costs its first commit, a share of a commit that
/// deletes up to `accountsMax` accounts, a place in the next search, and a share of the last commit.
///
/// A new account with the same uid, which only the administrator can make, loses the data that it adds in the meantime.
public enum Erasure: Equatable, Sendable {
  /// The account may still exist. Nothing is removed before it is deleted.
  case account
  /// All posts are to be removed, and then the comments and the stars.
  case posts
  /// All comments are to be removed, and then the stars.
  case comments
  /// All stars are to be removed, and then the profile.
  case stars

  /// The maximum number of users whose data is being removed. A search takes long in a large blog, and anyone can make
  /// accounts and delete them again.
  public static let pendingMax = 1_000
  /// The maximum number of accounts that are deleted before one commit notes it.
  static let accountsMax = 100

  private static let stage: Key = "stage"
  private static let round: Key = "round"

  /// Creates the remaining work from a mark; nil if it is not one.
  init?(_ node: Node) {
    switch node.child(Erasure.stage).stringValue {
    case "account": self = .account
    case "posts": self = .posts
    case "comments": self = .comments
    case "stars": self = .stars
    default: return nil
    }
  }

  /// Returns the number of times that the removal of a user has begun again before it was complete. A search for stars
  /// that began earlier must not end the removal.
  static func round(of mark: Node) -> Int64 { mark.child(round).integerValue ?? 0 }

  /// Returns the mark in `/erasures`.
  func node(round: Int64 = 0) -> Node {
    let stage =
      switch self {
      case .account: "account"
      case .posts: "posts"
      case .comments: "comments"
      case .stars: "stars"
      }
    let members = [(Erasure.stage, Node(stage))]
    return Node(children: round == 0 ? members : members + [(Erasure.round, Node(round))])
  }

  /// Notes that everything of a user is to be removed, before the account is deleted. Writes nothing if that is noted
  /// already. A removal of an earlier account with the uid begins again.
  ///
  /// - Parameter pendingMax: the maximum number of users whose data is being removed; nil for no bound.
  /// - Throws: `SocialError.overloaded` beyond it.
  public static func begin(
    of uid: Key, pendingMax: Int? = nil, in proposal: inout Proposal
  ) throws -> Decision<Void> {
    let marks = proposal.root.child(Layout.erasures)
    let mark = marks.child(uid)
    guard Erasure(mark) != .account else { return Decision(nil, ()) }
    if let pendingMax, mark.isAbsent, marks.childCount >= pendingMax {
      throw SocialError.tooManyErasures
    }
    let round = mark.isAbsent ? 0 : min(max(0, Erasure.round(of: mark)), 1 << 40) + 1
    return Decision(
      try Write([.init(Layout.path(Layout.erasures, uid), Erasure.account.node(round: round))]), ())
  }

  /// Returns the assignments that note that accounts are deleted.
  static func withoutAccounts(_ uids: some Sequence<Key>, in root: Node) -> [Assignment] {
    uids.compactMap { uid in
      let place = Layout.path(Layout.erasures, uid)
      let mark = root.at(place)
      guard Erasure(mark) == .account else { return nil }
      let hasEntries = [Layout.userPosts, Layout.userComments].contains {
        root.child($0).child(uid).childCount > 0
      }
      let stage = hasEntries ? Erasure.posts : .stars
      return Assignment(place, stage.node(round: Erasure.round(of: mark)))
    }
  }
}

extension Erasure {
  /// The assignments of one commit.
  struct Removal {
    private let root: Node
    private let entriesMax: Int
    private var removal: PostRemoval
    private var assignments: [Assignment] = []

    /// - Parameters:
    ///   - now: milliseconds since 1970.
    ///   - entriesMax: the maximum number of posts and comments.
    init(root: Node, now: Int64, entriesMax: Int) {
      self.root = root
      self.entriesMax = entriesMax
      removal = PostRemoval(root: root, now: now, entriesLeft: entriesMax)
    }

    /// The most posts or comments. Each has two copies.
    private var countMax: Int { max(1, entriesMax / 2) }

    /// The assignments with distinct locations. Damaged data can name a location twice, and a write cannot.
    var distinctAssignments: [Assignment] {
      var locations: Set<Location> = []
      return assignments.filter { locations.insert($0.location).inserted }
    }

    /// Removes the first posts, and returns whether they were the last ones.
    mutating func removePosts(of uid: Key) -> Bool {
      let own = root.child(Layout.userPosts).child(uid)
      let first = own.children(after: nil, limit: countMax)
      removal.entriesLeft = max(0, removal.entriesLeft - first.count)
      for (id, _) in first {
        let author = root.at(Layout.path(Layout.posts, id, Layout.uid))
        if author.isAbsent || author.hasText(of: uid) {
          assignments += removal.assignments(of: id, by: uid)
        } else {
          assignments.append(Assignment(Layout.path(Layout.userPosts, uid, id), .absent))
        }
      }
      assignments += removal.expiredReservations(limit: 2 * first.count)
      return first.count == own.childCount
    }

    /// Removes the first comments, and returns whether they were the last ones.
    mutating func removeComments(of uid: Key) -> Bool {
      let own = root.child(Layout.userComments).child(uid)
      let first = own.children(after: nil, limit: countMax)
      var counts: [Key: Int] = [:]
      for (comment, post) in first {
        assignments.append(Assignment(Layout.path(Layout.userComments, uid, comment), .absent))
        guard let id = post.stringValue.flatMap({ try? Key($0) }) else { continue }
        let place = Layout.path(Layout.postComments, id, comment)
        guard root.at(place).child(Layout.uid).hasText(of: uid) else { continue }
        assignments.append(Assignment(place, .absent))
        counts[id, default: root.child(Layout.postComments).child(id).childCount] -= 1
      }
      for (id, count) in counts {
        guard let author = Posts.uid(of: root.child(Layout.posts).child(id)) else { continue }
        for copy in Layout.presentCopies(of: id, by: author, in: root) {
          assignments.append(
            Assignment(copy.child(Layout.commentCount), Comments.node(count: count)))
        }
      }
      return first.count == own.childCount
    }

    /// Removes a post that the list of its author lacks.
    mutating func removePost(_ id: Key, by uid: Key) {
      assignments += removal.assignments(of: id, by: uid)
    }

    /// Removes the stars of some users on a post. Precondition: the post has them.
    mutating func removeStars(of uids: [Key], on id: Key) {
      let post = root.child(Layout.posts).child(id)
      guard let author = Posts.uid(of: post) else { return }
      let count = Node(Int64(post.child(Layout.stars).childCount - uids.count))
      for copy in Layout.presentCopies(of: id, by: author, in: root) {
        for uid in uids {
          assignments.append(Assignment(copy.child(Layout.stars).child(uid), .absent))
        }
        assignments.append(Assignment(copy.child(Layout.starCount), count))
      }
    }

    /// Removes the profile, its name and the mark, unless a new account with the uid has added something. Returns whether
    /// it did.
    mutating func removeProfile(of uid: Key) -> Bool {
      let mark = Layout.path(Layout.erasures, uid)
      guard root.child(Layout.userPosts).child(uid).childCount == 0,
        root.child(Layout.userComments).child(uid).childCount == 0
      else {
        let round = Erasure.round(of: root.at(mark))
        assignments.append(Assignment(mark, Erasure.posts.node(round: round)))
        return false
      }
      if let name = Users.username(of: uid, in: root), let key = try? Key(name.asciiLowercased) {
        let claim = Layout.path(Layout.usernames, key)
        if root.at(claim).hasText(of: uid) { assignments.append(Assignment(claim, .absent)) }
      }
      for place in [Layout.users, Layout.renames] {
        let path = Layout.path(place, uid)
        if !root.at(path).isAbsent { assignments.append(Assignment(path, .absent)) }
      }
      assignments.append(Assignment(mark, .absent))
      return true
    }
  }
}
