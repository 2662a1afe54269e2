internal import CanopyEngine
internal import CanopyRules
internal import CanopyTree

/// The decisions of the on-disconnect writes of connections that have ended.
extension Operations {
  /// Submits the writes, a commit for each group. After a failure none of the later ones is made, so that a second try
  /// keeps their order.
  ///
  /// Large values are encoded on another thread before, and get their indexes there, as those of other writes.
  func submit(
    _ ended: EndedWrites, completion: @escaping @Sendable (WritesOutcome) -> Void
  ) {
    guard ended.writes.takeLongToEncode else {
      return submit(ended, ended.writes.map(\.write), completion: completion)
    }
    preparedEnds.begin()
    Task { [self] in
      defer { preparedEnds.end() }
      let prepared = try? await beside(ended.turns) { [self] in
        ended.writes.map { armed in
          var write = armed.write
          // Their sum is large, so each of them counts.
          prepare(&write, over: 0)
          return write
        }
      }
      submit(ended, prepared ?? ended.writes.map(\.write), completion: completion)
    }
  }

  /// Waits until the on-disconnect writes of all connections that have ended are submitted. Call it before the engine is
  /// stopped: a stopped engine leaves them for the next start.
  public func endedWritesSubmitted() async { await preparedEnds.wait() }

  /// - Parameter writes: those of `ended`, perhaps with the texts and the indexes of their values.
  private func submit(
    _ ended: EndedWrites, _ writes: [Write],
    completion: @escaping @Sendable (WritesOutcome) -> Void
  ) {
    var groups: [[Decision<Void>]] = []
    var group: DisconnectWriteID?
    for (armed, write) in zip(ended.writes, writes) {
      if armed.group != group { groups.append([]) }
      group = armed.group
      let policy = armed.caller.map { caller in
        ArmedPolicy(operations: self, caller: caller, session: armed.session)
      }
      groups[groups.count - 1].append(
        Decision(write, (), completedDisconnectWrite: armed.id, policy: policy))
    }
    engine.submit(groups, of: ended.owner) { [self] outcome in
      if outcome.decided > 0 { continueUnfinishedWork() }
      completion(outcome)
    }
  }
}

extension Sequence<ArmedWrite> {
  /// Whether the writer would encode too many bytes for the writes of one connection. O(1) for most.
  var takeLongToEncode: Bool {
    var budget = Operations.bytesEncodedAtOnceMax
    return !allSatisfy { $0.write.fits(budget: &budget) }
  }
}

/// The policy by which the rules check an on-disconnect write of a user or of an anonymous client.
private struct ArmedPolicy: WritePolicy {
  let operations: Operations
  let caller: RuleCaller
  let session: ArmedSession?

  private var rules: RulesKeeper { operations.rules }

  private func caller(at time: Int64) -> RuleCaller {
    var caller = caller
    caller.now = time
    return caller
  }

  func denies(_ write: Write, before: Node, at time: Int64) -> Bool {
    rules.current.denies(write, before: before, as: caller(at: time))
  }

  func allows(_ write: ProposedWrite) -> Bool {
    guard session?.session.mayFinish ?? true else { return false }
    return rules.current.allows(write, as: caller(at: write.time))
  }

  func derive(_ write: ProposedWrite) throws -> [Assignment]? {
    try operations.derive(write)
  }
}
