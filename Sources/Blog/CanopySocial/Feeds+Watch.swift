public import CanopyEngine
public import CanopyTree

/// The lists of the blog as something to listen to: what each shows, and in which form it is told.
///
/// In the tree's order: what a list shows first comes last.
extension Feeds {
  /// The newest posts of all.
  public static func watchRecent(limit: Int) throws -> Listening {
    try newest(limit, at: Layout.path(Layout.posts))
  }

  /// The newest posts of a user.
  public static func watchPosts(by uid: Key, limit: Int) throws -> Listening {
    try newest(limit, at: Layout.path(Layout.userPosts, uid))
  }

  /// The posts with the most stars, of one user or of all.
  public static func watchTop(by uid: Key?, limit: Int) throws -> Listening {
    let path = uid.map { Layout.path(Layout.userPosts, $0) } ?? Layout.path(Layout.posts)
    return Listening(path, try Query(order: Layout.byStars, limit: .last(limit)))
  }

  /// One post, as a whole.
  ///
  /// - Throws: `SocialError.notFound` when there is no such post.
  public static func watchPost(_ id: Key, in root: Node) throws -> Listening {
    _ = try Posts.find(id, in: root)
    return Listening(Layout.path(Layout.posts, id), form: .value)
  }

  /// The newest comments on a post.
  ///
  /// - Throws: `SocialError.notFound` when there is no such post.
  public static func watchComments(on id: Key, limit: Int, in root: Node) throws -> Listening {
    _ = try Posts.find(id, in: root)
    return try newest(limit, at: Layout.path(Layout.postComments, id))
  }

  private static func newest(_ limit: Int, at path: Path) throws -> Listening {
    Listening(path, try Query(order: .key, limit: .last(limit)))
  }
}
