public import CanopyAccounts
internal import CanopyEngine
internal import CanopyRules
internal import CanopyTree
public import CanopyWire
internal import Logging

/// On-disconnect writes. The store has a write before the client gets its reply, so the write is made
/// however the connection ends. If the server ends first, it is made at the next start.
///
/// The writes of a connection are made in one commit, in the order in which they were armed, and each on the tree after
/// those before it.
///
/// The rules authorize a write when it is armed, so that the client gets the error, and again when it
/// is made, as a write of the user who armed it.
///
/// A write of a session, or of the administrator's login by a pass, that was revoked meanwhile is dropped. If its
/// connection has renewed the session, as by `CONFIRM`, the write belongs to the new session, in memory and in the
/// store. A session that has only expired keeps its writes while the process lives.
///
/// At the next start a write is dropped if the store no longer has the token of its session. An expired token counts as
/// revoked then, because the store removes both. The store does not have identity tokens: their writes are dropped if
/// the token has expired, or if its login is earlier than the last change that ended all logins of the account. A write
/// of an earlier version does not name its session; it is dropped unless its account is active.
extension Operations {
  /// Arms or cancels on-disconnect writes of a connection.
  ///
  /// - Parameters:
  ///   - armed: the writes that the connection has.
  ///   - login: the login of an administrator who has used a pass; nil for another caller.
  public func onDisconnect(
    _ request: DisconnectRequest, text: String, as identity: Identity, _ armed: [ArmedWrite],
    in login: AdministratorLogin? = nil
  ) async -> Session.Completion {
    await onDisconnect(
      request, text: text, as: identity, armed, in: login, for: WriteQuotas.Owner())
  }

  /// Arms or cancels on-disconnect writes, and counts the priorities that follow from them now for a user and a network.
  func onDisconnect(
    _ request: DisconnectRequest, text: String, as identity: Identity, _ armed: [ArmedWrite],
    in login: AdministratorLogin?, for owner: WriteQuotas.Owner
  ) async -> Session.Completion {
    do {
      var completion = Session.Completion(.null)
      completion.armed = try await arm(
        request, text: text, as: identity, armed, in: login, for: owner)
      return completion
    } catch {
      return Session.Completion(storeError(error))
    }
  }

  /// Returns the writes that the connection has after a request.
  ///
  /// - Throws: `WireError` or `TreeError` if the request cannot be granted; the store's error.
  private func arm(
    _ request: DisconnectRequest, text: String, as identity: Identity, _ armed: [ArmedWrite],
    in login: AdministratorLogin?, for owner: WriteQuotas.Owner
  ) async throws -> [ArmedWrite] {
    let write = try request.write()
    let locations = write?.items.count ?? 0
    // Checked before the write is compared with others.
    guard locations <= limits.disconnectLocationsMax else { throw tooManyArmed }
    if let write {
      try write.checkLeafPaths()
      try write.checkServerValues()
      try write.checkPriorities(limits)
      try checkDerivation(write, as: identity)
    }
    let caller = identity.caller(at: now())
    // From now on a revocation reaches the session, even if the connection ends. A write whose session is revoked
    // at this moment is dropped later.
    let isUser = caller?.auth != nil
    let session = isUser ? identity.session.map { ArmedSession($0, in: sessions) } : nil
    if let write, let caller {
      let root = engine.root
      let (assignments, after, priorityBytes) = write.outcome(in: root, at: caller.now)
      count(priorityBytes: priorityBytes, for: owner)
      let verdict = rules.current.rules.authorize(
        assignments, before: root, after: after, as: caller)
      guard verdict.isAllowed else { throw WireError.denied }
    }
    let replaced = LocationCover(request.locations(of: write))
    var kept: [ArmedWrite] = []
    var changed: [DisconnectWriteID: [String]] = [:]
    var removed: [DisconnectWriteID] = []
    for var other in armed {
      let exceptions = other.except(replaced)
      if exceptions.isEmpty {
        kept.append(other)
      } else if other.write.items.isEmpty {
        removed.append(other.id)
      } else {
        kept.append(other)
        changed[other.id] = exceptions.map(\.text)
      }
    }
    let added = write.flatMap { $0.items.isEmpty ? nil : $0 }
    let bytes = text.utf8.count
    if added != nil {
      guard kept.count < limits.disconnectWritesMax,
        kept.reduce(bytes, { $0 + $1.bytes }) <= limits.disconnectBytesMax,
        kept.reduce(locations, { $0 + $1.write.items.count }) <= limits.disconnectLocationsMax
      else { throw tooManyArmed }
    }
    // If nothing changes, the store need not write.
    if added == nil, changed.isEmpty, removed.isEmpty { return kept }
    // All writes of the connection are one group, so that also the next process makes them in one commit.
    let group = kept.first?.group
    let id = try await disconnectStore.changeDisconnectWrites(
      adding: added.map { _ in (KeptCaller(caller, session: session?.session).text, text) },
      to: group, exceptions: changed, removing: removed)
    if let id, let added {
      kept.append(
        ArmedWrite(
          id: id, group: group, write: added, caller: caller, session: session, login: login,
          text: text))
    }
    return kept
  }

  private var tooManyArmed: WireError {
    WireError(
      .tooLarge,
      "a connection may have at most \(limits.disconnectWritesMax) on-disconnect writes, of at most "
        + "\(limits.disconnectBytesMax) bytes and \(limits.disconnectLocationsMax) locations together; "
        + "cancel some first")
  }
}
