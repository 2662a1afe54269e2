internal import CanopyAccounts
public import CanopyEngine
internal import CanopyIdentity
internal import CanopyRules
internal import CanopyTree
internal import CanopyWire
internal import Logging

/// On-disconnect writes are made when their connection ends, or at the next start.
extension Operations {
  /// Runs a closure after a second.
  public typealias Retry = @Sendable (@escaping @Sendable () -> Void) -> Void

  /// Makes the on-disconnect writes of a connection that has ended, in one commit, in the order in which they were
  /// armed, after all requests of the connection. Tries again while the journal fails. Returns at once.
  ///
  /// When the engine has stopped, they stay in the store for the next start.
  ///
  /// - Parameters:
  ///   - identity: the last user of the connection.
  ///   - address: the address of the client.
  ///   - turns: the connection and its network, as for its other writes.
  ///   - completion: called once when the first try has an outcome, on any thread.
  public func carryOut(
    _ armed: [ArmedWrite], as identity: Identity, from address: String, turns: TurnGroup? = nil,
    retry: @escaping Retry, completion: @escaping @Sendable () -> Void = {}
  ) {
    // The administrator has no policy, which would find a login that has been revoked.
    var writes: [ArmedWrite] = []
    var revoked: [ArmedWrite] = []
    for write in armed {
      if write.login?.isRevoked == true { revoked.append(write) } else { writes.append(write) }
    }
    drop(revoked)
    guard !writes.isEmpty else { return completion() }
    // While they wait for the writer, many small writes have a second text, as a large one has from the start.
    let takesLong = writes.takeLongToEncode
    let bytes = writes.reduce(0) { sum, write in
      let isSmall = write.bytes < Operations.bytesEncodedAtOnceMax
      return sum + write.memoryBytes + (takesLong && isSmall ? write.bytes : 0)
    }
    let ended = EndedWrites(
      writes: writes, owner: identity.owner(at: address, turns), turns: turns,
      charge: memory.charge(bytes))
    carryOut(ended, isRetry: false, retry, completion: completion)
  }

  private func carryOut(
    _ ended: EndedWrites, isRetry: Bool, _ retry: @escaping Retry,
    completion: @escaping @Sendable () -> Void = {}
  ) {
    submit(ended) { [self] outcome in
      defer { completion() }
      count(unpackedBytes: outcome.unpackedBytes, for: ended.turns?.network)
      if !outcome.denied.isEmpty {
        let dropped = DroppedWrite.denied(in: outcome, of: ended.writes)
        Task { await drop(dropped) }
      }
      let left = ended.writes.count - outcome.decided
      switch outcome.failure {
      case nil:
        if isRetry { noteSucceededRetries(1) }
      case .stopped:
        if isRetry { noteSucceededRetries(1) }
        logger.notice(
          "on-disconnect writes are left for the next start", metadata: ["writes": "\(left)"])
      case .some(let error):
        var rest = ended
        rest.writes.removeFirst(outcome.decided)
        let (isFirst, mustSchedule) = disconnectRetries.add(rest, isRetry: isRetry)
        if mustSchedule, !engine.isStopping { retry { [self] in carryOutAgain(retry) } }
        if isFirst {
          logger.error(
            "on-disconnect writes failed; they are tried again until they are made",
            metadata: ["writes": "\(left)", "error": "\(error)"])
        }
      }
    }
  }

  /// Makes the writes that failed and that the store still has, of all connections.
  ///
  /// A journal that failed may have stored its commits, and the store removed the writes with them: an
  /// increment that is made again would count twice.
  private func carryOutAgain(_ retry: @escaping Retry) {
    let waiting = disconnectRetries.take()
    Task {
      do {
        let kept = try await disconnectStore.disconnectWriteIDs()
        var made = 0
        for var ended in waiting {
          let count = ended.writes.count
          ended.writes.removeAll { !kept.contains($0.id) }
          made += count - ended.writes.count
          if ended.writes.isEmpty {
            noteSucceededRetries(1)
          } else {
            carryOut(ended, isRetry: true, retry)
          }
        }
        if made > 0 {
          logger.notice(
            "on-disconnect writes had been made although the journal failed",
            metadata: ["writes": "\(made)"])
        }
      } catch {
        // The log has the line of the first failure.
        logger.debug(
          "on-disconnect writes cannot be read; they are tried again",
          metadata: ["error": "\(error)"])
        var mustSchedule = false
        for ended in waiting {
          if disconnectRetries.add(ended, isRetry: true).mustSchedule { mustSchedule = true }
        }
        // The loop of the connection may be gone soon. The store keeps the writes for the next start.
        if mustSchedule, !engine.isStopping { retry { [self] in carryOutAgain(retry) } }
      }
    }
  }

