internal import CanopyAccounts
internal import CanopyEngine
internal import CanopyRules
internal import CanopyTree
public import CanopyWire
internal import Logging

/// On-disconnect writes. The store keeps them before the client gets its reply, so that they are made
/// however the connection ends; if the server ends with it, they are made at the next start.
///
/// The rules decide about a write when it is armed, so that a client learns of an error, and again when it
/// is made: as a write of the user who armed it.
///
/// A write of a session that was revoked meanwhile is dropped. A session that has merely expired keeps
/// its writes while the process lives. At the next start only the store can tell: a write is dropped
/// unless the token of its session is still valid, and for writes of an earlier version, which do not
/// name it, unless the account is still active. There an expired token counts as revoked, since the
/// store removes both.
extension Operations {
  /// Arms or cancels on-disconnect writes of a connection.
  ///
  /// - Parameter armed: the writes that the connection has.
  public func onDisconnect(
    _ request: DisconnectRequest, text: String, as identity: Identity, _ armed: [ArmedWrite]
  ) async -> Session.Completion {
    do {
      var completion = Session.Completion(.null)
      completion.armed = try await arm(request, text: text, as: identity, armed)
      return completion
    } catch {
      return Session.Completion(storeError(error))
    }
  }

  /// Returns the writes that the connection has after a request.
  ///
  /// - Throws: `WireError` or `TreeError` when the request cannot be granted; the store's error.
  private func arm(
    _ request: DisconnectRequest, text: String, as identity: Identity, _ armed: [ArmedWrite]
  ) async throws -> [ArmedWrite] {
    let write = try request.write()
    let caller = identity.caller(at: now())
    // From now on a revocation reaches the session, whatever becomes of the connection. A user's write
    // always has one: what is revoked at this moment is dropped later.
    let isUser = caller?.auth != nil
    let session = isUser ? identity.session.map { ArmedSession($0, in: sessions) } : nil
    if let write, let caller {
      let root = engine.root
      let (assignments, after) = write.outcome(in: root, at: caller.now)
      let verdict = rules.current.rules.judge(assignments, before: root, after: after, as: caller)
      guard verdict.isAllowed else { throw WireError.denied }
    }
    let replaced = request.locations(of: write)
    var kept: [ArmedWrite] = []
    var changed: [DisconnectWriteID: [String]] = [:]
    var removed: [DisconnectWriteID] = []
    for var other in armed {
      if !other.except(replaced) {
        kept.append(other)
      } else if other.write.items.isEmpty {
        removed.append(other.id)
      } else {
        kept.append(other)
        changed[other.id] = other.exceptions.map(\.text)
      }
    }
    let added = write.flatMap { $0.items.isEmpty ? nil : $0 }
    let bytes = text.utf8.count
    if added != nil {
      guard kept.count < limits.disconnectWritesMax,
        kept.reduce(bytes, { $0 + $1.bytes }) <= limits.disconnectBytesMax
      else {
        throw WireError(
          .tooLarge,
          "a connection may have at most \(limits.disconnectWritesMax) on-disconnect writes of "
            + "\(limits.disconnectBytesMax) bytes together; cancel some first")
      }
    }
    // Nothing changes, so the store need not write.
    if added == nil, changed.isEmpty, removed.isEmpty { return kept }
    let id = try await disconnectStore.changeDisconnectWrites(
      adding: added.map { _ in (KeptCaller(caller, session: session?.session).text, text) },
      exceptions: changed, removing: removed)
    if let id, let added {
      kept.append(ArmedWrite(id: id, write: added, caller: caller, session: session, bytes: bytes))
    }
    return kept
  }

  /// Runs a closure after a second.
  public typealias Retry = @Sendable (@escaping @Sendable () -> Void) -> Void

  /// Makes the on-disconnect writes of a connection that has ended, in the order in which they were armed.
  /// Tries again while the journal fails. Returns at once.
  ///
  /// When the engine has stopped they stay in the store, for the next start.
  public func carryOut(_ armed: [ArmedWrite], retry: @escaping Retry) {
    submit(armed) { [self] result in
      switch result {
      case .success(let denied):
        if !denied.isEmpty { Task { try? await drop(denied.map { armed[$0] }) } }
      case .failure(.stopped):
        logger.notice(
          "on-disconnect writes are left for the next start",
          metadata: ["writes": "\(armed.count)"])
      case .failure(let error):
        logger.error(
          "on-disconnect writes failed; they are tried again",
          metadata: ["writes": "\(armed.count)", "error": "\(error)"])
        retry { [self] in carryOutAgain(armed, retry: retry) }
      }
    }
  }

