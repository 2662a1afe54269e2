internal import CanopyAccounts
internal import CanopyEngine
internal import CanopyIdentity
internal import CanopyTree
internal import Logging

/// The part of a node that serves a journal together with others.
extension Operations {
  /// Handles a mark of the journal, or a reload after which the node may have missed marks. Called on the engine's
  /// thread.
  func take(_ event: JournalEvent) {
    switch event {
    case .marked(.rules, _): continueUnfinishedWork()
    case .marked(.account(let uid), _): Task { await checkLogins(of: uid) }
    case .reloaded:
      continueUnfinishedWork()
      let uids = sessions.uids
      Task { for uid in uids { await checkLogins(of: uid.text) } }
    }
  }

  /// Checks the logins of an account that may have changed on another node, and ends those that are not valid any more.
  ///
  /// A login that the store cannot check ends as well: it may have been revoked.
  func checkLogins(of uid: String) async {
    accounts.forgetState(of: uid)
    guard let key = try? Key(uid) else { return }
    sessions.noteChange(of: key)
    for token in sessions.allTokens(of: key) where !(await isValid(token.text)) {
      await reauthorize(sessions.revoke(key, token: token.text))
    }
  }

  private func isValid(_ token: String) async -> Bool {
    do {
      if let digest = TokenDigest(token: token) { return try await accounts.isValid(digest) }
      guard let identityService else { return false }
      try await identityService.check(try await identityService.verify(token))
      return true
    } catch {
      return false
    }
  }

  /// The longest time for which a read waits for the commit of its option `atLeast`.
  public static let atLeastMax = Duration.seconds(5)

  // MARK: On-disconnect writes of nodes that are gone

  /// The time between two renewals of the lease of a node.
  public static let leaseRenewal = Duration.seconds(5)

  /// Whether the on-disconnect writes are in a store of several nodes.
  public var hasLease: Bool { disconnectStore is any SharedDisconnectStore }

  /// Renews the lease of this node from time to time, and makes the on-disconnect writes of nodes whose lease has run out,
  /// until the task is cancelled or the engine stops.
  public func keepLease() async {
    guard let store = disconnectStore as? any SharedDisconnectStore else { return }
    var work = TakenOverWrites()
    while !Task.isCancelled, !engine.isStopping {
      do {
        if try await !store.renewLease() {
          logger.notice(
            "the lease of this node had run out; its on-disconnect writes may be made by another node"
          )
        }
        try await makeWrites(takenOverFrom: store, &work)
      } catch {
        logger.error("the lease of this node cannot be renewed", metadata: ["error": "\(error)"])
      }
      guard (try? await engine.clock.sleep(for: Operations.leaseRenewal)) != nil else { return }
    }
  }
}
