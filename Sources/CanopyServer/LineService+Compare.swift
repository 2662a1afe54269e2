internal import CanopyEngine
internal import CanopyRules
internal import CanopySocial
internal import CanopyTree
internal import CanopyWire
internal import NIOPosix

/// CAS: a write that is made only if the present value has a given ETag.
///
/// An ETag is a hash of the whole value, and hashing a large one takes long. So the engine's task only
/// ever hashes small values. It first asks the rules, so a caller that may neither read nor write is
/// refused before anything is hashed, and learns nothing by the time that takes. A large value is hashed
/// on another thread. If the ETag is another one, that is the answer: the value was the present one when
/// the request was decided. If it is the same, the engine is asked again, and makes the write if the
/// value is still the very same node.
///
/// While a large value is hashed, later requests of its connection wait: see `LineService.kind`.
struct CompareAndSet: Sendable {
  /// Bytes of JSON of a value that the engine's task hashes.
  static let smallBytesMax = 4_096
  /// How often a value that has changed meanwhile is hashed anew.
  static let roundsMax = 4

  let location: Location
  let etag: String
  let write: Write
  let identity: Identity
  let origin: WriteOrigin?

  /// A value and its ETag.
  struct Hashed: Sendable {
    var node: Node
    var etag: String
  }

  /// What the engine's task found.
  enum Outcome: Sendable {
    case committed
    case differs(Hashed)
    /// The value is to be hashed elsewhere.
    case large(Node, mayRead: Bool)
  }
}

extension LineService {
  /// Carries out CAS.
  ///
  /// - Throws: `TreeError` when the value cannot be written.
  func compareAndSet(
    _ location: Location, _ etag: String, _ value: WriteValue, as identity: Identity,
    once origin: WriteOrigin?, _ answer: @escaping @Sendable (Response) -> Void
  ) throws {
    let request = CompareAndSet(
      location: location, etag: etag, write: try Write.set(location, value), identity: identity,
      origin: origin)
    submit(request, nil, round: 1, answer)
  }

  /// Whether the engine's task hashes a value itself.
  func isSmall(_ location: Location) -> Bool {
    engine.root.at(location).fits(bytes: CompareAndSet.smallBytesMax)
  }

  private func submit(
    _ request: CompareAndSet, _ hashed: CompareAndSet.Hashed?, round: Int,
    _ answer: @escaping @Sendable (Response) -> Void
  ) {
    let transaction: Transaction<CompareAndSet.Outcome> = { [self] proposal in
      try decide(request, hashed, proposal)
    }
    engine.submit(transaction, once: request.origin) { [self] result in
      switch result {
      case .success(let committed):
        switch committed.result {
        case .committed: answer(Response(committed: committed.sequence))
        case .differs(let present): answer(Response(request, present))
        case .large(let node, let mayRead):
          guard round <= CompareAndSet.roundsMax else { return answer(Response(.changing)) }
          hash(node, for: request, mayRead: mayRead, round: round, answer)
        }
      case .failure(let earlier as RepeatedWrite): answer(Response(committed: earlier.sequence))
      case .failure(let error): answer(Response(wireError(error)))
      }
    }
  }

  /// Decides as far as that is cheap. Called on the engine's task.
  private func decide(
    _ request: CompareAndSet, _ hashed: CompareAndSet.Hashed?, _ proposal: Proposal
  ) throws -> Decision<CompareAndSet.Outcome> {
    let mayRead = mayRead(request, proposal)
    guard mayRead || mayWrite(request, proposal) else { throw WireError.denied }
    let present = proposal.root.at(request.location)
    let etag: String
    if let hashed, hashed.node.isIdentical(to: present) {
      etag = hashed.etag
    } else if present.fits(bytes: CompareAndSet.smallBytesMax) {
      etag = present.etag
    } else {
      return Decision(nil, .large(present, mayRead: mayRead))
    }
    if etag == request.etag {
      return Decision(request.write, .committed, judge: writeJudge(as: request.identity))
    }
    guard mayRead else { throw WireError.denied }
    return Decision(nil, .differs(CompareAndSet.Hashed(node: present, etag: etag)))
  }

  private func mayRead(_ request: CompareAndSet, _ proposal: Proposal) -> Bool {
    do {
      try checkRead(request.location.path, .all, in: proposal.root, as: request.identity)
      return true
    } catch {
      return false
    }
  }

  private func mayWrite(_ request: CompareAndSet, _ proposal: Proposal) -> Bool {
    guard let caller = request.identity.caller(at: proposal.now) else { return true }
    let (assignments, after) = request.write.outcome(in: proposal.root, at: proposal.now)
    return rules.current.rules.judge(
      assignments, before: proposal.root, after: after, as: caller
    ).isAllowed
  }

  /// Hashes a large value on another thread, and answers if it is another one than was asked for.
  private func hash(
    _ node: Node, for request: CompareAndSet, mayRead: Bool, round: Int,
    _ answer: @escaping @Sendable (Response) -> Void
  ) {
    Task { [self] in
      do {
        let response = try await hashing.withTurn {
          try await NIOThreadPool.singleton.runIfActive { [self] () -> Response? in
            compare(node, request, mayRead: mayRead, round: round, answer)
          }
        }
        if let response { answer(response) }
      } catch {
        answer(Response(wireError(error)))
      }
    }
  }

  /// Compares a large value. Returns nil if the engine is asked again.
  private func compare(
    _ node: Node, _ request: CompareAndSet, mayRead: Bool, round: Int,
    _ answer: @escaping @Sendable (Response) -> Void
  ) -> Response? {
    // No client can have the ETag of a value that no reply could hold.
    guard node.fits(bytes: limits.replyBytesMax) else {
      return Response(mayRead ? replyTooLarge : .denied)
    }
    let present = CompareAndSet.Hashed(node: node, etag: node.etag)
    guard present.etag == request.etag else {
      return mayRead ? Response(request, present) : Response(.denied)
    }
    submit(request, present, round: round + 1, answer)
    return nil
  }
}

extension Response {
  /// The write was made.
  fileprivate init(committed sequence: Int64) {
    self.init { output in
      output.append("{\"committed\":true,\"seq\":")
      output.append(sequence)
      output.append("}")
    }
  }

  /// The present value is another one.
  fileprivate init(_ request: CompareAndSet, _ present: CompareAndSet.Hashed) {
    self.init { output in
      output.append("{\"committed\":false,\"etag\":")
      output.append(string: present.etag)
      output.append(",\"data\":")
      // A client that may send again keeps a copy, to which priorities belong.
      output.append(present.node, style: request.origin == nil ? .plain : .export)
      output.append("}")
    }
  }
}

extension WireError {
  fileprivate static let changing = WireError(
    .conflict,
    "the value changes faster than it can be compared; try again, or compare a smaller part of it")
}
