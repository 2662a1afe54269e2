package import CanopyEngine
package import CanopySession
internal import CanopyTree
internal import NIOCore

/// The hubs of the connections on one event loop. Use it on that loop only.
///
/// Most connections share one hub, so the events of a view are encoded once for all of them. But a reply of a connection
/// follows all events of its hub. So many subscriptions of one client would delay the replies and the events of all
/// others. A connection with many subscriptions, and the connections of a remote network with many, have a hub of their
/// own. Such hubs take turns, and each turn is brief. Their number is bounded, and further clients with many subscriptions
/// share one of them.
///
/// A connection that subscribes to a large value has its own hub as well: finding the state of the value for each event
/// takes long, and the hub waits for it. So does a connection that gets a large event of any form, from then on. So
/// does a connection with whose events those of its network would have too many bytes in the shared hub: see
/// `SharedValues`. So does a connection with a subscription for whose events the rules take many steps, from the first
/// such event on.
package final class EventHubs {
  /// The most subscriptions of one connection in the shared hub.
  static let connectionMax = 64
  /// The most subscriptions of one remote network in the shared hub.
  static let networkMax = 256
  /// The most own hubs, with the one of further clients: the engine hands each batch to each of them.
  static let ownMax = 128
  /// The memory for the events that wait for an own hub, in bytes: an estimate.
  static let ownEventBytesMax = 256 * 1024

  package let shared: EventHub
  private let values = SharedValues()
  private let operations: Operations
  /// The turns of own hubs.
  package let turns: LoopTurns
  /// The own hubs by owner; nil for the further clients. A hub exists while a connection uses it.
  private var own: [LoopTurns.Owner?: Weak<EventHub>] = [:]

  /// - Parameter turns: the turns of own hubs, which all namespaces share; nil for ones between which the loop looks for
  ///   input.
  package init(_ shared: EventHub, _ operations: Operations, turns: LoopTurns? = nil) {
    self.shared = shared
    self.operations = operations
    self.turns = turns ?? LoopTurns(loop: shared.loop)
  }

  /// The number of own hubs.
  var ownCount: Int { own.values.count { $0.object != nil } }

  /// Returns the hub for the subscriptions of a connection.
  ///
  /// - Parameters:
  ///   - present: the hub that it uses.
  ///   - count: the number of its subscriptions.
  ///   - needsOwn: whether one of them is to a large value, or the rules take many steps to allow it an event.
  package func hub(
    for connection: TurnGroup?, using present: EventHub, count: Int, needsOwn: Bool = false
  ) -> EventHub {
    guard present === shared, let connection else { return present }
    let ofNetwork = connection.network.map { shared.count(ofNetwork: $0) } ?? 0
    if count <= EventHubs.connectionMax, ofNetwork < EventHubs.networkMax, !needsOwn {
      return shared
    }
    return ownHub(of: connection)
  }

  /// Whether a new subscription is to a value that the shared hub should not have: a large one, or one with which the values
  /// of its client have too many bytes.
  ///
  /// - Parameter bytesMax: the most bytes of a value in the shared hub.
  package func isLarge(
    _ start: ListenStart, of subscription: HubSubscription, bytesMax: Int
  ) -> Bool {
    guard start.listening.form == .value else { return false }
    guard let bytes = EventLines.smallBytes(of: start, bytesMax: bytesMax) else { return true }
    return values.note(bytes, of: subscription, start.listening)
  }

  /// Whether a subscription of the shared hub should leave it: its events about one commit are large now, or those of
  /// its client have too many bytes. O(1).
  ///
  /// - Parameters:
  ///   - bytes: those of the events.
  ///   - subscription: returns the subscription. It is called for events that may count only.
  package func isLarge(
    eventBytes bytes: Int, of subscription: @autoclosure () -> HubSubscription?, bytesMax: Int
  ) -> Bool {
    guard bytes > SharedValues.smallBytesMax, let subscription = subscription(),
      subscription.hub === shared, let listening = subscription.view?.listening
    else { return false }
    return bytes > bytesMax || values.note(bytes, of: subscription, listening)
  }

  private func ownHub(of connection: TurnGroup) -> EventHub {
    var owner: LoopTurns.Owner? = LoopTurns.Owner(connection)
    if let hub = own[owner]?.object { return hub }
    if own.count >= EventHubs.ownMax - 1 {
      own = own.filter { $0.value.object != nil }
      if own.count >= EventHubs.ownMax - 1 { owner = nil }
    }
    if let hub = own[owner]?.object { return hub }
    let inbox = LoopInbox(
      shared.engine, loop: shared.loop, eventBytesMax: EventHubs.ownEventBytesMax)
    let hub = EventHub(
      inbox, engine: shared.engine, limits: operations.limits,
      turns: (NIOLoopBound(turns, eventLoop: shared.loop), group: connection)
    ) { [operations] body in
      Task { await operations.computeEvents(for: connection, body) }
      return true
    }
    inbox.onWakeUp { [weak inbox, weak hub] in
      hub?.drainSoon()
      inbox?.release()
    }
    own[owner] = Weak(hub)
    return hub
  }
}
