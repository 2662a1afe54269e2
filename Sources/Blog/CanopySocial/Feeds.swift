public import CanopyTree

/// The lists of the blog. Each costs O(log n + answer).
public enum Feeds {
  /// An entry of a list: a post or a comment, and its id.
  public typealias Entry = (key: Key, node: Node)

  /// Which part of a list is wanted.
  public struct Page: Equatable, Sendable {
    /// The most entries on a page.
    public static let limitMax = 100

    /// How many entries.
    public var limit: Int
    /// Only entries older than this one; it need not exist any more.
    public var before: Key?

    /// A page.
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

  /// All posts, newest first.
  public static func recent(_ page: Page, in root: Node) -> [Entry] {
    newest(page, of: root.child(Layout.posts))
  }

  /// One user's posts, newest first.
  public static func posts(by uid: Key, _ page: Page, in root: Node) -> [Entry] {
    newest(page, of: root.child(Layout.userPosts).child(uid))
  }

  /// The comments on a post, newest first.
  ///
  /// - Throws: `SocialError.notFound` when there is no such post.
  public static func comments(
    on id: Key, _ page: Page, in root: Node
  ) throws(SocialError) -> [Entry] {
    _ = try Posts.find(id, in: root)
    return newest(page, of: root.child(Layout.postComments).child(id))
  }

  /// Returns the posts with the most stars, of one user or of all; among equals the newest first.
  ///
  /// - Throws: `SocialError.notFound` when the post that the page goes on from is not there any more: its
  ///   place in the order is not known then.
  public static func top(
    by uid: Key?, _ page: Page, in root: Node
  ) throws(SocialError) -> [Entry] {
    let posts =
      uid.map { root.child(Layout.userPosts).child($0) } ?? root.child(Layout.posts)
    guard let before = page.before else {
      return list(Layout.byStars, upper: nil, limit: page.limit, of: posts)
    }
    let count = try Posts.find(before, in: root).child(Layout.starCount).integerValue ?? 0
    let upper = Query.Bound(.integer(count), key: before, isInclusive: false)
    return list(Layout.byStars, upper: upper, limit: page.limit, of: posts)
  }

  private static func newest(_ page: Page, of node: Node) -> [Entry] {
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
