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
    assertInEventLoop()
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

  /// Delivers the withheld commits soon, if the channel has sent all events. Before that, requests begin, and replies are
  /// sent that an earlier catch-up covers.
  final func catchUpLater() {
    guard output.eventBytes == 0, !withholding.isCatchingUp else { return }
    withholding.isCatchingUp = true
    // Not from within a write of the channel.
    services.loop.assumeIsolated().execute { [self] in
      if let context, session.isBehind { advance(context) }
      guard session.isBehind else { return endCatchUp(nil) }
      if withholding.left.isEmpty { session.beginCatchUp() }
      withholding.readyWaiters += withholding.waiters
      withholding.waiters = []
      var rest: [Int64]?
      var reached: Snapshot?
      let hub = hub
      hub.catchUp { [self] snapshot in
        // The subscriptions may have moved to another hub, which has later events of them.
        guard hub === self.hub,
          session.hasRoomForWithheld(
            unsentEventBytes: output.eventBytes, isAwaited: !withholding.readyWaiters.isEmpty)
        else { return nil }
        if rest == nil { rest = subscriptionsBehind() }
        reached = snapshot
        while let number = rest?.popLast() {
          guard let subscription = subscribers[number], subscription.mayCatchUp(to: snapshot) else {
            continue
          }
          withholding.left.remove(number)
          session.endWithholding(from: number)
          return subscription
        }
        return nil
      } done: { [self] in
        endCatchUp(reached)
      }
    }
  }

  /// Returns the subscriptions that are behind, in the reverse of the order in which they catch up: first those for which
  /// there was no room before.
  private func subscriptionsBehind() -> [Int64] {
    let behind = subscribers.filter { $0.value.isBehind }.keys.sorted(by: >)
    withholding.left.formIntersection(behind)
    if withholding.left.isEmpty { withholding.left = Set(behind) }
    let left = withholding.left
    return behind.filter { !left.contains($0) } + behind.filter(left.contains)
  }

  /// - Parameter snapshot: the version that the subscriptions have got; nil if they have got none.
  private func endCatchUp(_ snapshot: Snapshot?) {
    if let snapshot {
      withholding.left = withholding.left.filter { subscribers[$0]?.isBehind == true }
      if withholding.left.isEmpty { session.endCatchUp() }
      // More commits may be withheld as soon as the hub goes on.
      resumeWaiters(at: snapshot)
    }
    withholding.isCatchingUp = false
    // Everything may have been sent meanwhile.
    if session.isBehind { return catchUpLater() }
    resumeWaiters()
    if let context { advance(context) }
  }

  /// Resumes the calls that have waited for withheld events, with the version to which a catch-up has led.
  private func resumeWaiters(at snapshot: Snapshot) {
    guard !session.isBehind, !withholding.readyWaiters.isEmpty else { return }
    let waiters = withholding.readyWaiters
    withholding.readyWaiters = []
    session.beginResuming()
    defer { session.endResuming() }
    for body in waiters {
      if session.isBehind { withholding.waiters.append(body) } else { body(snapshot) }
    }
  }

  // MARK: Waiting

  /// Sends the events in the inbox, if the connection has subscriptions. Returns whether it has got all events.
  final func drainEvents() -> Bool {
    subscribers.isEmpty || (!session.isBehind && hub.drain() && !session.isBehind)
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
    let waiters = withholding.readyWaiters + withholding.waiters
    guard !session.isBehind, !waiters.isEmpty else { return }
    withholding.readyWaiters = []
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
