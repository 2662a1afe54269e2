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
        let listening = subscription.view?.listening
      else { continue }
      // Its client has room for other values as soon as the move begins.
      subscription.leaveSharedValues()
      let view = findOrAddView(listening)
      view.starting += 1
      moves.append(Move(subscription: subscription, registration: registration, view: view))
    }
    guard !moves.isEmpty else { return }
    state.value.moves += 1
    let listeners = moves.map { ($0.registration, listener(of: $0.view)) }
    let bound = NIOLoopBound(moves, eventLoop: loop)
    let starts = moves.compactMap(\.subscription.start)
    engine.move(from: other.inbox, to: inbox, after: starts) { [inbox] in
      // A subscription that the engine has refused has no listener.
      listeners.compactMap { registration, listener in
        registration.move(to: inbox).map { ($0, listener) }
      }
    } completion: { [self] isMoved in
      // Each call has its place among the events of its inbox: this hub may have events from before the move as well.
      call { [self] in join(bound.value, isMoved: isMoved) }
      other.call { [self] in endMove(of: bound.value, from: other, isMoved: isMoved) }
    }
  }

  private struct Move {
    let subscription: HubSubscription
    let registration: HubRegistration
    /// The view of this hub.
    let view: LocalView
  }

  /// Adds the subscriptions to the views of this hub, when it has sent the events before the move.
  private func join(_ moves: [Move], isMoved: Bool) {
    for move in moves {
      move.view.starting -= 1
      let subscription = move.subscription
      if isMoved, !subscription.hasEnded, subscription.listener != nil {
        enter(subscription)
        move.view.add(subscription)
      }
      removeIfUnused(move.view)
    }
  }

  /// Removes the subscriptions from the views of the former hub, when it has sent the events before the move. This hub goes
  /// on then.
  private func endMove(of moves: [Move], from other: EventHub, isMoved: Bool) {
    // An engine that is stopping has moved none, and has no more events.
    if isMoved {
      for move in moves {
        other.leave(move.subscription)
        // Events that have waited for its beginning may be delivered before it joins.
        move.subscription.view = move.view
      }
    }
    state.value.moves -= 1
    assert(state.value.moves >= 0, "a move has ended twice")
    goOnLater()
  }
}
