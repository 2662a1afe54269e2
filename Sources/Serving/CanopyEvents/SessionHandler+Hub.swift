package import CanopyEngine
internal import CanopySession
internal import CanopyTree
internal import CanopyWire

/// The choice of the hub that delivers the events of the connection: see `EventHubs`. All of its subscriptions have the same
/// one.
extension SessionHandler {
  /// Makes the state that of the present namespace.
  package final func move(to services: LoopServices) {
    assertInEventLoop()
    self.services = services
    hub = services.hubs.shared
  }

  /// Begins a subscription at the hub. If the connection now has too many for the hub that most connections share, or a
  /// large value, all of them move to another hub.
  package final func begin(
    _ subscription: HubSubscription, _ listening: Listening, _ authorization: ListenAuthorization?,
    owner: ListenerOwner?, started: @escaping (Result<ListenStart, EventHub.Refusal>) -> Void
  ) {
    assertInEventLoop()
    // The first subscription begins in the shared hub. There are no others whose events must keep their order.
    let present = subscribers.count > 1 ? hub : services.hubs.shared
    let isLarge =
      present === services.hubs.shared
      && services.hubs.isLarge(
        ListenStart(listening, operations.engine.snapshot), of: subscription,
        bytesMax: sharedValueBytesMax)
    chooseHub(using: present, needsOwn: isLarge, beginning: subscription)
    hub.begin(subscription, listening, authorization, owner: owner, started: started)
  }

  /// Chooses the hub of the connection, and moves its subscriptions there.
  ///
  /// - Parameters:
  ///   - needsOwn: whether the shared hub would wait for the events of one of them.
  ///   - new: a subscription that has not begun; nil for none.
  private func chooseHub(
    using present: EventHub, needsOwn: Bool, beginning new: HubSubscription? = nil
  ) {
    hub = services.hubs.hub(
      for: client.turns, using: present, count: subscribers.count, needsOwn: needsOwn)
    guard hub !== present else { return }
    let others = subscribers.values.filter { $0 !== new }
    hub.take(others.sorted { $0.number < $1.number }, from: present)
  }

  /// Moves the subscriptions out of the shared hub if one of them gets large events, or if the events of the client
  /// have too many bytes together. The events before the move still come from there.
  ///
  /// - Parameter bytes: those of the events about one commit.
  final func noteEvent(bytes: Int, for subscription: Int64) {
    guard hub === services.hubs.shared,
      services.hubs.isLarge(
        eventBytes: bytes, of: subscribers[subscription], bytesMax: sharedValueBytesMax)
    else { return }
    chooseHub(using: hub, needsOwn: true)
  }

  /// Moves the subscriptions out of the shared hub if the rules take many steps to allow one of them an event. The
  /// events before the move still come from there.
  package final func noteLongCheck(of subscription: Int64) {
    assertInEventLoop()
    guard hub === services.hubs.shared, subscribers[subscription] != nil else { return }
    chooseHub(using: hub, needsOwn: true)
  }

  /// The most bytes of a value, or of the events about one commit, in the shared hub: fewer than those from which on
  /// the events of a value are made on another thread, for which the shared hub would wait.
  private var sharedValueBytesMax: Int {
    min(operations.limits.wholeReplyBytesMax, operations.limits.replyBytesMax)
  }
}
