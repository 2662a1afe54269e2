internal import CanopyAccounts
public import CanopyEngine
internal import CanopySocial
internal import CanopyTree
public import CanopyWire
internal import Synchronization

extension Operations {
  /// Submits a write.
  ///
  /// - Parameters:
  ///   - address: the address of the client. Anonymous clients of one address share the engine as one writer.
  ///   - turns: the connection and its network, which share their turns of long work.
  ///   - completion: called once, on the engine's thread or on the caller's, when the write is durable or refused.
  public func write(
    _ request: WriteRequest, as identity: Identity, from address: String, turns: TurnGroup? = nil,
    completion: @escaping @Sendable (Reply) -> Void
  ) {
    var context = WriteContext(
      identity: identity, owner: identity.owner(at: address), turns: turns, completion: completion)
    do {
      switch request {
      case .rename(let username):
        context.session = identity.session
        try rename(user(identity), to: username, context)
      case .blog(let request): try submit(request, context)
      case .push(let path, let value): try push(path, value, context)
      case .tree(let write): try submit(write, once: nil, context)
      case .once(var origin, let write):
        let owner = owner(identity)
        guard origin.isSecret || !owner.hasSameBytes(as: WriteOrigin.anonymousOwner) else {
          throw WireError.clientCanBeGuessed
        }
        origin.owner = owner
        try submit(write, once: origin, context)
      }
    } catch {
      completion(.failure(wireError(error)))
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

  private func rename(_ uid: Key, to username: String, _ context: WriteContext) throws {
    try requireBlog()
    let transaction = try Users.rename(uid, to: username) { [self] entries, now in
      // `refusingUnfinishedWork` refuses it, so it is not charged.
      if entries > UnfinishedWork.entriesMax, !rules.current.isAboutBlog { return nil }
      return renames.withLock { $0.take(uid, cost: entries, now: now) }
    }
    submit(refusingUnfinishedWork(transaction), named: "RENAME", context) { [self] _ in
      continueUnfinishedWork()
      return .null
    }
  }

  /// Submits a transaction.
  ///
  /// - Parameters:
  ///   - origin: identifies the write, if its client may send it again.
  ///   - name: the verb, by which the log names a request that takes too long.
  ///   - reply: returns the reply for a success.
  func submit<Result: Sendable>(
    _ decide: @escaping @Sendable (inout Proposal) throws -> Decision<Result>,
    once origin: WriteOrigin? = nil, named name: StaticString, _ context: WriteContext,
    reply: @escaping @Sendable (Committed<Result>) -> Reply
  ) {
    engine.submit(
      PendingWrite(
        operations: self, session: context.session, origin: origin, name: name, body: decide,
        reply: reply, completion: context.completion), of: context.owner)
  }
}

/// The caller of a write, and the closure that takes its reply.
struct WriteContext: Sendable {
  let identity: Identity
  let owner: WriteOwner
  /// The connection and its network, which share their turns of long work.
  var turns: TurnGroup?
  /// The session that must not be revoked when the write is decided; nil if the rules decide about the caller.
  var session: UserSession?
  let completion: @Sendable (Reply) -> Void
}

/// A write of a client, until its reply.
private struct PendingWrite<Result: Sendable>: Transaction {
  let operations: Operations
  /// The session that must not be revoked; nil for none.
  let session: UserSession?
  let origin: WriteOrigin?
  let name: StaticString
  let body: @Sendable (inout Proposal) throws -> Decision<Result>
  let reply: @Sendable (Committed<Result>) -> Reply
  let completion: @Sendable (Reply) -> Void

  func decide(_ proposal: inout Proposal) throws -> Decision<Result> {
    // The session may have been revoked while the write waited.
    if let session, !session.mayFinish { throw WireError.sessionEnded }
    return try body(&proposal)
  }

  func complete(_ outcome: Swift.Result<Committed<Result>, any Error>) {
    switch outcome {
    case .success(let committed): completion(reply(committed))
    case .failure(let earlier as RepeatedWrite): completion(.committed(earlier.sequence))
    case .failure(let error): completion(.failure(operations.wireError(error)))
    }
  }
}

extension WireError {
  fileprivate static let clientCanBeGuessed = WireError(
    .invalidData,
    "without a login, the client name of ONCE needs at least \(WriteOrigin.secretBytesMin) characters, drawn "
      + "at random: a stranger could guess a shorter one")
}
