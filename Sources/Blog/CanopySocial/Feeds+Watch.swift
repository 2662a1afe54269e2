public import CanopyEngine
public import CanopyTree

/// The queries that clients listen to for the lists of the blog.
///
/// They are in the order of the tree, in which the first entry of a list comes last.
extension Feeds {
  /// Returns the query for the newest posts of all users.
  public static func watchRecent(limit: Int) throws -> Listening {
    try newest(limit, at: Layout.path(Layout.posts))
  }

  /// Returns the query for the newest posts of one user.
  public static func watchPosts(by uid: Key, limit: Int) throws -> Listening {
    try newest(limit, at: Layout.path(Layout.userPosts, uid))
  }

  /// Returns the query for the posts with the most stars, of one user or of all users if `uid` is nil.
  public static func watchTop(by uid: Key?, limit: Int) throws -> Listening {
    let path = uid.map { Layout.path(Layout.userPosts, $0) } ?? Layout.path(Layout.posts)
    return Listening(path, try Query(order: Layout.byStars, limit: .last(limit)))
  }

  /// Returns the query for the value of one post.
  ///
  /// - Throws: `SocialError.notFound` if the post does not exist.
  public static func watchPost(_ id: Key, in root: Node) throws -> Listening {
    _ = try Posts.find(id, in: root)
    return Listening(Layout.path(Layout.posts, id), form: .value)
  }

  /// Returns the query for the newest comments on a post.
  ///
  /// - Throws: `SocialError.notFound` if the post does not exist.
  public static func watchComments(on id: Key, limit: Int, in root: Node) throws -> Listening {
    _ = try Posts.find(id, in: root)
    return try newest(limit, at: Layout.path(Layout.postComments, id))
  }

  private static func newest(_ limit: Int, at path: Path) throws -> Listening {
    Listening(path, try Query(order: .key, limit: .last(limit)))
  }
}
