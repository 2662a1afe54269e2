public import CanopyEngine
internal import CanopyRules
internal import CanopySocial
public import CanopyTree
public import CanopyWire

/// CAS: a write that is made only if the present value has a given ETag.
///
/// An ETag is a hash of the whole value, and hashing a large value takes long. So the engine's thread hashes
/// small values only. A large value is hashed on another thread. If the ETag differs, that is the answer: the value was
/// the present one when the request was decided. If the ETag is the same, the request goes to the engine again, which
/// makes the write if the value is still the identical node.
///
/// The answer shows whether the ETag is that of the value, so a condition needs the permission to read. The rules are
/// evaluated before anything is hashed, so the time of the reply reveals nothing.
///
/// There is one exception: a caller that may not read may create a value at a location that has no value. It cannot
/// probe locations in this way, because the value stays. The exception does not apply to priorities: at a location
/// without a value, setting a priority leaves nothing behind.
///
/// While a large value is hashed, later requests of its connection wait: see `Operations.runsAlone`.
struct CompareAndSet: Sendable {
  /// Bytes of JSON of a value that the engine's thread hashes.
  static let smallBytesMax = 4_096
  /// The number of times that a value is hashed if it changes meanwhile.
  static let roundsMax = 4

  let location: Location
  let etag: String
  let write: Write
  let context: WriteContext
  let origin: WriteOrigin?

  /// Whether the request creates a value where there is none.
  var isCreation: Bool {
    // A priority belongs to a value, which the caller must be able to read.
    guard !location.isPriority, etag.hasSameBytes(as: Node.absent.etag), write.items.count == 1,
      let item = write.items.first, item.location == location
    else { return false }
    // The server's values of priorities leave nothing behind, as no value is there to which they could belong.
    return !item.value.node.isAbsent || item.value.serverValues.contains { !$0.isPriority }
  }

  /// A value and its ETag.
  struct Hashed: Sendable {
    var node: Node
    var etag: String
    var bytes: ValueBytes
  }

  /// The outcome of a request on the engine's thread.
  enum Outcome: Sendable {
    case committed
    case differs(Hashed)
    /// The value must be hashed on another thread.
    case large
  }
}

extension Operations {
  /// Carries out CAS.
  ///
  /// - Parameters:
  ///   - request: the write that follows the comparison.
  ///   - isCheckedEarly: whether a large write is refused at once if the rules deny it whatever the data is.
  /// - Throws: `TreeError` when the value cannot be written.
  func compareAndSet(
    _ location: Location, _ etag: String, _ request: TreeWrite, once origin: WriteOrigin?,
    isCheckedEarly: Bool = false, _ context: WriteContext
  ) throws {
    let begin: @Sendable (Write) -> Void = { [self] write in
      let request = CompareAndSet(
        location: location, etag: etag, write: write, context: context, origin: origin)
      submit(request, nil, round: 1)
    }
    guard !request.takesLongToMake else {
      return makeBeside(request, context, isCheckedEarly: isCheckedEarly, then: begin)
    }
    let write = try made(request, for: context.quotaOwner)
    if isCheckedEarly { try checkEarlyAndBriefly(write, as: context.identity) }
    begin(write)
  }

  /// Carries out an UPDATE if the value at its path has an ETag.
  ///
  /// - Parameters:
  ///   - address: the address of the client.
  ///   - turns: the connection and its network, which share their turns of long work.
  ///   - work: the work before the writer gets the write; nil if it is never cancelled.
  ///   - completion: called once, on any thread, as for a compare-and-set.
  public func update(
    _ path: Path, _ changes: [Request.Update], ifMatch etag: String, as identity: Identity,
    from address: String, turns: TurnGroup? = nil, after work: WorkBeforeWrite? = nil,
    completion: @escaping @Sendable (Reply) -> Void
  ) {
    do {
      let quotaOwner = quotaOwner(identity, at: address, turns)
      try admit(.tree(.update(path, changes)), as: identity, for: quotaOwner)
      try checkUpdate(.update(path, changes), by: identity)
      let context = WriteContext(
        identity: identity, owner: identity.owner(at: address, turns), turns: turns, work: work,
        quotaOwner: quotaOwner, completion: completion)
      try compareAndSet(
        Location(path), etag, .update(path, changes), once: nil, isCheckedEarly: true, context)
    } catch {
      completion(.failure(wireError(error)))
    }
  }

  /// Whether no later request of the connection may begin before this one is answered: a CAS of a large value, an
  /// UPDATE of many locations, or a write of large values, which a later write must not overtake. (A write may overtake
  /// the CAS of a value that becomes large by a write that is under way.)
  public func runsAlone(_ request: Request) -> Bool {
    switch request {
    case .write(.tree(let write)), .write(.once(_, let write)):
      write.takesLongToMake || comparesLargeValue(write)
    case .write(.push(let path, let value)): TreeWrite.set(Location(path), value).takesLongToMake
    case .read, .write(.blog), .write(.undecoded), .account, .listen, .connection, .administration:
      false
    }
  }

  private func comparesLargeValue(_ write: TreeWrite) -> Bool {
    guard case .compareAndSet(let location, _, _) = write else { return false }
    return !engine.root.at(location).fits(bytes: CompareAndSet.smallBytesMax)
  }

  private func submit(
    _ request: CompareAndSet, _ hashed: CompareAndSet.Hashed?, round: Int
  ) {
    engine.submit(
      PendingComparison(request: request, hashed: hashed, round: round, operations: self),
      of: request.context.owner)
  }

