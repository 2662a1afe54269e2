public import CanopyAccounts
internal import CanopyEngine
internal import CanopyRules
internal import CanopyTree
public import CanopyWire
internal import Logging

/// On-disconnect writes. The store has a write before the client gets its reply, so the write is made
/// however the connection ends. If the server ends first, it is made at the next start.
///
/// A later write of a connection replaces the earlier ones at and below its locations, as in the original database: an
/// increment, too. The others are made in one commit, in the order in which they were armed, and each on the tree after
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
  ///
  /// - Parameter turns: the connection and its network, which share their turns of computing.
  func onDisconnect(
    _ request: DisconnectRequest, text: String, as identity: Identity, _ armed: [ArmedWrite],
    in login: AdministratorLogin?, for owner: WriteQuotas.Owner, turns: TurnGroup? = nil
  ) async -> Session.Completion {
    do {
      // Checked before anything is computed from them.
      guard request.locationCount <= limits.disconnectLocationsMax else { throw tooManyArmed }
      if let write = request.treeWrite { try checkUpdate(write, by: identity) }
      let step: @Sendable () throws -> Arming = { [self] in
        try arming(request, bytes: text.utf8.count, as: identity, armed, for: owner)
      }
      let takesLong =
        request.locationCount > Operations.locationsMadeAtOnceMax
        || text.utf8.count > Operations.bytesEncodedAtOnceMax
      let effect =
        takesLong
        ? try await beside(turns, step) : try await shortWork.withTurn(of: turns) { try step() }
      var completion = Session.Completion(.null)
      completion.armed = try await store(effect, text: text, in: login)
      return completion
    } catch {
      return Session.Completion(storeError(error))
    }
  }

  /// The effect of a request on the on-disconnect writes of its connection.
  private struct Arming: Sendable {
    /// The write that is armed; nil for none.
    let added: Write?
    let caller: RuleCaller?
    let session: ArmedSession?
    /// The earlier writes that stay, as a whole or in part.
    var kept: [ArmedWrite] = []
    /// The new exceptions of those that stay in part.
    var exceptions: [DisconnectWriteID: [String]] = [:]
    /// The earlier writes that do not stay.
    var removed: [DisconnectWriteID] = []

    /// Whether the store need not write.
    var changesNothing: Bool { added == nil && exceptions.isEmpty && removed.isEmpty }
  }

  /// Authorizes the write of a request, and returns the effect of the request. Call it in a turn: it may take as many steps
  /// of the rules as a write.
  ///
  /// - Throws: `WireError` or `TreeError` if the request cannot be granted.
  private func arming(
    _ request: DisconnectRequest, bytes: Int, as identity: Identity, _ armed: [ArmedWrite],
    for owner: WriteQuotas.Owner
  ) throws -> Arming {
    countRest(of: request, for: owner)
    let write = try request.write()
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
      try checkServerPlaces(assignments, before: root, after: after)
    }
    let added = write.flatMap { $0.items.isEmpty ? nil : $0 }
    var arming = Arming(added: added, caller: caller, session: session)
    let replaced = LocationCover(request.locations(of: write))
    for var other in armed {
      let exceptions = other.except(replaced)
      if exceptions.isEmpty {
        arming.kept.append(other)
      } else if other.write.items.isEmpty {
        arming.removed.append(other.id)
      } else {
        arming.kept.append(other)
        arming.exceptions[other.id] = exceptions.map(\.text)
      }
    }
    if let added {
      guard arming.kept.count < limits.disconnectWritesMax,
        arming.kept.reduce(bytes, { $0 + $1.bytes }) <= limits.disconnectBytesMax,
        arming.kept.reduce(added.items.count, { $0 + $1.write.items.count })
          <= limits.disconnectLocationsMax
      else { throw tooManyArmed }
    }
    return arming
  }

  /// Stores the effect of a request, and returns the writes that the connection has after it.
  ///
  /// - Throws: the store's error.
  private func store(
    _ arming: Arming, text: String, in login: AdministratorLogin?
  ) async throws -> [ArmedWrite] {
    var kept = arming.kept
    if arming.changesNothing { return kept }
    let (caller, session) = (arming.caller, arming.session)
    // All writes of the connection are one group, so that also the next process makes them in one commit.
    let group = kept.first?.group
    let id = try await disconnectStore.changeDisconnectWrites(
      adding: arming.added.map { _ in (KeptCaller(caller, session: session?.session).text, text) },
      to: group, exceptions: arming.exceptions, removing: arming.removed)
    if let id, let added = arming.added {
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
