public import CanopyEngine
public import CanopyTree

/// Comments on posts, and the count of comments in both copies of a post.
public enum Comments {
  /// Creates a comment. The result is its id.
  ///
  /// Precondition: `Texts.checkComment` accepts the text.
  public static func create(
    on id: Key, by uid: Key, text: String, in proposal: inout Proposal
  ) throws -> Decision<Key> {
    assert((try? Texts.checkComment(text)) != nil, "the text was checked")
    let root = proposal.root
    let post = try Posts.find(id, in: root)
    guard let author = Users.username(of: uid, in: root) else { throw SocialError.noProfile }
    let others = root.child(Layout.postComments).child(id)
    let own = root.child(Layout.userComments).child(uid)
    let comment = proposal.nextKey { others.child($0).isAbsent && own.child($0).isAbsent }
    let node = Node(children: [
      (Layout.author, Node(author)), (Layout.createdAt, Node(proposal.now)),
      (Layout.text, Node(text)), (Layout.uid, Node(uid.text)),
    ])
    var items = try counts(of: id, post, in: root, adding: 1)
    items.append(.init(Layout.path(Layout.postComments, id, comment), node))
    items.append(.init(Layout.path(Layout.userComments, uid, comment), Node(id.text)))
    return Decision(try Write(items), comment)
  }

  /// Removes a comment. Only its author and the author of the post may do that.
  public static func delete(
    _ comment: Key, on id: Key, by uid: Key, in proposal: inout Proposal
  ) throws -> Decision<Void> {
    let root = proposal.root
    let post = try Posts.find(id, in: root)
    let node = root.child(Layout.postComments).child(id).child(comment)
    guard let text = node.child(Layout.uid).stringValue, let author = try? Key(text) else {
      throw SocialError.notFound("there is no such comment on that post, or it is gone")
    }
    guard try uid == author || uid == Posts.author(of: post) else {
      throw SocialError.permissionDenied(
        "only the author of a comment or of the post may delete the comment")
    }
    var items = try counts(of: id, post, in: root, adding: -1)
    items.append(.init(Layout.path(Layout.postComments, id, comment), .absent))
    items.append(.init(Layout.path(Layout.userComments, author, comment), .absent))
    return Decision(try Write(items), ())
  }

  /// Returns the value of `commentCount`; absent for 0.
  static func node(count: Int) -> Node {
    count > 0 ? Node(Int64(count)) : .absent
  }

  /// Returns the items that set the count in both copies.
  private static func counts(
    of id: Key, _ post: Node, in root: Node, adding delta: Int
  ) throws(SocialError) -> [Write.Item] {
    let count = root.child(Layout.postComments).child(id).childCount + delta
    let node = node(count: count)
    return Layout.presentCopies(of: id, by: try Posts.author(of: post), in: root).map {
      .init($0.child(Layout.commentCount), node)
    }
  }
}
