package import CanopyEngine
internal import CanopySession
internal import NIOCore

/// The time since a client last read anything.
package struct ReadProgress {
  /// The bytes that the channel had not sent at the last look.
  private var unsent = -1
  /// The time at which that number was new, in milliseconds since 1970.
  private var since: Int64 = 0

  package init() {}

  /// Returns the milliseconds for which the channel has sent nothing.
  package mutating func idleMilliseconds(unsent: Int, at now: Int64) -> Int64 {
    if unsent != self.unsent { (self.unsent, since) = (unsent, now) }
    return max(0, now - since)
  }
}

/// Withholding events from a client that reads slowly, and delivering their result when it has read the earlier ones.
extension SessionHandler {
  package final var withholdsEvents: Bool {
    session.withholdsEvents(unsentEventBytes: output.eventBytes, isWritable: isWritable)
  }

  package final func withhold(
    _ change: CommittedChange, from subscription: HubSubscription
  ) {
    guard session.isOpen, let context else { return }
    guard let grown = subscription.withhold(change) else { return endForUnreadEvents() }
    if !session.isBehind { withholding.progress = ReadProgress() }
    let buffered = try? context.channel.syncOptions?.getOption(.bufferedWritableBytes)
    let isWithinBound = session.withhold(
      from: subscription.number, bytes: WithheldChanges.bytes(of: change), grown: grown,
      idleMilliseconds: withholding.progress.idleMilliseconds(
        unsent: Int(buffered ?? 0), at: operations.now()))
    if isWithinBound { charge() } else { endForUnreadEvents() }
  }

  /// Delivers the withheld commits soon, if the channel has sent all events.
  final func catchUpLater() {
    guard output.eventBytes == 0, !withholding.isCatchingUp else { return }
    withholding.isCatchingUp = true
    // Not from within a write of the channel.
    services.loop.assumeIsolated().execute { [self] in
      guard session.isBehind else { return endCatchUp() }
      let numbers = subscribers.filter { $0.value.isBehind }.keys.sorted(by: >)
      var rest = numbers[...]
      let hub = hub
      hub.catchUp { [self] snapshot in
        // The subscriptions may have moved to another hub, which has later events of them.
        guard hub === self.hub,
          session.hasRoomForWithheld(unsentEventBytes: output.eventBytes)
        else { return nil }
        while let number = rest.popLast() {
          guard let subscription = subscribers[number], subscription.mayCatchUp(to: snapshot) else {
            continue
          }
          session.endWithholding(from: number)
          return subscription
        }
        return nil
      } done: { [self] in
        endCatchUp()
      }
    }
  }

  private func endCatchUp() {
    withholding.isCatchingUp = false
    // Everything may have been sent meanwhile.
    if session.isBehind { return catchUpLater() }
    resumeWaiters()
    if let context { advance(context) }
  }

  // MARK: Waiting

  /// Sends the events in the inbox, if the connection has subscriptions. Returns whether it has got all events.
  final func drainEvents() -> Bool {
    subscribers.isEmpty || (hub.drain() && !session.isBehind)
  }

  /// Calls a closure when all events are sent that the hub has now, and none is withheld, with the snapshot after them. For
  /// a connection that has not got all events.
  final func waitForHub(_ body: @escaping (Snapshot) -> Void) {
    guard !session.isBehind else { return withholding.waiters.append(body) }
    hub.wait { [self] snapshot in
      if session.isBehind { withholding.waiters.append(body) } else { body(snapshot) }
    }
  }

  /// Resumes the calls that have waited for withheld events, if none is withheld.
  final func resumeWaiters() {
    guard !session.isBehind, !withholding.waiters.isEmpty else { return }
    let waiters = withholding.waiters
    withholding.waiters = []
    services.loop.assumeIsolated().execute { [self] in
      for body in waiters {
        if let snapshot = hub.takeSnapshot(), !session.isBehind {
          body(snapshot)
        } else {
          waitForHub(body)
        }
      }
    }
  }
}
