public import CanopyEngine
public import CanopyTree

/// The places of the blog's data in the tree.
///
/// ```
/// /users/<uid>                  {username, createdAt}
/// /usernames/<lower-case name>  uid
/// /posts/<id>                   {uid, author, title, body, createdAt, starCount, stars?, commentCount?}
/// /user-posts/<uid>/<id>        the same post once more: the fan-out
/// /post-comments/<id>/<cid>     {uid, author, text, createdAt}
/// /user-comments/<uid>/<cid>    the post's id, so that a renamed author's comments can be found
/// /removed-posts/<id>           uid of the author: nobody else may use the id again
/// /renames/<uid>                {stage, after?}: copies of the user's name have yet to be changed
/// /deletions/<id>               true: comments of the removed post have yet to be removed
/// ```
///
/// Clients can neither read nor write the last three: the server keeps them for itself.
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

  /// Posts by their stars, among all and among one user's.
  static let byStars = Order.child(path(starCount))

  /// The indexes that the feeds need.
  public static var indexPlan: IndexPlan {
    var plan = IndexPlan()
    plan.declare(byStars, at: [posts])
    plan.declare(byStars, at: [userPosts, nil])
    return plan
  }

  /// A path of few keys, which cannot be too deep.
  static func path(_ keys: Key...) -> Path {
    keys.reduce(.root) { $0.child($1) }
  }

  /// Both places of a post.
  static func copies(of id: Key, by uid: Key) -> [Path] {
    [path(posts, id), path(userPosts, uid, id)]
  }

  /// Those of the places of a post where it stands. The administrator may have removed one by a tree
  /// request; a field written there would be a post without all the others.
  static func presentCopies(of id: Key, by uid: Key, in root: Node) -> [Path] {
    copies(of: id, by: uid).filter { root.at($0).child(Layout.uid).hasText(of: uid) }
  }
}

/// A change of the blog, for `Engine.transact` or as the `decide` of a `Transaction`.
public typealias BlogTransaction<Result: Sendable> =
  @Sendable (inout Proposal) throws -> Decision<Result>
