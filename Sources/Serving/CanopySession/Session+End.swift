public import CanopyAccounts

/// The end of a connection: by its client, by the server, or because the transport is gone.
extension Session {
  /// Ends the connection at once, because its client holds too much. Returns whether it was open.
  ///
  /// Drops the requests that wait. The caller sends the reason to the client, and closes.
  public mutating func abandon() -> Bool {
    guard isOpen else { return false }
    hasBacklog = false
    queue.dropWaiting()
    updateLedger()
    actions.append(close())
    return true
  }

  /// Ends the connection after its transport is gone.
  public mutating func lose() {
    guard phase != .lost else { return }
    if phase != .closing { leave() }
    phase = .lost
    setIdentity(.anonymous)
    // Requests that are under way stay in the queue until the engine has completed them.
    queue.dropWaiting()
    updateLedger()
  }

  /// Whether the connection goes on, so that events may be sent.
  public var isOpen: Bool { phase != .closing && phase != .lost }

  /// Whether the transport is gone.
  public var isLost: Bool { phase == .lost }

  /// Whether a request is under way that may change data or the on-disconnect writes of the connection. O(requests).
  public var hasUnfinishedChanges: Bool { queue.hasUnfinishedChanges }

  /// Removes and returns the on-disconnect writes that were armed in a login by a pass.
  public mutating func takeArmed(in login: AdministratorLogin) -> [ArmedWrite] {
    let ended = armed.filter { $0.login === login }
    setArmed(armed.filter { $0.login !== login })
    return ended
  }

  mutating func close() -> Action {
    phase = .closing
    leave()
    return .close
  }

  /// Ends the subscriptions, and carries out the on-disconnect writes. Called once.
  private mutating func leave() {
    endAllSubscriptions()
    carryOut()
  }

  mutating func carryOut() {
    // An ONDISCONNECT request under way may change them: its completion calls this again.
    guard armingSlot == nil, !armed.isEmpty else { return }
    actions.append(.carryOut(armed, identity))
    setArmed([])
  }
}
