public import CanopyAccounts
public import CanopyWire

/// The end of a connection: by its client, by the server, or because the transport is gone.
extension Session {
  /// Ends the input, because the client or the server ends the connection. The requests in the received input
  /// are answered; then the connection closes.
  ///
  /// - Parameter reason: the reason for the client; nil for none.
  public mutating func endInput(because reason: WireError? = nil) {
    guard phase == .open else { return }
    phase = .draining
    if let reason { endReason = reason }
  }

  /// Accepts no more requests. Earlier requests are answered; then the connection closes.
  ///
  /// - Parameter reason: the reason for the client; nil for none.
  public mutating func endRequests(because reason: WireError? = nil) {
    if takesRequests { phase = .ending }
    hasBacklog = false
    if let reason { endReason = reason }
  }

  /// Ends the connection at once, because its client holds too much. Returns whether it was open.
  ///
  /// Drops the requests that wait. The client gets the reason.
  public mutating func abandon(because reason: WireError) -> Bool {
    guard isOpen else { return false }
    endReason = reason
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

  /// Whether a request without an outcome may change data or the on-disconnect writes of the connection, or such writes
  /// are made and have no outcome. O(requests).
  public var hasUnfinishedChanges: Bool { carryOutsUnderWay > 0 || queue.hasUnfinishedChanges }

  /// Notes that the on-disconnect writes of a `carryOut` action have an outcome.
  public mutating func endCarryOut() {
    assert(carryOutsUnderWay > 0, "no on-disconnect writes are made")
    carryOutsUnderWay -= 1
  }

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
    carryOutsUnderWay += 1
    actions.append(.carryOut(armed, identity))
    setArmed([])
  }
}
