package import CanopyEngine
internal import CanopySession
internal import NIOCore

/// Waiting for events, and the withholding of events from a client that reads slowly. The session decides; the hub delivers.
extension SessionHandler {
  // MARK: Waiting

  /// Sends the events in the inbox, if the connection has subscriptions. Returns whether it has got all events.
  final func drainEvents() -> Bool {
    subscribers.isEmpty || (!session.isBehind && hub.drain() && !session.isBehind)
  }

  /// Has something wait until all events are sent that the hub has now, and none is withheld. For a connection that has not
  /// got all events.
  final func wait(for waiter: Session.Waiter) {
    assertInEventLoop()
    session.beginWaiting(waiter)
    waitForHub(waiter)
  }

  private func waitForHub(_ waiter: Session.Waiter) {
    guard !session.keepIfBehind(waiter) else { return }
    let asked = hub
    asked.wait { [self] snapshot in
      // The subscriptions may have moved to another hub, which has later events of them.
      guard asked === hub else { return resumeOrWait(waiter) }
      if !session.keepIfBehind(waiter) { resume(waiter, at: snapshot) }
    }
  }

  /// Resumes a waiter if all events are sent that the hub has now, and none is withheld. Otherwise it goes on waiting.
  private func resumeOrWait(_ waiter: Session.Waiter) {
    if let snapshot = hub.takeSnapshot(), !session.isBehind {
      resume(waiter, at: snapshot)
    } else {
      waitForHub(waiter)
    }
  }

  /// - Parameter snapshot: the version up to which the events are sent.
  private func resume(_ waiter: Session.Waiter, at snapshot: Snapshot) {
    guard session.endWaiting(waiter) else { return }
    if case .longRead(let body) = waiter { return body(snapshot.root) }
    guard let context else { return }
    switch waiter {
    case .read(let request, let slot): read(context, request, slot, in: snapshot.root)
    case .reply(let reply): clientProtocol?.send(context, reply, at: snapshot)
    case .listen(let request, let slot): beginListening(context, request, slot)
    case .resumption(let number, let result): session.resumed(number, result)
    case .longRead: break
    }
    advance(context)
  }

  /// Resumes soon everything that has waited for withheld events, if none is withheld.
  final func resumeWaiters() {
    let waiters = session.takeWaiters()
    guard !waiters.isEmpty else { return }
    services.loop.assumeIsolated().execute { [self] in
      for waiter in waiters { resumeOrWait(waiter) }
    }
  }

  // MARK: Withholding

  package final var withholdsEvents: Bool {
    session.withholdsEvents(unsentEventBytes: output.eventBytes, isWritable: writing.isWritable)
  }

  package final func withhold(
    _ change: CommittedChange, from subscription: HubSubscription
  ) {
    assertInEventLoop()
    guard session.isOpen, context != nil else { return }
    guard let grown = subscription.withhold(change) else { return endForUnreadEvents() }
    let isWithinBound = session.withhold(
      from: subscription.number, bytes: WithheldChanges.bytes(of: change), grown: grown,
      unsent: bufferedBytes, at: operations.now())
    if isWithinBound { charge() } else { endForUnreadEvents() }
  }

  /// Delivers the withheld commits soon, if the channel has sent all events. Before that, requests begin, and replies are
  /// sent that an earlier catch-up covers.
  final func catchUpLater() {
    guard session.planCatchUp(unsentEventBytes: output.eventBytes) else { return }
    // Not from within a write of the channel.
    services.loop.assumeIsolated().execute { [self] in
      if let context, session.isBehind { advance(context) }
      guard session.beginCatchUp() else { return endCatchUp(at: nil) }
      var version: Snapshot?
      let hub = hub
      hub.catchUp { [self] snapshot in
        version = snapshot
        // The subscriptions may have moved to another hub, which has later events of them.
        guard hub === self.hub else { return nil }
        let next = session.nextToCatchUp(unsentEventBytes: output.eventBytes) {
          subscribers[$0]?.mayCatchUp(to: snapshot) == true
        }
        return next.flatMap { subscribers[$0] }
      } done: { [self] in
        endCatchUp(at: version)
      }
    }
  }

  /// - Parameter version: the version to which the catch-up has led; nil if there was none.
  private func endCatchUp(at version: Snapshot?) {
    // More commits may be withheld as soon as the hub goes on.
    for waiter in session.endCatchUp() where !session.keepIfBehind(waiter) {
      if let version { resume(waiter, at: version) } else { waitForHub(waiter) }
    }
    session.finishCatchUp()
    // Everything may have been sent meanwhile.
    if session.isBehind { return catchUpLater() }
    resumeWaiters()
    if let context { advance(context) }
  }
}
