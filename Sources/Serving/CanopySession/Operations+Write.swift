public import CanopyEngine
internal import CanopyTree
public import CanopyWire

extension Operations {
  /// Submits a write.
  ///
  /// - Parameters:
  ///   - address: the address of the client. Anonymous clients of one address share the engine as one writer.
  ///   - turns: the connection and its network, which share their turns at the writer and those of long work.
  ///   - work: the work before the writer gets the write; nil if it is never cancelled.
  ///   - completion: called once, on any thread, when the write is durable or refused.
  public func write(
    _ request: WriteRequest, as identity: Identity, from address: String, turns: TurnGroup? = nil,
    after work: WorkBeforeWrite? = nil, completion: @escaping @Sendable (Reply) -> Void
  ) {
    let quotaOwner = quotaOwner(identity, at: address, turns)
    var context = WriteContext(
      identity: identity, owner: identity.owner(at: address, turns), turns: turns, work: work,
      quotaOwner: quotaOwner, completion: completion)
    let origin = origin(of: request, as: identity, turns)
    if let origin { context = context.noting(origin, in: self) }
    do {
      try admit(request, as: identity, for: quotaOwner, once: origin)
      switch request {
      case .blog(let request): try submit(request, context)
      case .push(let path, let value): try push(path, value, context)
      case .tree(let write): try submit(write, once: nil, context)
      case .once(_, let write):
        if let origin, !origin.isSecret,
          origin.owner?.hasSameBytes(as: WriteOrigin.anonymousOwner) == true
        {
          throw WireError.clientCanBeGuessed
        }
        try submit(write, once: origin, context)
      case .undecoded(_, let error): throw error
      }
    } catch {
      context.completion(.failure(wireError(error)))
    }
  }

  /// Returns the identity of a write that its client may send again; nil for any other.
  private func origin(
    of request: WriteRequest, as identity: Identity, _ turns: TurnGroup?
  ) -> WriteOrigin? {
    switch request {
    case .once(var origin, _), .undecoded(var origin, _):
      origin.owner = owner(identity)
      origin.network = turns?.network
      return origin
    case .blog, .push, .tree: return nil
    }
  }

  /// Returns the owner of the writes that a connection may send again.
  func owner(_ identity: Identity) -> String {
    switch identity {
    case .administrator: WriteOrigin.administratorOwner
    case .user(let session) where session.isValid(at: now()): session.owner
    case .user, .anonymous: WriteOrigin.anonymousOwner
    }
  }
}

/// The caller of a write, and the closure that takes its reply.
struct WriteContext: Sendable {
  let identity: Identity
  let owner: WriteOwner
  /// The connection and its network, which share their turns of long work.
  var turns: TurnGroup?
  /// The work before the writer gets the write; nil if it is never cancelled.
  var work: WorkBeforeWrite?
  /// The user and the network for which the write counts.
  let quotaOwner: WriteQuotas.Owner
  var completion: @Sendable (Reply) -> Void

  /// Returns a context that notes the outcome of a write with `ONCE` before the client gets the reply.
  func noting(_ origin: WriteOrigin, in operations: Operations) -> WriteContext {
    var context = self
    context.completion = { [completion, network = quotaOwner.network] reply in
      var error: WireError?
      if case .failure(let failure) = reply { error = failure }
      operations.writeOrder.note(origin, from: network, error, now: operations.now())
      completion(reply)
    }
    return context
  }

  /// Begins a part of the work before the writer gets the write.
  func begin(_ body: @escaping @Sendable () async -> Void) {
    if let work { work.begin(body) } else { Task(operation: body) }
  }

  /// Runs `submit`, which gives the write to the writer.
  ///
  /// - Throws: `CancellationError` if the connection has ended. Then `submit` does not run.
  func submitUnlessCancelled(_ submit: () -> Void) throws(CancellationError) {
    if let work { try work.submitUnlessCancelled(submit) } else { submit() }
  }
}

extension WireError {
  fileprivate static let clientCanBeGuessed = WireError(
    .invalidData,
    "without a login, the client name of ONCE needs at least \(WriteOrigin.secretBytesMin) characters, drawn "
      + "at random: a stranger could guess a shorter one")
}
