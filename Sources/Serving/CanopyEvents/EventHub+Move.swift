internal import CanopyEngine
internal import NIOCore

/// The move of subscriptions from one hub of an event loop to another.
///
/// The engine gives the later events to the inbox of the new hub, between two commits, for all subscriptions at once. The
/// former hub sends the events before that first. Meanwhile the new hub sends nothing. So the events of a connection keep
/// their order, also those of different subscriptions.
extension EventHub {
  /// Takes the subscriptions of a connection from another hub of the loop. The connection uses this hub from now on.
  /// O(subscriptions), here and on the engine's thread.
  ///
  /// - Parameter subscriptions: in the order in which they get the events of one commit.
  package func take(_ subscriptions: [HubSubscription], from other: EventHub) {
    loop.assertInEventLoop()
    var moves: [Move] = []
    for subscription in subscriptions {
      guard !subscription.hasEnded, let registration = subscription.registration,
        let listening = subscription.listening
      else { continue }
      let view = findOrAddView(listening)
      view.starting += 1
      moves.append(Move(subscription: subscription, registration: registration, view: view))
    }
    guard !moves.isEmpty else { return }
    state.value.moves += 1
    let listeners = moves.map { ($0.registration, listener(of: $0.view)) }
    let bound = NIOLoopBound(moves, eventLoop: loop)
    engine.move(to: inbox) { [inbox] in
      // A subscription that the engine has refused has no listener.
      listeners.compactMap { registration, listener in
        registration.move(to: inbox).map { ($0, listener) }
      }
    } completion: { [self] in
      other.call { [self] in finish(bound.value, from: other) }
    }
  }

  private struct Move {
    let subscription: HubSubscription
    let registration: HubRegistration
    /// The view of this hub.
    let view: LocalView
  }

  /// Ends a move, when the former hub has sent the events before it.
  private func finish(_ moves: [Move], from other: EventHub) {
    for move in moves {
      move.view.starting -= 1
      other.removeFromView(move.subscription)
      if !move.subscription.hasEnded, move.subscription.listener != nil {
        add(move.subscription, to: move.view)
      }
      removeIfUnused(move.view)
    }
    state.value.moves -= 1
    assert(state.value.moves >= 0, "a move has ended twice")
    goOnLater()
  }
}