  /// Makes the writes that the store still has.
  ///
  /// A journal that failed may have stored its commits, and the store forgot the writes with them: an
  /// increment that is made again would count twice.
  private func carryOutAgain(_ armed: [ArmedWrite], retry: @escaping Retry) {
    Task {
      do {
        let kept = Set(try await disconnectStore.disconnectWrites().map(\.id))
        let left = armed.filter { kept.contains($0.id) }
        if left.count < armed.count {
          logger.notice(
            "on-disconnect writes had been made although the journal failed",
            metadata: ["writes": "\(armed.count - left.count)"])
        }
        if !left.isEmpty { carryOut(left, retry: retry) }
      } catch {
        logger.error(
          "on-disconnect writes cannot be read; they are tried again",
          metadata: ["error": "\(error)"])
        retry { [self] in carryOutAgain(armed, retry: retry) }
      }
    }
  }

  /// Submits all writes that the rules allow, or none, so that a second try keeps their order.
  private func submit(
    _ armed: [ArmedWrite], completion: @escaping @Sendable (Result<[Int], EngineError>) -> Void
  ) {
    let decisions = armed.map { armed in
      let derive = armed.caller.map { _ in
        { @Sendable [rules] (write: ProposedWrite) in try rules.derive(write) }
      }
      return Decision(
        armed.write, (), settles: armed.id, authorize: authorization(of: armed), derive: derive)
    }
    engine.submit(decisions) { [self] result in
      if case .success = result { continueUnfinishedWork() }
      completion(result)
    }
  }

  private func authorization(of armed: ArmedWrite) -> (@Sendable (ProposedWrite) -> Bool)? {
    guard let caller = armed.caller else { return nil }
    return { [rules, session = armed.session] write in
      guard session?.session.mayFinish ?? true else { return false }
      var caller = caller
      caller.now = write.time
      return rules.current.allows(write, as: caller)
    }
  }

  /// Makes the store forget writes that are not made.
  private func drop(_ denied: [ArmedWrite]) async throws {
    let revoked = denied.filter { $0.session?.session.mayFinish == false }
    log("the sessions of on-disconnect writes have been revoked; they are dropped", revoked)
    let others = denied.filter { $0.session?.session.mayFinish != false }
    log("the rules do not allow on-disconnect writes, which are dropped", others)
    try await forget(denied)
  }

  private func log(_ message: Logger.Message, _ dropped: [ArmedWrite]) {
    guard !dropped.isEmpty else { return }
    logger.notice(
      message,
      metadata: ["writes": "\(dropped.count)", "at": "\(dropped.flatMap(\.places))"])
  }

  private func forget(_ denied: [ArmedWrite]) async throws {
    do {
      _ = try await disconnectStore.changeDisconnectWrites(
        adding: nil, exceptions: [:], removing: denied.map(\.id))
    } catch {
      logger.error(
        "on-disconnect writes that are not allowed could not be forgotten",
        metadata: ["error": "\(error)"])
      throw error
    }
  }

  /// Makes the on-disconnect writes that the last process left behind. Call it with the engine running,
  /// before there are connections.
  ///
  /// - Throws: the store's or the engine's error. A write that cannot be read is logged and forgotten.
  public func carryOutAbandoned() async throws {
    for kept in try await disconnectStore.disconnectWrites() {
      let armed: ArmedWrite
      let caller: KeptCaller
      do {
        armed = try ArmedWrite(kept)
        caller = try KeptCaller(kept.identity)
      } catch {
        logger.error(
          "an on-disconnect write cannot be read, and is dropped",
          metadata: ["request": "\(kept.request)", "error": "\(error)"])
        _ = try await disconnectStore.changeDisconnectWrites(
          adding: nil, exceptions: [:], removing: [kept.id])
        continue
      }
      guard try await isAccountValid(of: caller) else {
        log("the sessions of on-disconnect writes have ended; they are dropped", [armed])
        try await forget([armed])
        continue
      }
      let denied = try await withCheckedThrowingContinuation { continuation in
        submit([armed]) { result in continuation.resume(with: result.mapError { $0 }) }
      }
      guard denied.isEmpty else {
        try await drop([armed])
        continue
      }
      logger.notice("made an on-disconnect write of a connection that ended with the server")
    }
  }

  /// Whether a caller that was kept when the process ended may still write, as far as the store can
  /// tell.
  private func isAccountValid(of caller: KeptCaller) async throws -> Bool {
    if let session = caller.session { return try await accounts.isValid(session) }
    guard let uid = caller.uid else { return true }
    return try await accounts.isActive(uid: uid)
  }
}
