public import CanopyTree

/// The lists of the blog. Each costs O(log n + entries).
public enum Feeds {
  /// An entry of a list: a post or a comment, and its id.
  public typealias Entry = (key: Key, node: Node)

  /// A page of a list.
  public struct Page: Equatable, Sendable {
    /// The maximum number of entries on a page.
    public static let limitMax = 100

    /// The number of entries.
    public var limit: Int
    /// The entry after which the page begins, because lists show the newest entries first. It may have been removed, except
    /// for the list by stars.
    public var before: Key?

    /// Creates a page.
    ///
    /// - Throws: `SocialError.invalid` for a limit out of bounds.
    public init(limit: Int = 20, before: Key? = nil) throws(SocialError) {
      guard 1...Page.limitMax ~= limit else {
        throw .invalid("limit must be 1 to \(Page.limitMax)")
      }
      self.limit = limit
      self.before = before
    }
  }

  /// Returns posts of all users, newest first.
  public static func recent(_ page: Page, in root: Node) -> [Entry] {
    newest(page, of: root.child(Layout.posts))
  }

  /// Returns posts of one user, newest first.
  public static func posts(by uid: Key, _ page: Page, in root: Node) -> [Entry] {
    newest(page, of: root.child(Layout.userPosts).child(uid))
  }

  /// Returns comments on a post, newest first.
  ///
  /// - Throws: `SocialError.notFound` if the post does not exist.
  public static func comments(
    on id: Key, _ page: Page, in root: Node
  ) throws(SocialError) -> [Entry] {
    _ = try Posts.find(id, in: root)
    return newest(page, of: root.child(Layout.postComments).child(id))
  }

  /// Returns the posts with the most stars, of one user or of all users if `uid` is nil. Posts with equal counts are in the
  /// order newest first.
  ///
  /// - Throws: `SocialError.notFound` if the post `before` does not exist any more, because its position in the order is
  ///   unknown then.
  public static func top(
    by uid: Key?, _ page: Page, in root: Node
  ) throws(SocialError) -> [Entry] {
    let posts =
      uid.map { root.child(Layout.userPosts).child($0) } ?? root.child(Layout.posts)
    guard let before = page.before else {
      return list(Layout.byStars, upper: nil, limit: page.limit, of: posts)
    }
    let count = try Posts.find(before, in: root).child(Layout.starCount)
    // A post of a client may have no count. It comes after the posts with 0.
    let upper = Query.Bound(BoundValue(count) ?? .absent, key: before, isInclusive: false)
    return list(Layout.byStars, upper: upper, limit: page.limit, of: posts)
  }

  /// Returns the children of a node whose keys are push ids, newest first. O(log children + entries).
  static func newest(_ page: Page, of node: Node) -> [Entry] {
    let upper = page.before.map { Query.Bound(.absent, key: $0, isInclusive: false) }
    return list(.key, upper: upper, limit: page.limit, of: node)
  }

  private static func list(
    _ order: Order, upper: Query.Bound?, limit: Int, of node: Node
  ) -> [Entry] {
    guard let query = try? Query(order: order, upper: upper, limit: .last(limit)) else { return [] }
    return query.children(of: node).reversed()
  }
}
