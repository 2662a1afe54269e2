internal import CanopyEngine
internal import CanopyEvents
internal import CanopySession
internal import CanopyTree
internal import CanopyWire
internal import Logging
internal import NIOCore

/// The beginning of a subscription.
extension LineHandler {
  /// Begins to listen at the hub.
  func begin(_ number: Int64, _ listening: Listening, isAuthorized: Bool) {
    let identity = session.identity
    let authorization =
      isAuthorized ? operations.listenAuthorization(listening, as: identity) : nil
    if authorization != nil { watchIdentity() }
    let subscription = HubSubscription(
      number: number, isAuthorized: isAuthorized, network: client.turns?.network, subscriber: self)
    subscribers[number] = subscription
    let owner = operations.listenerOwner(at: client.address, as: identity)
    begin(subscription, listening, authorization, owner: owner) { [self] result in
      let result = result.mapError {
        $0.error(operations, "subscriptions; end some first")
      }
      let limits = operations.limits
      started(number, result) { start in
        !EventLines.isSmall(start, bytesMax: min(limits.wholeReplyBytesMax, limits.replyBytesMax))
      } mayResume: {
        guard case .success(let start) = result else { return false }
        return operations.mayResume(start, since: $0, isAuthorized: isAuthorized, as: identity)
      }
    }
  }

  /// Sends the answer to a request for a subscription, and the events that waited for it.
  func begin(_ context: ChannelHandlerContext, _ subscribed: Subscribed) {
    let isSent = shared.codec.encode(
      .subscribed(subscribed), to: &output, counting: shared.metrics)
    noteUnsent(context)
    // An error was sent instead: the first event is too large.
    guard isSent else { return session.drop(subscribed.number) }
    guard !subscribed.events.isEmpty, let subscription = subscribers[subscribed.number] else {
      return
    }
    hub.deliver(subscribed.events, to: subscription)
  }
}