  /// Notes that the writes of some connections need no further try.
  private func noteSucceededRetries(_ count: Int) {
    guard let connections = disconnectRetries.succeed(count) else { return }
    logger.notice(
      "no failed on-disconnect writes are left", metadata: ["connections": "\(connections)"])
  }

  /// Makes the store forget writes whose login has been revoked. Returns at once.
  func drop(_ revoked: [ArmedWrite]) {
    guard !revoked.isEmpty else { return }
    Task { await drop(revoked.map { DroppedWrite(write: $0, reason: nil) }) }
  }

  /// Makes the store forget writes that are not made.
  private func drop(_ dropped: [DroppedWrite]) async {
    logDropped(dropped)
    do {
      // The commit of the other writes of the connection has removed them, if there is one.
      try await forget(dropped.map(\.write.id))
    } catch {
      logger.error(
        "on-disconnect writes that are not made could not be forgotten",
        metadata: ["error": "\(error)"])
    }
  }

  private func forget(_ ids: [DisconnectWriteID]) async throws {
    guard !ids.isEmpty else { return }
    _ = try await disconnectStore.changeDisconnectWrites(
      adding: nil, exceptions: [:], removing: ids)
  }

  // MARK: At the start

  /// The writes and the bytes of requests with which a page ends that is read at the start. A page has whole groups. It
  /// costs a synced append, or several if it does not fit in a batch of the engine.
  private static let abandonedMax = (writes: 1_000, bytes: 1024 * 1024)

  /// Makes the on-disconnect writes that the last process left behind, a commit for each connection. Call it with the
  /// engine running, before there are connections.
  ///
  /// If the journal or the store cannot be written, as on a full disk, this returns all the same, so that the server can
  /// serve reads. The writes are tried again each second until they are made. They wait in the store and not in memory.
  ///
  /// - Throws: the store's error when it cannot be read. A write that cannot be decoded is logged and forgotten.
  public func carryOutAbandoned() async throws {
    if isPlanted(.disconnectWritesLost) { return }
    var left = AbandonedWrites()
    guard let failure = try await carryOut(&left) else { return }
    let ids = try await disconnectStore.disconnectWriteIDs()
    // The later writes will be those of connections.
    left.end = ids.max() ?? left.last
    guard !engine.isStopping else { return leaveAbandoned() }
    if disconnectRetries.noteAbandoned() {
      logger.error(
        "on-disconnect writes failed; they are tried again until they are made",
        metadata: ["writes": "\(ids.count)", "error": "\(failure)"])
    }
    Task { [self, left] in await carryOutAgain(left) }
  }

  /// Tries each second to make the rest of the writes of the last process, until they are made or the engine stops.
  private func carryOutAgain(_ left: AbandonedWrites) async {
    var left = left
    // Ends as well if the wait is cancelled.
    while (try? await engine.clock.sleep(for: .seconds(1))) != nil, !engine.isStopping {
      do {
        guard let failure = try await carryOut(&left) else { return noteSucceededRetries(1) }
        // The log has the line of the first failure.
        logger.debug(
          "on-disconnect writes cannot be made; they are tried again",
          metadata: ["error": "\(failure)"])
      } catch {
        logger.debug(
          "on-disconnect writes cannot be read; they are tried again",
          metadata: ["error": "\(error)"])
      }
    }
    leaveAbandoned()
  }

  private func leaveAbandoned() {
    logger.notice("on-disconnect writes of the last process are left for the next start")
  }

  /// Makes the writes of the last process, up to the first failure to write.
  ///
  /// - Returns: the failure; nil if no writes are left.
  /// - Throws: the store's error when it cannot be read.
  private func carryOut(_ left: inout AbandonedWrites) async throws -> (any Error)? {
    // Each session and account is looked up once in a try.
    var isValid: [ByteString: Bool] = [:]
    while true {
      // A write that was dropped must not be decided again after later ones.
      do {
        try await forget(left.dropped)
        left.dropped = []
      } catch {
        return error
      }
      let page = try await disconnectStore.disconnectWrites(
        after: left.last, countMax: Operations.abandonedMax.writes,
        bytesMax: Operations.abandonedMax.bytes
      ).prefix { $0.group <= left.end }
      guard let next = page.last?.group else { break }
      if let failure = try await carryOut(page, &left, &isValid) { return failure }
      left.last = next
    }
    if left.made > 0 {
      logger.notice(
        "made on-disconnect writes of connections that ended with the server",
        metadata: ["writes": "\(left.made)"])
    }
    return nil
  }

