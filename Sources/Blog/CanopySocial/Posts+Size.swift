public import CanopyTree

/// The measures by which the server finds what a write of the blog adds to the tree.
extension Posts {
  /// Whether a post has the star of a user.
  public static func hasStar(of uid: Key, on id: Key, in root: Node) -> Bool {
    !root.child(Layout.posts).child(id).child(Layout.stars).child(uid).isAbsent
  }

  /// The bytes of the title and the body of a post; 0 if it does not exist.
  public static func textBytes(of id: Key, in root: Node) -> Int {
    textBytes(of: root.child(Layout.posts).child(id))
  }

  static func textBytes(of post: Node) -> Int {
    (post.textByteCount(of: Layout.title) ?? 0) + (post.textByteCount(of: Layout.body) ?? 0)
  }
}
