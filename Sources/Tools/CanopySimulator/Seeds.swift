import CanopyTree

/// The data with which every run begins: posts with two copies, on which stars are put.
enum Seeds {
  static let stars: Key = "stars"
  static let starCount: Key = "starCount"
  private static let author: Key = "author-1"
  /// The ids of the posts.
  static let posts: [Key] = ["post-1", "post-2"]
  /// The places of all copies of posts.
  static let copies: [Path] = posts.flatMap { id in
    [
      Path.root.child("posts").child(id), Path.root.child("user-posts").child(author).child(id),
    ]
  }

  /// The root at the beginning.
  static var root: Node {
    let post = Node(children: [
      ("author", "Ada"), ("body", "text"), ("createdAt", 1), (starCount, 0), ("title", "title"),
      ("uid", Node(author.text)),
    ])
    let all = Node(children: posts.map { ($0, post) })
    return Node(children: [("posts", all), ("user-posts", Node(children: [(author, all)]))])
  }
}
