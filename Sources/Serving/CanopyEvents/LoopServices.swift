package import CanopyMetrics
package import CanopySession
package import NIOCore

/// The state that the connections of one protocol share on one event loop. Use it on that loop only.
open class LoopServices {
  package let loop: any EventLoop
  /// Everything that other threads hand to the loop.
  package let inbox: LoopInbox
  /// The subscriptions of all connections.
  package let hubs: EventHubs
  package let operations: Operations
  /// The connections that are to be flushed.
  package let unflushed: FlushQueue
  /// The connections that wait for a turn.
  package let turns: LoopTurns
  /// The time that requests may take.
  package let work: WorkBudget
  /// Counts the requests.
  package let metrics: RequestMetrics
  /// The connections of the protocol on the loop.
  package let clients: LoopClients
  /// The texts of large branches that were sent.
  package let encoded: EncodedNodes
  /// Empties the inbox.
  @exclusivity(unchecked) private var wakeUp: LoopInbox.WakeUp?

  /// - Parameters:
  ///   - protocolName: the name of the protocol in the metrics.
  ///   - turns: the queue for turns; nil for one that looks for input between them.
  ///   - encoded: the texts that the protocol shares with others on the loop; nil for its own.
  ///   - now: the clock by which turns end.
  package init(
    _ operations: Operations, protocolName: String, loop: any EventLoop, turns: LoopTurns? = nil,
    encoded: EncodedNodes? = nil, now: @escaping () -> NIODeadline = { .now() }
  ) {
    self.loop = loop
    self.encoded = encoded ?? EncodedNodes(loop: loop)
    self.operations = operations
    metrics = RequestMetrics(protocolName, in: operations.metrics)
    clients = LoopClients(operations.clientRegistry, loop: loop)
    let inbox = LoopInbox(operations.engine, loop: loop)
    self.inbox = inbox
    unflushed = FlushQueue(loop: loop) { inbox.release() }
    self.turns = turns ?? LoopTurns(loop: loop)
    work = WorkBudget(loop: loop, now: now)
    hubs = EventHubs(
      EventHub(inbox, engine: operations.engine, limits: operations.limits), operations)
    takeInboxOnWakeUp()
  }

  /// Creates the state for another namespace on the same loop.
  ///
  /// - Parameter home: the state for the default namespace, with which it shares the turns, the time, the metrics, the
  ///   connections and the encoded texts.
  package init(_ operations: Operations, sharing home: LoopServices) {
    loop = home.loop
    self.operations = operations
    metrics = home.metrics
    clients = home.clients
    encoded = home.encoded
    let inbox = LoopInbox(operations.engine, loop: loop)
    self.inbox = inbox
    unflushed = FlushQueue(loop: loop) { inbox.release() }
    turns = home.turns
    work = home.work
    hubs = EventHubs(
      EventHub(inbox, engine: operations.engine, limits: operations.limits), operations,
      turns: home.hubs.turns)
    takeInboxOnWakeUp()
  }

  private func takeInboxOnWakeUp() {
    // A last outcome may come when the namespace is closed and nothing else needs this state.
    wakeUp = inbox.onWakeUpWhileKept { [inbox, hubs] in
      LoopServices.takeInbox(inbox, for: hubs)
    }
  }

  /// Handles the outcomes in the inbox, and then its events.
  ///
  /// A connection with subscriptions gets the events before an outcome first, when it sends the reply.
  private static func takeInbox(_ inbox: LoopInbox, for hubs: EventHubs) {
    let outcomes = inbox.takeOutcomes()
    for index in outcomes.indices {
      let request = outcomes[index].request
      request.connection.value.0.finish(request.slot, outcomes[index].completion)
    }
    // By index: a copy of each outcome would count the references of all its parts again.
    for index in outcomes.indices {
      let (connection, context) = outcomes[index].request.connection.value
      // Once for all its outcomes, also when it has ended.
      guard connection.scheduled.advances else { continue }
      connection.scheduled.advances = false
      connection.advance(context)
    }
    hubs.shared.drainSoon()
    inbox.release()
  }
}