  /// Answers a request that the engine has decided, or hashes the value first.
  fileprivate func complete(
    _ request: CompareAndSet, round: Int,
    _ outcome: Swift.Result<Committed<CompareAndSet.Outcome>, any Error>
  ) {
    let completion = request.context.completion
    switch outcome {
    case .success(let committed):
      switch committed.result {
      case .committed:
        count(committed, for: request.context.quotaOwner)
        continueUnfinishedWork()
        completion(.exchanged(committed.sequence))
      case .differs(let present): completion(request.mismatch(present))
      case .large:
        guard round <= CompareAndSet.roundsMax else { return completion(.failure(.changing)) }
        hash(for: request, round: round)
      }
    case .failure(let earlier as RepeatedWrite): completion(.exchanged(earlier.sequence))
    case .failure(let error): completion(.failure(wireError(error)))
    }
  }

  /// Decides the request, unless that takes long. Called on the engine's thread.
  fileprivate func decide(
    _ request: CompareAndSet, _ hashed: CompareAndSet.Hashed?, _ proposal: inout Proposal
  ) throws -> Decision<CompareAndSet.Outcome> {
    try writeOrder.check(
      request.origin, from: request.context.quotaOwner.network, now: proposal.now)
    let present = proposal.root.at(request.location)
    let isCreation = request.isCreation && present.isAbsent
    guard isCreation || mayRead(request, in: proposal.root) else { throw WireError.denied }
    let found: CompareAndSet.Hashed
    var budget = ByteBudget(CompareAndSet.smallBytesMax)
    if let hashed, hashed.node.isIdentical(to: present) {
      found = hashed
    } else if present.fits(budget: &budget) {
      found = CompareAndSet.Hashed(node: present, etag: present.etag, bytes: budget.used)
    } else {
      return Decision(nil, .large)
    }
    if found.etag.hasSameBytes(as: request.etag) {
      let policy = writePolicy(as: request.context.identity)
      return Decision(request.write, .committed, policy: policy, isBounded: policy != nil)
    }
    return Decision(nil, .differs(found))
  }

  private func mayRead(_ request: CompareAndSet, in root: Node) -> Bool {
    do {
      try checkRead(request.location.path, .all, in: root, as: request.context.identity)
      return true
    } catch {
      return false
    }
  }

  /// Hashes the large value that is present when the turn of the request has come, on another thread, and answers the
  /// request if the ETag differs.
  private func hash(for request: CompareAndSet, round: Int) {
    let completion = request.context.completion
    request.context.begin { [self] in
      do {
        let reply = try await hashing(
          request.context.turns, in: { [engine] in engine.root },
          of: { $0.at(request.location) }
        ) { [self] root, pause -> Reply? in
          // The rules may deny by now what they allowed when the request was decided.
          guard mayRead(request, in: root) else { throw WireError.denied }
          return try compare(root.at(request.location), request, round: round, pausing: pause)
        }
        if case .some(.some(let reply)) = reply { completion(reply) }
      } catch {
        completion(.failure(wireError(error)))
      }
    }
  }

  /// Compares a large value. Returns nil if the request goes to the engine again.
  ///
  /// - Parameter pause: called often.
  private func compare(
    _ node: Node, _ request: CompareAndSet, round: Int, pausing pause: () throws -> Void
  ) throws -> Reply? {
    // No client can have the ETag of a value that no reply could hold.
    var budget = ByteBudget(limits.replyBytesMax)
    guard node.fits(budget: &budget), budget.used.mayBeHeld(limits) else {
      return .failure(replyTooLarge)
    }
    let present = CompareAndSet.Hashed(
      node: node, etag: try node.etag(pausing: pause), bytes: budget.used)
    guard present.etag.hasSameBytes(as: request.etag) else {
      return request.mismatch(present)
    }
    try request.context.submitUnlessCancelled { submit(request, present, round: round + 1) }
    return nil
  }
}

extension CompareAndSet {
  /// Returns the reply for a present value with another ETag. A client that may send again keeps a copy with
  /// priorities, so its reply has them.
  fileprivate func mismatch(_ present: Hashed) -> Reply {
    .mismatch(
      present.node, etag: present.etag, origin == nil ? .plain : .export, bytes: present.bytes)
  }
}

extension WriteRequest {
  /// Whether the write is a CAS, of which the present value may have to be hashed.
  public var isConditional: Bool {
    switch self {
    case .tree(.compareAndSet), .once(_, .compareAndSet): true
    case .tree, .once, .push, .blog, .undecoded: false
    }
  }
}

extension WireError {
  fileprivate static let changing = WireError(
    .conflict,
    "the value changes faster than it can be compared; try again, or compare a smaller part of it")
}

/// A CAS in the queue of the engine.
private struct PendingComparison: Transaction {
  let request: CompareAndSet
  /// The value that was hashed in an earlier round; nil in the first one.
  let hashed: CompareAndSet.Hashed?
  let round: Int
  let operations: Operations

  var origin: WriteOrigin? { request.origin }
  var name: StaticString { "CAS" }

  func decide(_ proposal: inout Proposal) throws -> Decision<CompareAndSet.Outcome> {
    try operations.decide(request, hashed, &proposal)
  }

  func refused(_ error: any Error) {
    operations.noteRefusal(of: origin, from: request.context.quotaOwner.network, error)
  }

  func complete(_ outcome: Swift.Result<Committed<CompareAndSet.Outcome>, any Error>) {
    operations.complete(request, round: round, outcome)
  }
}