  /// Makes the writes of nodes that are gone, up to the first failure.
  ///
  /// - Parameter work: the writes that were taken over and are not made yet. They are made before others are taken over.
  func makeWrites(
    takenOverFrom store: any SharedDisconnectStore, _ work: inout TakenOverWrites
  ) async throws {
    var left = AbandonedWrites()
    left.dropped = work.dropped
    defer { work.dropped = left.dropped }
    var isValid: [ByteString: Bool] = [:]
    while !engine.isStopping {
      if work.writes.isEmpty {
        try await forget(left.dropped)
        left.dropped = []
        work.writes = try await store.takeOverDisconnectWrites(
          countMax: Operations.abandonedMax.writes, bytesMax: Operations.abandonedMax.bytes)
        if work.writes.isEmpty { break }
      } else if work.hasFailed {
        let kept = try await store.disconnectWriteIDs()
        work.writes.removeAll { !kept.contains($0.id) }
      }
      work.hasFailed = true
      if let failure = try await carryOut(work.writes, &left, &isValid) { throw failure }
      work = TakenOverWrites()
    }
    if left.made > 0 {
      logger.notice(
        "made on-disconnect writes of a node that is gone", metadata: ["writes": "\(left.made)"])
    }
  }

  /// Makes a page of writes of the last process, up to the first failure, which it returns.
  ///
  /// - Parameter isValid: the validity of the callers that were looked up before.
  private func carryOut(
    _ page: some Sequence<DisconnectWrite>, _ left: inout AbandonedWrites,
    _ isValid: inout [ByteString: Bool]
  ) async throws -> EngineError? {
    var ended: [ArmedWrite] = []
    var armed: [ArmedWrite] = []
    for kept in page {
      do {
        let write = try ArmedWrite(kept)
        let caller = try KeptCaller(kept.identity)
        let identity = ByteString(kept.identity)
        if isValid[identity] == nil {
          isValid[identity] = try await isAccountValid(of: caller)
        }
        if isValid[identity] == true { armed.append(write) } else { ended.append(write) }
      } catch let error where error is WireError || error is TreeError {
        logger.error(
          "an on-disconnect write cannot be read, and is dropped",
          metadata: [
            "request": "\(kept.request.quotedForLog)",
            // It may have the text of the request.
            "error": "\(String(describing: error).quotedForLog)",
          ])
        left.dropped.append(kept.id)
      }
    }
    log("the sessions of on-disconnect writes have ended; they are dropped", ended)
    left.dropped += ended.map(\.id)
    guard !armed.isEmpty else { return nil }
    let outcome = await withCheckedContinuation { [armed] continuation in
      submit(EndedWrites(writes: armed, owner: .server)) { continuation.resume(returning: $0) }
    }
    let dropped = DroppedWrite.denied(in: outcome, of: armed)
    logDropped(dropped)
    left.dropped += dropped.map(\.write.id)
    left.made += outcome.decided - dropped.count
    return outcome.failure
  }

  /// Whether a caller that was kept when the process ended may still write, by the sessions and accounts in the store.
  private func isAccountValid(of caller: KeptCaller) async throws -> Bool {
    if let session = caller.session { return try await accounts.isValid(session) }
    guard let uid = caller.uid else { return true }
    switch try await accounts.state(of: uid) {
    case .active(let validSince):
      if let loginTime = caller.loginTime, loginTime < validSince { return false }
    case .missing:
      // The user of an unsigned token need not have an account.
      guard identityService?.acceptsUnsignedTokens == true else { return false }
    case .disabled: return false
    }
    // Compared in seconds: the product with 1,000 may not exist.
    if let expiry = caller.expiry, expiry <= now() / 1_000 { return false }
    return true
  }
}

/// The on-disconnect writes of the last process that are not made yet.
private struct AbandonedWrites {
  /// The last group that is done.
  var last = DisconnectWriteID.min
  /// The last group of that process.
  var end = DisconnectWriteID.max
  /// The writes that are not to be made, and that the store still has.
  var dropped: [DisconnectWriteID] = []
  /// The number of writes that were made.
  var made = 0
}

/// The on-disconnect writes of nodes that are gone, which this node has taken over and not made yet.
struct TakenOverWrites {
  var writes: [DisconnectWrite] = []
  /// Whether an attempt to make them has failed. It may have made some of them.
  var hasFailed = false
  /// The writes that are not to be made, and that the store still has.
  var dropped: [DisconnectWriteID] = []
}
