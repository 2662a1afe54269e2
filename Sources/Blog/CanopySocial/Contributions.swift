public import CanopyTree

/// Everything that a user has added to the blog, in pages: posts, comments, and the ids of posts with the user's star.
public struct Contributions: Sendable {
  /// The end of a page: the posts, comments or stars after a key are the next ones.
  public enum Position: Equatable, Sendable {
    /// Among the posts.
    case posts(after: Key?)
    /// Among the comments.
    case comments(after: Key?)
    /// Among all posts, in which the user's stars are looked for.
    case stars(after: Key?)
  }

  /// A comment with its id and that of its post.
  public struct Comment: Sendable {
    /// The id of the comment.
    public let id: Key
    /// The id of the post.
    public let post: Key
    /// The comment.
    public let node: Node
  }

  /// The posts with their ids, oldest first.
  public private(set) var posts: [(id: Key, node: Node)] = []
  /// The comments, oldest first.
  public private(set) var comments: [Comment] = []
  /// The ids of the posts with the user's star.
  public private(set) var stars: [Key] = []
  /// The beginning of the next page; nil at the end.
  public private(set) var next: Position?

  /// The bytes of texts after which a page ends.
  static let bytesMax = 64 * 1024
  /// The most posts in which a page looks for stars.
  public static let scannedMax = 2_000

  /// Reads the page that begins at a position.
  ///
  /// - Parameters:
  ///   - limit: the most posts, comments and stars of the page.
  ///   - scannedMax: the most posts in which it looks for stars.
  /// - Complexity: O(log n + `limit` + `scannedMax`).
  public init(
    of uid: Key, from position: Position, limit: Int, scannedMax: Int = Contributions.scannedMax,
    in root: Node
  ) {
    next = position
    var left = max(1, limit)
    var bytes = 0
    if case .posts(let after) = position {
      let found = root.child(Layout.userPosts).child(uid).children(after: after, limit: left)
      for (id, node) in found where bytes < Contributions.bytesMax {
        posts.append((id, node))
        bytes += Contributions.textBytes(of: node)
      }
      left -= posts.count
      next = .posts(after: posts.last?.id ?? after)
      guard posts.count == found.count, left > 0, bytes < Contributions.bytesMax else { return }
      next = .comments(after: nil)
    }
    if case .comments(let after)? = next {
      let found = root.child(Layout.userComments).child(uid).children(after: after, limit: left)
      var last = after
      for (id, post) in found where bytes < Contributions.bytesMax {
        last = id
        left -= 1
        guard let post = post.stringValue.flatMap({ try? Key($0) }) else { continue }
        let node = root.at(Layout.path(Layout.postComments, post, id))
        comments.append(Comment(id: id, post: post, node: node))
        bytes += Contributions.textBytes(of: node)
      }
      next = .comments(after: last)
      guard last == found.last?.key ?? after, left > 0, bytes < Contributions.bytesMax else {
        return
      }
      next = .stars(after: nil)
    }
    if case .stars(let after)? = next {
      let scanned = root.child(Layout.posts).children(after: after, limit: max(1, scannedMax))
      for (id, post) in scanned {
        next = .stars(after: id)
        guard !post.child(Layout.stars).child(uid).isAbsent else { continue }
        stars.append(id)
        left -= 1
        if left == 0 { return }
      }
      if scanned.count < max(1, scannedMax) { next = nil }
    }
  }

  private static func textBytes(of node: Node) -> Int {
    [Layout.title, Layout.body, Layout.text].reduce(0) {
      $0 + (node.child($1).stringValue?.utf8.count ?? 0)
    }
  }
}

extension Contributions.Position {
  /// The position as the text of a cursor: `posts:`, `comments:` or `stars:` and a key.
  public var text: String {
    switch self {
    case .posts(let after): "posts:" + (after?.text ?? "")
    case .comments(let after): "comments:" + (after?.text ?? "")
    case .stars(let after): "stars:" + (after?.text ?? "")
    }
  }

  /// Creates the position of a cursor; nil if the text is not one.
  public init?(_ text: String) {
    guard let colon = text.utf8.firstIndex(of: UInt8(ascii: ":")) else { return nil }
    let rest = Substring(text.utf8[text.utf8.index(after: colon)...])
    let key = try? Key(rest)
    guard key != nil || rest.isEmpty else { return nil }
    switch Substring(text.utf8[..<colon]) {
    case "posts": self = .posts(after: key)
    case "comments": self = .comments(after: key)
    case "stars": self = .stars(after: key)
    default: return nil
    }
  }
}
