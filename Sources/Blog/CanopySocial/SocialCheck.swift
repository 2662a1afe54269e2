public import CanopyTree

/// A check that redundant data of the blog agrees. For `canopy verify` and tests.
public enum SocialCheck {
  /// Returns one sentence for each problem, at most `limit`; empty if there is none. O(size).
  public static func problems(in root: Node, limit: Int = 100) -> [String] {
    var check = Check(root: root, limit: limit)
    check.posts()
    check.userPosts()
    for entries in Layout.postEntries { entries.check(&check) }
    check.users()
    return check.problems
  }

  /// A check of one tree, and the problems that were found.
  struct Check {
    let root: Node
    fileprivate let limit: Int
    fileprivate var problems: [String] = []

    /// Adds a problem, unless there are as many as the caller wants.
    mutating func report(_ text: @autoclosure () -> String) {
      if problems.count < limit { problems.append(text()) }
    }

    fileprivate mutating func posts() {
      let userPosts = root.child(Layout.userPosts)
      let postComments = root.child(Layout.postComments)
      each(root.child(Layout.posts)) { check, id, post in
        guard let author = try? Posts.author(of: post) else {
          return check.report("/posts/\(id) has no uid")
        }
        let copy = userPosts.child(author).child(id)
        if copy.isAbsent {
          check.report("/posts/\(id) is not in /user-posts/\(author)")
        } else if copy != post {
          check.report("/posts/\(id) differs from its copy in /user-posts/\(author)")
        }
        let stars = post.child(Layout.stars).childCount
        // In the published samples, a post has no count before its first star.
        let starCount = post.child(Layout.starCount)
        if starCount.isAbsent ? stars > 0 : starCount.integerValue != Int64(stars) {
          check.report("/posts/\(id) has \(stars) stars and another starCount")
        }
        let comments = postComments.child(id).childCount
        let commentCount = post.child(Layout.commentCount)
        if commentCount.isAbsent ? comments > 0 : commentCount.integerValue != Int64(comments) {
          check.report("/posts/\(id) has \(comments) comments and another commentCount")
        }
        if !check.isNamed(author, post.child(Layout.author)) {
          check.report("/posts/\(id) has another author's name than its user")
        }
      }
    }

    fileprivate mutating func userPosts() {
      let posts = root.child(Layout.posts)
      each(root.child(Layout.userPosts)) { check, uid, own in
        check.each(own) { check, id, _ in
          if !posts.child(id).child(Layout.uid).hasText(of: uid) {
            check.report("/user-posts/\(uid)/\(id) is not in /posts as a post of that user")
          }
        }
      }
    }

    fileprivate mutating func users() {
      let usernames = root.child(Layout.usernames)
      let users = root.child(Layout.users)
      each(users) { check, uid, profile in
        let name = profile.child(Layout.username).stringValue
        let key = name.flatMap { try? Key($0.asciiLowercased) }
        guard let key, usernames.child(key).hasText(of: uid) else {
          return check.report("/users/\(uid) has a name that is not its own in /usernames")
        }
      }
      if users.childCount != usernames.childCount {
        report("/users has \(users.childCount) entries and /usernames \(usernames.childCount)")
      }
    }

    /// Whether a post or comment has the current name of its user. During a renaming, any name is accepted.
    func isNamed(_ uid: Key, _ author: Node) -> Bool {
      guard root.child(Layout.renames).child(uid).isAbsent else { return true }
      return switch (Users.username(of: uid, in: root), author.stringValue) {
      case (let name?, let author?): name.hasSameBytes(as: author)
      case (nil, nil): true
      default: false
      }
    }

    /// Calls `body` with each child, while the caller wants more problems.
    mutating func each(_ node: Node, _ body: (inout Check, Key, Node) -> Void) {
      node.forEachChild { key, child in
        body(&self, key, child)
        return problems.count < limit
      }
    }
  }
}
