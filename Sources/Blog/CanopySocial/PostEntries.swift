internal import CanopyTree

/// Entries that users add to a post, such as comments, and that go with the post.
///
/// The entries of a post are the children of `/<place>/<id of the post>`, so the removal of the post finds them by
/// path. An entry may have copies elsewhere, such as the one in a list of its user.
///
/// `Layout.postEntries` lists the kinds of entries. `PostRemoval` removes them with the post, `UnfinishedWork` those of a
/// post that has many, and `SocialCheck` compares them with their copies.
protocol PostEntries: SendableMetatype {
  /// The location of the entries, whose children are the ids of posts.
  static var place: Key { get }

  /// Returns the paths of the copies of an entry, which are removed with it.
  static func copies(of key: Key, _ entry: Node, on id: Key) -> [Path]

  /// Reports entries that differ from their copies, copies without an entry, and entries without a post.
  static func check(_ check: inout SocialCheck.Check)
}

extension PostEntries {
  /// Returns the entries of a post.
  static func entries(of id: Key, in root: Node) -> Node {
    root.child(place).child(id)
  }

  /// Returns the assignments that remove the copies of an entry.
  static func removal(ofCopiesOf key: Key, _ entry: Node, on id: Key) -> [Assignment] {
    copies(of: key, entry, on: id).map { Assignment($0, .absent) }
  }
}

/// The comments on posts. Their copies are the lists of their authors.
extension Comments: PostEntries {
  static var place: Key { Layout.postComments }

  static func copies(of comment: Key, _ node: Node, on id: Key) -> [Path] {
    Posts.uid(of: node).map { [Layout.path(Layout.userComments, $0, comment)] } ?? []
  }

  static func check(_ check: inout SocialCheck.Check) {
    let posts = check.root.child(Layout.posts)
    let userComments = check.root.child(Layout.userComments)
    let postComments = check.root.child(Layout.postComments)
    check.each(postComments) { check, id, comments in
      if posts.child(id).isAbsent, check.root.child(Layout.deletions).child(id).isAbsent {
        check.report("/post-comments/\(id) has no post")
      }
      check.each(comments) { check, comment, node in
        guard let uid = Posts.uid(of: node), userComments.child(uid).child(comment).hasText(of: id)
        else {
          return check.report("/post-comments/\(id)/\(comment) is not in /user-comments")
        }
        if !check.isNamed(uid, node.child(Layout.author)) {
          check.report("the author in /post-comments/\(id)/\(comment) is not the name of its user")
        }
      }
    }
    check.each(userComments) { check, uid, own in
      check.each(own) { check, comment, post in
        let id = post.stringValue.flatMap { try? Key($0) }
        let author = id.map { postComments.child($0).child(comment).child(Layout.uid) }
        if author?.hasText(of: uid) != true {
          check.report(
            "/user-comments/\(uid)/\(comment) is not in /post-comments as a comment of that user")
        }
      }
    }
  }
}
