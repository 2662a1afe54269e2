internal import CanopyEngine
internal import CanopyEvents
internal import CanopyRealtimeWire
internal import CanopySession
internal import CanopyTree
internal import CanopyWire
internal import NIOCore

/// One listener of a connection.
final class RealtimeListener {
  let body: ListenBody
  /// Whether the rules declare no index for the query, so that the client gets the whole location and filters itself.
  let isUnindexed: Bool

  init(_ body: ListenBody, isUnindexed: Bool) {
    self.body = body
    self.isUnindexed = isUnindexed
  }
}

extension RealtimeListener {
  /// The bytes charged for a listener besides those of a subscription, and those for each key of its path.
  ///
  /// The connection keeps the target twice. Measured by the growth of a release process (RSS): a listener with a path of
  /// two keys took 5.2 KiB in all, one of 30 keys 15 KiB, where the subscription alone is charged at 4.9 and 14.6 KiB.
  private static let baseBytes = 512
  private static let keyBytes = 48

  /// Returns the memory of a listener besides that of its subscription, in bytes. An estimate. O(path).
  fileprivate static func bytes(for body: ListenBody) -> Int {
    let text = body.queryText?.utf8.count ?? 0
    return body.target.path.keys.reduce(baseBytes + 2 * text) { $0 + keyBytes + $1.utf8Count }
  }
}

/// The listeners of a connection: between its session and the hub of its event loop.
extension RealtimeHandler {
  /// Begins to listen. A listener with the same target ends.
  func listen(_ body: ListenBody, _ slot: Session.Slot) throws(WireError) {
    if let old = numbers[body.target] { try session.unsubscribe(old) }
    let identity = session.identity
    var (wanted, isUnindexed) = try subscriptionRequest(body.target, as: identity)
    wanted.extraBytes = RealtimeListener.bytes(for: body)
    guard case .tree(let listening) = wanted.subject else { return }
    let number = try session.subscribe(wanted, slot)
    let subscription = HubSubscription(
      number: number, isAuthorized: wanted.isAuthorized, format: .realtime,
      label: body.target.tag ?? RealtimeEvent.noTag, network: client.turns?.network,
      subscriber: self)
    subscribers[number] = subscription
    listeners[number] = RealtimeListener(body, isUnindexed: isUnindexed)
    numbers[body.target] = number
    let authorization = operations.listenAuthorization(listening, as: identity)
    let owner = operations.listenerOwner(at: client.address, as: identity)
    begin(subscription, listening, authorization, owner: owner) { [self] result in
      started(
        number, result.mapError { $0.error(operations, "listeners; end some first") })
    }
  }

  /// Returns the subscription to a target, and whether it is to the whole location because the rules declare no index
  /// for the query.
  ///
  /// The whole location is authorized as such: rules that require a query of some kind do not allow it.
  private func subscriptionRequest(
    _ target: ListenTarget, as identity: Identity
  ) throws(WireError) -> (SubscriptionRequest, isUnindexed: Bool) {
    let query = target.query.isUnbounded ? .all : target.query
    do throws(WireError) {
      let options = ListenOptions(query: query, form: .sync)
      return (try operations.subscription(to: target.path, options, as: identity), false)
    } catch {
      guard error.code == .invalidQuery, query != .all else { throw error }
      let options = ListenOptions(form: .sync)
      return (try operations.subscription(to: target.path, options, as: identity), true)
    }
  }

  private func started(_ number: Int64, _ result: Result<ListenStart, WireError>) {
    let limits = operations.limits
    var bytesMax = min(limits.wholeReplyBytesMax, limits.replyBytesMax)
    // Hashing takes much longer than writing.
    if listeners[number]?.body.hash != nil { bytesMax = min(bytesMax, RealtimeHandler.hashedMax) }
    started(number, result) { !EventLines.isSmall($0, bytesMax: bytesMax) }
  }

  /// Bytes of JSON of a value that the event loop hashes.
  private static let hashedMax = 4_096

  /// Sends the first value of a listener, unless the client has it, and the answer to its request.
  func begin(_ subscribed: Subscribed, answering number: Int64) {
    guard let listener = listeners[subscribed.number],
      case .state(.value(let value), let listening, _) = subscribed.content
    else { return }
    var bytes = subscribed.bytes
    var shown = Tree(root: value)
    var isKnown =
      subscribed.isKnown
      ?? listener.body.hash.map { value.hash.hasSameBytes(as: $0) } ?? false
    // The other listeners have got these events, so they precede the value: the client never gets one that is older
    // than another that it has got already.
    for held in subscribed.events {
      for case .put(let puts) in held.events {
        isKnown = false
        shown.apply(puts)
      }
      // The value grows by the size of an event at most.
      bytes +=
        (try? EventLines.size(of: held.events, listening, limits: operations.limits))
        ?? ValueBytes()
    }
    if !isKnown {
      append(
        Assignment(.root, shown.root), at: listening.path, tag: listener.body.target.tag,
        bytes: bytes)
    }
    append { output in
      ServerMessage.answer(number, .ok, to: &output) {
        let warning: ReplyJSON = listener.isUnindexed ? ["w": .array([.text("no_index")])] : [:]
        warning.append(to: &$0)
      }
    }
  }

  /// Ends a listener because the client asks for it. A listener that does not exist has ended already.
  func unlisten(_ target: ListenTarget, _ slot: Session.Slot) throws(WireError) {
    var number = numbers[target]
    if number == nil, let tag = target.tag {
      // The tag alone is enough.
      number = listeners.first { $0.value.body.target.tag == tag }?.key
    }
    if let number { try session.unsubscribe(number) }
    finish(slot, Session.Completion(.null))
  }

}
