internal import CanopyTree

/// The remaining work of a renaming: first the posts, then the comments, each in the order of their keys. Between two steps
/// it is stored in `/renames`.
enum Renaming: Equatable {
  /// The posts after a key, or all posts if it is nil, and then the comments.
  case posts(after: Key?)
  /// The comments after a key, or all comments if it is nil.
  case comments(after: Key?)

  private static let stage: Key = "stage"
  private static let after: Key = "after"

  /// Creates the remaining work from a mark. A damaged mark means all work, because renaming an entry twice has no effect.
  init(_ node: Node) {
    let after = node.child(Renaming.after).stringValue.flatMap { try? Key($0) }
    let isComments = node.child(Renaming.stage).stringValue?.hasSameBytes(as: "comments") == true
    self = isComments ? .comments(after: after) : .posts(after: after)
  }

  /// The mark in `/renames`.
  var node: Node {
    let (stage, after) =
      switch self {
      case .posts(let after): ("posts", after)
      case .comments(let after): ("comments", after)
      }
    let key = after.map { [(Renaming.after, Node($0.text))] } ?? []
    return Node(children: key + [(Renaming.stage, Node(stage))])
  }

  /// The bytes of a post or comment that count as one entry. Who watches it receives all of it again.
  static let entryBytes = 4096
  /// The most posts, and the most comments, whose texts are looked at. Each further one counts once: a user who has so many
  /// waits long for the next renaming anyway.
  static let measuredMax = 1_000

  /// Returns the number of a user's posts and comments, each of which has one or two copies of the name. An entry counts
  /// once for each started `entryBytes` of its texts.
  ///
  /// - Complexity: O(`measuredMax` × log n).
  static func entries(of uid: Key, in root: Node) -> Int {
    let posts = root.child(Layout.userPosts).child(uid)
    let comments = root.child(Layout.userComments).child(uid)
    var count = posts.childCount + comments.childCount
    for (_, post) in posts.children(after: nil, limit: measuredMax) {
      count += furtherEntries(Posts.textBytes(of: post))
    }
    let texts = root.child(Layout.postComments)
    for (comment, post) in comments.children(after: nil, limit: measuredMax) {
      guard let id = post.stringValue.flatMap({ try? Key($0) }) else { continue }
      count += furtherEntries(texts.child(id).child(comment).textByteCount(of: Layout.text) ?? 0)
    }
    return count
  }

  private static func furtherEntries(_ bytes: Int) -> Int { max(0, bytes - 1) / entryBytes }

  /// Returns the assignments that change the name in the next entries, and the remaining work; nil if none remains.
  ///
  /// - Complexity: O(`entriesMax` × log n).
  func step(
    of uid: Key, named name: Node, in root: Node, entriesMax: Int
  ) -> (assignments: [Assignment], rest: Renaming?) {
    var result: [Assignment] = []
    var left = entriesMax
    var after: Key?
    switch self {
    case .posts(let first):
      let posts = root.child(Layout.userPosts).child(uid).children(after: first, limit: left)
      for (id, _) in posts {
        for copy in Layout.presentCopies(of: id, by: uid, in: root) {
          add(name, at: copy, in: root, to: &result)
        }
      }
      left -= posts.count
      guard left > 0 else { return (result, .posts(after: posts.last?.key)) }
    case .comments(let first): after = first
    }
    let comments = root.child(Layout.userComments).child(uid).children(after: after, limit: left)
    for (comment, post) in comments {
      guard let id = post.stringValue.flatMap({ try? Key($0) }) else { continue }
      let place = Layout.path(Layout.postComments, id, comment)
      guard root.at(place).child(Layout.uid).hasText(of: uid) else { continue }
      add(name, at: place, in: root, to: &result)
    }
    return (result, comments.count < left ? nil : .comments(after: comments.last?.key))
  }

  private func add(_ name: Node, at place: Path, in root: Node, to result: inout [Assignment]) {
    let author = place.child(Layout.author)
    if root.at(author) != name { result.append(Assignment(author, name)) }
  }
}
