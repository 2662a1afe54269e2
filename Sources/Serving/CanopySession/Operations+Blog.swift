internal import CanopyAccounts
internal import CanopyEngine
internal import CanopySocial
internal import CanopyTree
internal import CanopyWire
internal import Synchronization

/// The requests of the blog. The blog itself checks the permissions, not the security rules.
extension Operations {
  /// Checks a write of the blog, and submits it.
  ///
  /// - Throws: the error if the caller may not write or a text is invalid. Then nothing is submitted.
  func submit(_ request: BlogWrite, _ context: WriteContext) throws {
    try requireBlog()
    let session = try session(of: context.identity)
    switch request {
    case .post(let title, let body), .edit(_, let title, let body):
      try Texts.checkPost(title: title, body: body)
    case .comment(_, let text): try Texts.checkComment(text)
    case .rename(let username): try Texts.checkUsername(username)
    case .delete, .star, .uncomment: break
    }
    engine.submit(
      PendingBlogWrite(
        request: request, session: session, operations: self, completion: context.completion),
      of: context.owner)
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

/// A write of the blog in the queue of the engine: the request, whose texts were checked, and its caller.
struct PendingBlogWrite: Transaction {
  let request: BlogWrite
  /// The login of the caller.
  let session: UserSession
  let operations: Operations
  let completion: @Sendable (Reply) -> Void

  var name: StaticString { request.verb.name }

  /// Returns the write, and the reply that the client gets when the write is durable.
  func decide(_ proposal: inout Proposal) throws -> Decision<Reply> {
    // The session may have been revoked while the write waited.
    guard session.mayFinish else { throw WireError.sessionEnded }
    let (root, uid) = (proposal.root, session.uid)
    var decision: Decision<Reply>
    // The bounds are checked on this tree: an earlier write may have taken the place that the request had when it came.
    switch request {
    case .post(let title, let body):
      decision = try Posts.create(by: uid, title: title, body: body, in: &proposal)
        .map { .created($0) }
      decision.isBounded = true
    case .edit(let id, let title, let body):
      decision = try Posts.edit(id, by: uid, title: title, body: body, in: &proposal)
        .map { _ in .null }
      decision.isBounded = operations.tree != nil && request.growth(over: root, by: uid) > 0
    case .delete(let id):
      let removal = try Posts.delete(
        id, by: uid, hasBuiltInRules: operations.rules.current.isAboutBlog, in: &proposal)
      decision = try operations.refusingUnfinishedWork(removal).map { _ in .null }
    case .star(let id):
      let star = try Posts.toggleStar(id, by: uid, in: &proposal)
      decision = star.map {
        .json(["starred": .bool($0.isStarred), "starCount": .number($0.starCount)])
      }
      decision.isBounded = star.result.isStarred
    case .comment(let id, let text):
      decision = try Comments.create(on: id, by: uid, text: text, in: &proposal)
        .map { .created($0) }
      decision.isBounded = true
    case .uncomment(let id, let comment):
      decision = try Comments.delete(comment, on: id, by: uid, in: &proposal).map { _ in .null }
    case .rename(let username):
      decision = try rename(to: username, &proposal)
      decision.isBounded = true
    }
    try admit(decision.write, over: root)
    return decision
  }

  private func rename(
    to username: String, _ proposal: inout Proposal
  ) throws -> Decision<Reply> {
    let (now, isRepeat, uid) = (proposal.now, proposal.isRepeat, session.uid)
    var cost: Int?
    let decision = try Users.rename(
      uid, to: username, hasBuiltInRules: operations.rules.current.isAboutBlog, in: &proposal
    ) { entries, now in
      // A renaming that is decided again was charged the first time.
      if isRepeat { return nil }
      if let wait = operations.renames.withLock({ $0.wait(uid, now: now) }) { return wait }
      cost = entries()
      return nil
    }
    let allowed = try operations.refusingUnfinishedWork(decision)
    // Charged only if nothing has refused the renaming.
    if let cost { _ = operations.renames.withLock { $0.take(uid, cost: cost, now: now) } }
    return allowed.map { _ in .null }
  }

  /// Checks that the user may store so much.
  private func admit(_ write: Write?, over root: Node) throws {
    guard let write, let storage = operations.storage else { return }
    switch request {
    case .post(let title, let body):
      try storage.admitEntry(of: session.uid, textBytes: title.utf8.count + body.utf8.count)
    case .comment(_, let text): try storage.admitEntry(of: session.uid, textBytes: text.utf8.count)
    case .edit: try storage.admit(write.assignments, over: root)
    case .delete, .star, .uncomment, .rename: break
    }
  }

  func complete(_ outcome: Swift.Result<Committed<Reply>, any Error>) {
    switch outcome {
    case .success(let committed):
      switch request {
      case .delete, .rename: operations.continueUnfinishedWork()
      case .post, .edit, .star, .comment, .uncomment: break
      }
      completion(committed.result)
    case .failure(let error): completion(.failure(operations.wireError(error)))
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
