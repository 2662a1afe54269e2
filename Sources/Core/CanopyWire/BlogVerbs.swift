public import CanopyTree

// The verbs of the blog: their requests, the verb of each request, and their entries in the command table.

/// A request that reads the blog.
public enum BlogRead: Equatable, Sendable {
  /// One post.
  case show(id: Key)
  /// The comments on a post, newest first.
  case comments(id: Key, PageRequest)
  /// All posts, newest first.
  case recent(PageRequest)
  /// The posts of one user, newest first.
  case posts(UserReference, PageRequest)
  /// Posts by stars, of one user or of all.
  case top(UserReference?, PageRequest)
  /// The profile of a user.
  case profile(UserReference)

  /// Whether the reply is a list that is the same for every caller. A front end may then encode it
  /// once and send the same bytes to all callers.
  public var isSharedList: Bool {
    switch self {
    case .recent, .comments: true
    case .posts(let user, _): user != .me
    case .top(let user, _): user != .me
    case .show, .profile: false
    }
  }

  /// The verb of the request.
  var verb: Verb {
    switch self {
    case .show: .show
    case .comments: .comments
    case .recent: .recent
    case .posts: .posts
    case .top: .top
    case .profile: .profile
    }
  }
}

/// A request that writes the blog.
public enum BlogWrite: Sendable {
  /// Creates a post.
  case post(title: String, body: String)
  /// Replaces the title and the body of a post.
  case edit(id: Key, title: String, body: String)
  /// Deletes a post with its stars and comments.
  case delete(id: Key)
  /// Adds the caller's star to a post, or removes it.
  case star(id: Key)
  /// Creates a comment.
  case comment(id: Key, text: String)
  /// Deletes a comment.
  case uncomment(id: Key, comment: Key)
  /// Changes the caller's user name.
  case rename(username: String)

  /// The verb of the request.
  public var verb: Verb {
    switch self {
    case .post: .post
    case .edit: .edit
    case .delete: .delete
    case .star: .star
    case .comment: .comment
    case .uncomment: .uncomment
    case .rename: .rename
    }
  }
}

extension Verb {
  fileprivate static let post = Verb("POST")
  fileprivate static let edit = Verb("EDIT")
  fileprivate static let delete = Verb("DELETE")
  fileprivate static let show = Verb("SHOW")
  fileprivate static let star = Verb("STAR")
  fileprivate static let comment = Verb("COMMENT")
  fileprivate static let uncomment = Verb("UNCOMMENT")
  fileprivate static let comments = Verb("COMMENTS")
  fileprivate static let recent = Verb("RECENT")
  fileprivate static let posts = Verb("POSTS")
  fileprivate static let top = Verb("TOP")
  fileprivate static let profile = Verb("PROFILE")
  fileprivate static let rename = Verb("RENAME")
}

