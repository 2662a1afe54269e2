import CanopyClient

/// The blog as an application sees it: posts in two locations, stars by transaction, and comments
/// in a list of their own. Uses the client library alone.
struct Blog {
  /// A stored post.
  struct Post: Codable {
    var uid: String
    var author: String
    var title: String
    var body: String
    var starCount: Int?
    var stars: [String: Bool]?
  }

  /// A stored comment.
  struct Comment: Codable {
    var uid: String
    var author: String
    var text: String
  }

  /// A failure outside the library.
  struct Failure: Error, LocalizedError {
    var errorDescription: String?
  }

  private let ref: DatabaseReference

  init(_ database: Database) {
    ref = database.reference()
  }

  /// Publishes a post in both of its locations and returns its key.
  func publish(title: String, body: String, by user: User) async throws -> String {
    guard let key = ref.child("posts").childByAutoId().key else {
      throw Failure(errorDescription: "no post can be made here")
    }
    let post: [String: Any] = [
      "uid": user.uid, "author": try await name(of: user), "title": title, "body": body,
      "createdAt": ServerValue.timestamp(),
    ]
    try await ref.updateChildValues([
      "posts/\(key)": post, "user-posts/\(user.uid)/\(key)": post,
    ])
    return key
  }

  /// Returns the user name in the profile of a user, which the rules compare with that of an author.
  private func name(of user: User) async throws -> String {
    try await ref.child("users/\(user.uid)/username").getData().value as? String ?? ""
  }

  /// Returns the newest posts, the newest first.
  func recent(_ count: UInt) async throws -> [(key: String, post: Post)] {
    let snapshot = try await ref.child("posts").queryLimited(toLast: count).getData()
    return try snapshot.childSnapshots.reversed().map { ($0.key, try $0.data(as: Post.self)) }
  }

  /// New posts as they are published, starting with the newest existing one.
  var coming: AsyncThrowingStream<DatabaseEvent, any Error> {
    ref.child("posts").queryLimited(toLast: 1).events(.childAdded)
  }

  /// Adds the user's star to a post, or removes it. The server does the same to the copy by author.
  ///
  /// - Returns: whether the post has the star now, and the number of stars.
  func toggleStar(on key: String, by user: User) async throws -> (isStarred: Bool, count: Int) {
    let uid = user.uid
    let place = ref.child("posts/\(key)")
    guard try await place.getData().exists() else {
      throw Failure(errorDescription: "there is no post \(key)")
    }
    let (_, snapshot) = try await place.runTransactionBlock { data in
      guard var post = data.value as? [String: Any] else { return .success(withValue: data) }
      var stars = post["stars"] as? [String: Bool] ?? [:]
      let count = post["starCount"] as? Int ?? 0
      if stars.removeValue(forKey: uid) != nil {
        post["starCount"] = count - 1
      } else {
        stars[uid] = true
        post["starCount"] = count + 1
      }
      post["stars"] = stars
      data.value = post
      return .success(withValue: data)
    }
    let post = try snapshot.data(as: Post.self)
    return (post.stars?[uid] != nil, post.starCount ?? 0)
  }

  /// Adds a comment to a post and returns its key.
  func comment(on key: String, _ text: String, by user: User) async throws -> String {
    let place = ref.child("post-comments/\(key)").childByAutoId()
    let comment = Comment(uid: user.uid, author: try await name(of: user), text: text)
    try await place.setValue(from: comment)
    return place.key ?? ""
  }

  /// Returns the comments on a post, oldest first.
  func comments(on key: String) async throws -> [Comment] {
    try await ref.child("post-comments/\(key)").getData().childSnapshots.map {
      try $0.data(as: Comment.self)
    }
  }
}
