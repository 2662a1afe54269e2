internal import CanopyEngine
internal import CanopySocial
internal import CanopyTree
public import CanopyWire

extension Operations {
  /// Submits a write.
  ///
  /// - Parameter completion: called once, on the engine's thread or on the caller's, when the write is
  ///   durable or refused.
  public func write(
    _ request: WriteRequest, as identity: Identity,
    completion: @escaping @Sendable (Reply) -> Void
  ) {
    do {
      try submit(request, as: identity, completion)
    } catch {
      completion(.failure(wireError(error)))
    }
  }

  private func submit(
    _ request: WriteRequest, as identity: Identity,
    _ completion: @escaping @Sendable (Reply) -> Void
  ) throws {
    switch request {
    case .post(let title, let body):
      let transaction = try Posts.create(by: user(identity), title: title, body: body)
      submit(transaction, completion) { .created($0.result) }
    case .edit(let id, let title, let body):
      let transaction = try Posts.edit(id, by: user(identity), title: title, body: body)
      submit(transaction, completion) { _ in .null }
    case .delete(let id):
      submit(Posts.delete(id, by: try user(identity)), completion) { _ in .null }
    case .star(let id):
      submit(Posts.toggleStar(id, by: try user(identity)), completion) {
        .starred($0.result.isStarred, count: $0.result.starCount)
      }
    case .comment(let id, let text):
      let transaction = try Comments.create(on: id, by: user(identity), text: text)
      submit(transaction, completion) { .created($0.result) }
    case .uncomment(let id, let comment):
      submit(Comments.delete(comment, on: id, by: try user(identity)), completion) { _ in .null }
    case .rename(let username):
      submit(try Users.rename(user(identity), to: username), completion) { _ in .null }
    case .push(let path, let value): try push(path, value, as: identity, completion)
    case .tree(let write): try submit(write, as: identity, once: nil, completion)
    case .once(var origin, let write):
      origin.owner = owner(identity)
      try submit(write, as: identity, once: origin, completion)
    }
  }

  /// Returns the owner of the writes that a connection may send again.
  private func owner(_ identity: Identity) -> String {
    switch identity {
    case .administrator: WriteOrigin.administratorOwner
    case .user(let session) where session.isValid(at: now()): session.owner
    case .user, .anonymous: WriteOrigin.anonymousOwner
    }
  }

  /// Submits a transaction.
  ///
  /// - Parameters:
  ///   - origin: identifies the write of the client, if the client may send it again.
  ///   - repeated: returns the reply for a write that was made before, given the number of its commit.
  ///   - success: returns the reply for a success.
  func submit<Result: Sendable>(
    _ transaction: @escaping Transaction<Result>, once origin: WriteOrigin? = nil,
    _ completion: @escaping @Sendable (Reply) -> Void,
    repeated: @escaping @Sendable (Int64) -> Reply = { .committed($0) },
    success: @escaping @Sendable (Committed<Result>) -> Reply
  ) {
    engine.submit(transaction, once: origin) { result in
      switch result {
      case .success(let committed): completion(success(committed))
      case .failure(let earlier as RepeatedWrite): completion(repeated(earlier.sequence))
      case .failure(let error): completion(.failure(self.wireError(error)))
      }
    }
  }
}