extension Command {
  /// The verbs about posts, comments and stars.
  static let blog: [Command] = [
    Command(
      "POST", .blog, ["title", "body"], "write a post",
      reply: #"`{"id":…}`"#
    ) { arguments throws(WireError) in
      .write(.blog(.post(title: try arguments.text("title"), body: try arguments.text("body"))))
    },
    Command(
      "EDIT", .blog, ["id", "title", "body"], "change a post of yours",
      reply: "`null`"
    ) {
      arguments throws(WireError) in
      .write(
        .blog(
          .edit(
            id: try arguments.id("id"), title: try arguments.text("title"),
            body: try arguments.text("body"))))
    },
    Command(
      "DELETE", .blog, ["id"], "delete a post of yours, with its stars and comments",
      reply: "`null`"
    ) {
      arguments throws(WireError) in
      .write(.blog(.delete(id: try arguments.id("id"))))
    },
    Command(
      "SHOW", .blog, ["id"], "one post",
      reply: #"`{"id":…,"author":…,"body":…,"createdAt":…,"starCount":…,"title":…,"uid":…}`, "#
        + "and `stars` and `commentCount` if there are any"
    ) { arguments throws(WireError) in
      .read(.blog(.show(id: try arguments.id("id"))))
    },
    Command(
      "STAR", .blog, ["id"], "star a post, or take your star back",
      reply: #"`{"starred":true,"starCount":8}`"#
    ) {
      arguments throws(WireError) in
      .write(.blog(.star(id: try arguments.id("id"))))
    },
    Command(
      "COMMENT", .blog, ["id", "text"], "comment on a post",
      reply: #"`{"id":…}`"#
    ) {
      arguments throws(WireError) in
      .write(.blog(.comment(id: try arguments.id("id"), text: try arguments.text("text"))))
    },
    Command(
      "UNCOMMENT", .blog, ["id", "commentId"], "delete a comment of yours or on your post",
      reply: "`null`"
    ) {
      arguments throws(WireError) in
      .write(.blog(.uncomment(id: try arguments.id("id"), comment: try arguments.id("commentId"))))
    },
    Command(
      "COMMENTS", .blog, ["id"], optional: ["page"], "comments on a post, newest first",
      reply: #"`[{"id":…,"author":…,"createdAt":…,"text":…,"uid":…},…]`"#
    ) {
      arguments throws(WireError) in
      .read(.blog(.comments(id: try arguments.id("id"), try Options.page(&arguments, "COMMENTS"))))
    },
    Command(
      "RECENT", .blog, [], optional: ["page"], "posts, newest first",
      reply: "an array of posts, each as in SHOW"
    ) {
      arguments throws(WireError) in
      .read(.blog(.recent(try Options.page(&arguments, "RECENT"))))
    },
    Command(
      "POSTS", .blog, ["user"], optional: ["page"], "a user's posts, newest first",
      reply: "an array of posts, each as in SHOW"
    ) {
      arguments throws(WireError) in
      .read(
        .blog(
          .posts(UserReference(try arguments.text("user")), try Options.page(&arguments, "POSTS"))))
    },
    Command(
      "TOP", .blog, [], optional: ["user", "page"], "posts with the most stars first",
      reply: "an array of posts, each as in SHOW"
    ) { arguments throws(WireError) in
      var user: UserReference?
      if arguments.hasNext, !arguments.nextIsObject {
        user = UserReference(try arguments.text("user"))
      }
      let page = try Options.page(&arguments, "TOP")
      guard !arguments.hasNext else {
        throw WireError(.badRequest, "usage: TOP [user] [page]")
      }
      return .read(.blog(.top(user, page)))
    },
    Command(
      "PROFILE", .blog, ["user"], "a user: a uid, @username or me",
      reply: #"`{"uid":…,"username":…}`"#
    ) {
      arguments throws(WireError) in
      .read(.blog(.profile(UserReference(try arguments.text("user")))))
    },
    Command(
      "WATCH", .blog, ["RECENT|POSTS|TOP|SHOW|COMMENTS"], optional: ["user|id", "options"],
      "a list or post, then its changes; options: limit (of a list), since",
      reply: #"`{"sub":3,"seq":41,"initial":20}`, then events"#
    ) { arguments throws(WireError) in
      let target = try arguments.watchTarget()
      let options = try Options.watch(&arguments, isList: target.isList)
      guard !arguments.hasNext else { throw WatchTarget.usage }
      return .listen(.watch(target, options))
    },
  ]
}

extension WatchTarget {
  fileprivate static let usage = WireError(
    .badRequest,
    "usage: WATCH RECENT [options], WATCH POSTS user [options], WATCH TOP [user] [options], "
      + "WATCH SHOW id, or WATCH COMMENTS id [options]")

  fileprivate var isList: Bool {
    if case .show = self { false } else { true }
  }
}

extension Arguments {
  fileprivate mutating func watchTarget() throws(WireError) -> WatchTarget {
    let list = try text("the list").asciiUppercased
    let hasName = hasNext && !nextIsObject
    switch list {
    case "RECENT": return .recent
    case "TOP": return .top(hasName ? UserReference(try text("user")) : nil)
    case "POSTS" where hasName: return .posts(UserReference(try text("user")))
    case "SHOW" where hasName: return .show(id: try id("id"))
    case "COMMENTS" where hasName: return .comments(id: try id("id"))
    default: throw WatchTarget.usage
    }
  }
}
