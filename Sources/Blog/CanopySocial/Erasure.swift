public import CanopyEngine
public import CanopyTree

/// The remaining work of removing everything that a user has added to the blog. Between two steps it is stored in
/// `/erasures`.
///
/// The stages are in this order: the account, which another module deletes; the posts, with the comments on them; the
/// comments on posts of others; the stars on posts of others; and with the last step the profile and its name. So the name
/// stays taken while anything of the user is left. After each step, all copies and counts agree.
///
/// A new account with the same uid, which only the administrator can make, loses the data that it adds in the meantime.
public enum Erasure: Equatable, Sendable {
  /// The account may still exist. Nothing is removed before it is deleted.
  case account
  /// All posts are to be removed, and then the comments and the stars.
  case posts
  /// All comments are to be removed, and then the stars.
  case comments
  /// The stars on the posts after a key are to be removed, or on all posts if it is nil.
  case stars(after: Key?)

  private static let stage: Key = "stage"
  private static let after: Key = "after"

  /// Creates the remaining work from a mark; nil if it is not one.
  init?(_ node: Node) {
    switch node.child(Erasure.stage).stringValue {
    case "account": self = .account
    case "posts": self = .posts
    case "comments": self = .comments
    case "stars":
      self = .stars(after: node.child(Erasure.after).stringValue.flatMap { try? Key($0) })
    default: return nil
    }
  }

  /// The mark in `/erasures`.
  var node: Node {
    let (stage, after): (String, Key?) =
      switch self {
      case .account: ("account", nil)
      case .posts: ("posts", nil)
      case .comments: ("comments", nil)
      case .stars(let after): ("stars", after)
      }
    let key = after.map { [(Erasure.after, Node($0.text))] } ?? []
    return Node(children: key + [(Erasure.stage, Node(stage))])
  }

  /// Notes that everything of a user is to be removed, before the account is deleted. Writes nothing if that is noted
  /// already.
  public static func begin(of uid: Key, in proposal: inout Proposal) throws -> Decision<Void> {
    let place = Layout.path(Layout.erasures, uid)
    guard Erasure(proposal.root.at(place)) == nil else { return Decision(nil, ()) }
    return Decision(try Write([.init(place, Erasure.account.node)]), ())
  }
}

extension Erasure {
  /// One step of the work, and the assignments that it makes.
  struct Step {
    let uid: Key
    let root: Node
    /// Milliseconds since 1970.
    let now: Int64
    let entriesMax: Int
    let scannedMax: Int
    private var assignments: [Assignment] = []

    init(uid: Key, root: Node, now: Int64, entriesMax: Int, scannedMax: Int) {
      self.uid = uid
      self.root = root
      self.now = now
      self.entriesMax = entriesMax
      self.scannedMax = max(1, scannedMax)
    }

    /// The most posts, comments or stars of the step. Each has two copies.
    private var countMax: Int { max(1, entriesMax / 2) }

    /// The assignments with distinct locations. Damaged data can name a location twice, and a write cannot.
    var distinctAssignments: [Assignment] {
      var locations: Set<Location> = []
      return assignments.filter { locations.insert($0.location).inserted }
    }

    /// Makes a step, and returns the remaining work; nil if none remains.
    mutating func carryOut(_ erasure: Erasure) -> Erasure? {
      switch erasure {
      case .account, .posts: removePosts() ? .comments : .posts
      case .comments: removeComments() ? .stars(after: nil) : .comments
      case .stars(let after): removeStars(after: after)
      }
    }

    /// Removes the first posts, and returns whether they were the last ones.
    private mutating func removePosts() -> Bool {
      let own = root.child(Layout.userPosts).child(uid)
      let first = own.children(after: nil, limit: countMax)
      var removal = removal(besides: first.count)
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
    private mutating func removeComments() -> Bool {
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

    /// Removes the stars on the next posts, and posts that the list of the user lacks. After the last post, removes the
    /// profile.
    private mutating func removeStars(after: Key?) -> Erasure? {
      let posts = root.child(Layout.posts).children(after: after, limit: scannedMax)
      var removal = removal(besides: countMax)
      var last = after
      var left = countMax
      for (id, post) in posts {
        last = id
        if post.child(Layout.uid).hasText(of: uid) {
          assignments += removal.assignments(of: id, by: uid)
        } else if !post.child(Layout.stars).child(uid).isAbsent {
          removeStar(on: id, post)
        } else {
          continue
        }
        left -= 1
        if left == 0 { return .stars(after: last) }
      }
      guard posts.count < scannedMax else { return .stars(after: last) }
      return removeProfile()
    }

    private mutating func removeStar(on id: Key, _ post: Node) {
      guard let author = Posts.uid(of: post) else { return }
      let count = Node(Int64(post.child(Layout.stars).childCount - 1))
      for copy in Layout.presentCopies(of: id, by: author, in: root) {
        assignments.append(Assignment(copy.child(Layout.stars).child(uid), .absent))
        assignments.append(Assignment(copy.child(Layout.starCount), count))
      }
    }

    /// Removes the profile and its name, unless a new account with the uid has added something.
    private mutating func removeProfile() -> Erasure? {
      guard root.child(Layout.userPosts).child(uid).childCount == 0,
        root.child(Layout.userComments).child(uid).childCount == 0
      else { return .posts }
      if let name = Users.username(of: uid, in: root), let key = try? Key(name.asciiLowercased) {
        let claim = Layout.path(Layout.usernames, key)
        if root.at(claim).hasText(of: uid) { assignments.append(Assignment(claim, .absent)) }
      }
      for place in [Layout.users, Layout.renames] {
        let path = Layout.path(place, uid)
        if !root.at(path).isAbsent { assignments.append(Assignment(path, .absent)) }
      }
      return nil
    }

    private func removal(besides count: Int) -> PostRemoval {
      PostRemoval(root: root, now: now, entriesLeft: max(0, entriesMax - count))
    }
  }
}
