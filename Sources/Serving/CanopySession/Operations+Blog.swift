internal import CanopyEngine
internal import CanopySocial
internal import CanopyTree
internal import CanopyWire

/// The requests of the blog. The blog itself checks the permissions, not the security rules.
extension Operations {
  /// Submits a write of the blog.
  ///
  /// - Throws: the error if the caller may not write or a text is invalid. Then nothing is submitted.
  func submit(_ request: BlogWrite, _ context: WriteContext) throws {
    try requireBlog()
    let uid = try user(context.identity)
    var context = context
    context.session = context.identity.session
    switch request {
    case .post(let title, let body):
      let transaction = try Posts.create(by: uid, title: title, body: body)
      submit(transaction, named: "POST", context) { .created($0.result) }
    case .edit(let id, let title, let body):
      let transaction = try Posts.edit(id, by: uid, title: title, body: body)
      submit(transaction, named: "EDIT", context) { _ in .null }
    case .delete(let id):
      let transaction = refusingUnfinishedWork(Posts.delete(id, by: uid))
      submit(transaction, named: "DELETE", context) { [self] _ in
        continueUnfinishedWork()
        return .null
      }
    case .star(let id):
      submit(Posts.toggleStar(id, by: uid), named: "STAR", context) {
        .json([
          "starred": .bool($0.result.isStarred), "starCount": .number($0.result.starCount),
        ])
      }
    case .comment(let id, let text):
      let transaction = try Comments.create(on: id, by: uid, text: text)
      submit(transaction, named: "COMMENT", context) { .created($0.result) }
    case .uncomment(let id, let comment):
      let transaction = Comments.delete(comment, on: id, by: uid)
      submit(transaction, named: "UNCOMMENT", context) { _ in .null }
    }
  }

  /// Returns the reply to a read of the blog.
  func reply(
    to request: BlogRead, as identity: Identity, in root: Node
  ) throws -> Reply {
    try requireBlog()
    switch request {
    case .show(let id): return .post(id, try Posts.find(id, in: root))
    case .recent(let page): return .entries(Feeds.recent(try Feeds.Page(page), in: root))
    case .comments(let id, let page):
      return .entries(try Feeds.comments(on: id, Feeds.Page(page), in: root))
    case .posts(let reference, let page):
      let uid = try find(reference, as: identity, in: root)
      return .entries(Feeds.posts(by: uid, try Feeds.Page(page), in: root))
    case .top(let reference, let page):
      let page = try Feeds.Page(page)
      let uid = try reference.map { try find($0, as: identity, in: root) }
      return .entries(try Feeds.top(by: uid, page, in: root))
    case .profile(let reference):
      let uid = try find(reference, as: identity, in: root)
      let username = Users.username(of: uid, in: root) ?? ""
      return .json(["uid": .key(uid), "username": .text(username)])
    }
  }
}

extension Feeds.Page {
  fileprivate init(_ request: PageRequest) throws {
    try self.init(limit: request.limit, before: request.before)
  }

  init(limit: Int64?, before: Key? = nil) throws {
    // A number too large for an Int is out of bounds as well.
    try self.init(limit: limit.map { Int(clamping: $0) } ?? 20, before: before)
  }
}
