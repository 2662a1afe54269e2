internal import CanopyEngine
internal import CanopySession

/// The subscriptions of a connection that has ended.
///
/// Their events end at once. Removing them from the hub and from the engine takes longer, and a client may have a thousand.
/// So the event loop removes a few in each turn of the connection, and serves other connections in between. The memory of
/// all stays charged until the last one is removed. Use it on the loop only.
final class EndedSubscriptions: TurnTaker {
  /// The number that is removed in one turn: about half a millisecond.
  static let removedMax = 16

  let turnGroup: TurnGroup?
  private let hub: EventHub
  private var left: [HubSubscription]
  private var charge: MemoryBudget.Charge?
  private var turns: LoopTurns?

  /// Ends the events of subscriptions. `remove` must follow.
  ///
  /// - Parameters:
  ///   - hub: the hub of their connection.
  ///   - turnGroup: the connection and its network.
  init(_ subscriptions: [HubSubscription], of hub: EventHub, turnGroup: TurnGroup?) {
    left = subscriptions
    self.hub = hub
    self.turnGroup = turnGroup
    for subscription in left { hub.stop(subscription) }
  }

  /// Removes the subscriptions: a few now, and the others in later turns. Until then their memory is charged.
  func remove(in turns: LoopTurns, charging bytes: Int, to memory: MemoryBudget) {
    self.turns = turns
    _ = takeTurn(bytes: 0)
    if !left.isEmpty { charge = memory.charge(bytes, areEnding: true) }
  }

  func takeTurn(bytes: Int) -> Int {
    for subscription in left.suffix(Self.removedMax) { hub.remove(subscription) }
    left.removeLast(min(left.count, Self.removedMax))
    if left.isEmpty { charge = nil } else { turns?.append(self) }
    return LoopTurns.turnBytes
  }
}
