public import CanopyTree

/// The paths of the blog's data in the tree.
///
/// ```
/// /users/<uid>                  {username, createdAt}
/// /usernames/<lower-case name>  uid
/// /posts/<id>                   {uid, author, title, body, createdAt, starCount, stars?, commentCount?}
/// /user-posts/<uid>/<id>        the second copy of the post, for the list of the user
/// /post-comments/<id>/<cid>     {uid, author, text, createdAt}
/// /user-comments/<uid>/<cid>    the post's id, to find the comments of a renamed author
/// /removed-posts/<id>           uid of the author, for whom the id is reserved
/// /renames/<uid>                {stage, after?}: a renaming is incomplete
/// /deletions/<id>               true: the removal of the post's entries, such as comments, is incomplete
/// /erasures/<uid>               {stage, after?}: the removal of everything of a user is incomplete
/// ```
///
/// `/removed-posts`, `/renames`, `/deletions` and `/erasures` belong to the server: see `serverPlaces`. The built-in rules
/// let no client read them.
public enum Layout {
  static let users: Key = "users"
  static let usernames: Key = "usernames"
  static let posts: Key = "posts"
  static let userPosts: Key = "user-posts"
  static let postComments: Key = "post-comments"
  static let userComments: Key = "user-comments"
  static let removedPosts: Key = "removed-posts"
  static let renames: Key = "renames"
  static let deletions: Key = "deletions"
  static let erasures: Key = "erasures"

  /// The locations of the marks of `UnfinishedWork`.
  static let marks = [renames, deletions, erasures]
  /// The locations that the server alone writes, and the administrator. It acts by the data there, so a client must not
  /// write them under any rules: a mark that a client writes under open rules would delete the account of another user
  /// when the built-in rules are in force again.
  static let serverPlaces = marks + [removedPosts]

  /// Returns the first of the `serverPlaces` that a write changes; nil if it changes none. A write of the whole tree
  /// changes those that exist before or after it.
  ///
  /// - Parameters:
  ///   - assignments: those of the write.
  ///   - before: the root before it.
  ///   - after: the root after it.
  /// - Complexity: O(assignments).
  public static func serverPlace(
    changedBy assignments: [Assignment], before: Node, after: Node
  ) -> Key? {
    for assignment in assignments {
      if let first = assignment.location.path.keys.first {
        if serverPlaces.contains(first) { return first }
      } else if !assignment.location.isPriority {
        let place = serverPlaces.first {
          !before.child($0).isAbsent || !after.child($0).isAbsent
        }
        if let place { return place }
      }
    }
    return nil
  }

  static let uid: Key = "uid"
  static let author: Key = "author"
  static let title: Key = "title"
  static let body: Key = "body"
  static let text: Key = "text"
  static let username: Key = "username"
  static let createdAt: Key = "createdAt"
  static let stars: Key = "stars"
  static let starCount: Key = "starCount"
  static let commentCount: Key = "commentCount"

  /// The order of posts by their stars.
  static let byStars = Order.child(path(starCount))

  /// The indexes for the lists.
  public static var indexPlan: IndexPlan {
    var plan = IndexPlan()
    plan.declare(byStars, at: [posts])
    plan.declare(byStars, at: [userPosts, nil])
    return plan
  }

  /// The kinds of data that are removed with the post to which users have added them.
  static let postEntries: [any PostEntries.Type] = [Comments.self]

  /// Returns the path of a few keys. Precondition: it is not too deep.
  static func path(_ keys: Key...) -> Path { Path(keys: keys) }

  /// Returns the paths of both copies of a post.
  static func copies(of id: Key, by uid: Key) -> [Path] {
    [path(posts, id), path(userPosts, uid, id)]
  }

  /// Returns the paths of the copies of a post that exist. The administrator may have removed one by a request on the tree.
  /// A write to one field would create an incomplete post there.
  static func presentCopies(of id: Key, by uid: Key, in root: Node) -> [Path] {
    let (post, copy) = (
      root.child(posts).child(id), root.child(userPosts).child(uid).child(id)
    )
    var paths = copies(of: id, by: uid)
    if !copy.hasText(of: uid, at: Layout.uid) { paths.removeLast() }
    if !post.hasText(of: uid, at: Layout.uid) { paths.removeFirst() }
    return paths
  }
}
