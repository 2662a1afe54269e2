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
    let context = WriteContext(
      identity: identity, owner: identity.owner(at: address, turns), turns: turns, work: work,
      quotaOwner: quotaOwner, completion: completion)
    do {
      try admit(request, as: identity, for: quotaOwner)
      switch request {
      case .blog(let request): try submit(request, context)
      case .push(let path, let value): try push(path, value, context)
      case .tree(let write): try submit(write, once: nil, context)
      case .once(var origin, let write):
        let owner = owner(identity)
        guard origin.isSecret || !owner.hasSameBytes(as: WriteOrigin.anonymousOwner) else {
          throw WireError.clientCanBeGuessed
        }
        origin.owner = owner
        origin.network = turns?.network
        try submit(write, once: origin, context.noting(origin, in: self))
      case .undecoded(let origin, let error):
        note(origin, as: identity, by: quotaOwner, error)
        throw error
      }
    } catch {
      completion(.failure(wireError(error)))
    }
  }

  /// Notes that a write with `ONCE` was refused for a reason that passes, if the error is of this kind.
  private func note(
    _ origin: WriteOrigin, as identity: Identity, by owner: WriteQuotas.Owner, _ error: WireError
  ) {
    var origin = origin
    origin.owner = self.owner(identity)
    writeOrder.note(origin, from: owner.network, error, now: now())
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

  /// Returns a context that notes a refusal of a write with `ONCE` before the client gets the reply.
  func noting(_ origin: WriteOrigin, in operations: Operations) -> WriteContext {
    var context = self
    context.completion = { [completion, network = quotaOwner.network] reply in
      if case .failure(let error) = reply {
        operations.writeOrder.note(origin, from: network, error, now: operations.now())
      }
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
