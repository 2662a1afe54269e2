package import CanopyEngine
package import CanopyTree
package import CanopyWire
internal import DequeModule
package import NIOCore

/// The subscriptions of all connections on one event loop, grouped by location and query.
///
/// The loop receives the events of a commit once for each view, and delivers them to every subscription of the view.
/// So a commit with a thousand listeners costs the engine one call for each loop, and each loop one task. The loop
/// receives a commit that concerns many views once, and the hub finds the views.
///
/// Call it on the loop only.
package final class EventHub: Sendable {
  package let loop: any EventLoop
  private let engine: Engine
  private let inbox: LoopInbox
  private let limits: Limits
  private let state: NIOLoopBoundBox<State>

  private struct State {
    var views = PathTrie<[Listening: LocalView]>()
    /// The number of the next view.
    var nextView = 0
    /// The events that are taken from the inbox and not handled yet, in order.
    var pending: Deque<LoopInbox.Event> = []
    /// Whether `drain` is delayed, to send the events of several commits together.
    var isHolding = false
  }

  /// The reasons for which a subscription does not begin.
  package enum Refusal: Error {
    /// The engine is stopping.
    case stopped
    /// The client may not listen.
    case denied
    /// The address of the client has too many different subscriptions.
    case tooManyViews
  }

  /// - Parameter limits: the bounds on events.
  package init(_ inbox: LoopInbox, engine: Engine, limits: Limits) {
    loop = inbox.loop
    self.inbox = inbox
    self.engine = engine
    self.limits = limits
    state = .makeBoxSendingValue(State(), eventLoop: inbox.loop)
  }

  /// Begins to listen for a subscription.
  ///
  /// `started` is called on the loop. The subscription gets the events after that, until `authorization` denies
  /// it.
  ///
  /// - Parameter owner: the client network that the subscription counts for; nil for none.
  package func begin(
    _ subscription: HubSubscription, _ listening: Listening, _ authorization: ListenAuthorization?,
    owner: ListenerOwner? = nil, started: @escaping (Result<ListenStart, Refusal>) -> Void
  ) {
    let view = findOrAddView(listening)
    view.starting += 1
    let boundView = NIOLoopBound(view, eventLoop: loop)
    let bound = NIOLoopBound((subscription, started), eventLoop: loop)
    let deny = { @Sendable [self] in inbox.collect(.call { self.deny(bound.value.0) }) }
    engine.listen(
      listening, group: inbox, owner: owner, authorization: authorization,
      { [inbox] notification in
        inbox.collect(.notification(boundView, notification, notification.change))
      },
      denied: subscription.isAuthorized ? deny : nil
    ) { [self] id, start in
      call { [self] in
        let view = boundView.value
        let (subscription, started) = bound.value
        view.starting -= 1
        subscription.listener = id
        if id != nil, !subscription.hasEnded {
          view.add(subscription)
        } else {
          drop(subscription)
        }
        removeIfUnused(view)
        started(id == nil ? .failure(Refusal(start.refusal)) : .success(start))
      }
    }
  }

  private func findOrAddView(_ listening: Listening) -> LocalView {
    if let view = state.value.views[listening.path]?[listening] { return view }
    let view = LocalView(listening, limits, number: state.value.nextView)
    state.value.nextView += 1
    state.value.views.modify(at: listening.path) { views in
      views = views ?? [:]
      views?[listening] = view
    }
    return view
  }

  /// Replaces the authorizations of subscriptions. `done` is called on the loop when the subscriptions that they deny
  /// are cancelled.
  package func reauthorize(
    _ changes: [(subscription: HubSubscription, authorization: ListenAuthorization?)],
    done: @escaping () -> Void
  ) {
    let done = NIOLoopBound(done, eventLoop: loop)
    engine.setAuthorizations(
      changes.compactMap { change in change.subscription.listener.map { ($0, change.authorization) }
      }
    ) { [self] in
      call { done.value() }
    }
  }

  private func deny(_ subscription: HubSubscription) {
    subscription.subscriber?.cancel(subscription.number, .permissionDenied)
  }

  /// Calls a closure on the loop, in order with the events.
  private func call(_ body: @escaping @Sendable () -> Void) {
    // An engine that is stopping calls back on the caller's thread, and has no more events.
    if loop.inEventLoop { loop.execute(body) } else { inbox.collect(.call(body)) }
  }

  /// Handles the events in the inbox now or a moment later.
  ///
  /// Sending to each of many subscribers takes longer than a commit, and the events of several commits
  /// can be sent together. So with many subscribers it waits for the commits that are under way.
  package func drainSoon() {
    guard inbox.hasSubscriptions(atLeast: EventHub.manySubscribers), engine.hasCommitsUnderWay
    else {
      return drain()
    }
    // The inbox wakes the loop after each batch. A slow disk delays the events for no longer than sending them
    // takes.
    guard !state.value.isHolding else { return }
    state.value.isHolding = true
    loop.scheduleTask(in: EventHub.waitMax) { [self] in
      guard state.value.isHolding else { return }
      drain()
      inbox.release()
    }
  }

  private static let manySubscribers = 64
  private static let waitMax = TimeAmount.milliseconds(3)

  /// Handles all events in the inbox. A connection with subscriptions calls this before it reads or sends a reply,
  /// to send the events before it.
  package func drain() {
    state.value.isHolding = false
    state.value.pending.append(contentsOf: inbox.takeEvents())
    // An event may lead to another call of `drain`, which continues with the next event.
    while let next = state.value.pending.popFirst() {
      switch next {
      case .call(let body): body()
      case .change(let change): prepend(change)
      case .notification(let view, let notification, _):
        let view = view.value
        var notifications: Deque = [notification]
        while case .notification(let other, let notification, _)? = state.value.pending.first,
          other.value === view
        {
          notifications.append(notification)
          state.value.pending.removeFirst()
        }
        view.deliver(&notifications)
      }
    }
  }

  /// Puts the notifications of a commit for all views that it concerns before the other events.
  ///
  /// They are not handled at once, because handling one may lead to another call of `drain`.
  private func prepend(_ change: CommittedChange) {
    var views: [ObjectIdentifier: LocalView] = [:]
    for path in change.paths {
      state.value.views.visit(overlapping: path) { next, level in
        for view in level.values where next.map(view.listening.query.mayShow) ?? true {
          views[ObjectIdentifier(view)] = view
        }
        return true
      }
    }
    for view in views.values.sorted(by: { $0.number > $1.number }) where view.count > 0 {
      let notification = change.notification(for: view.listening)
      state.value.pending.prepend(
        .notification(NIOLoopBound(view, eventLoop: loop), notification, nil))
    }
  }

  /// Delivers the events that have waited for one subscription.
  package func deliver(_ notifications: [Notification], to subscription: HubSubscription) {
    var notifications = Deque(notifications)
    subscription.view?.deliver(
      &notifications, to: CollectionOfOne(subscription), in: subscription.format)
  }

  /// Ends a subscription that `begin` has started. O(depth).
  package func end(_ subscription: HubSubscription) {
    guard !subscription.hasEnded else { return }
    let view = subscription.view
    subscription.hasEnded = true
    drop(subscription)
    view?.remove(subscription)
    subscription.subscriber = nil
    subscription.view = nil
    if let view { removeIfUnused(view) }
  }

  private func drop(_ subscription: HubSubscription) {
    if let id = subscription.listener { engine.unlisten(id) }
    subscription.listener = nil
  }

  private func removeIfUnused(_ view: LocalView) {
    let listening = view.listening
    guard view.isUnused, state.value.views[listening.path]?[listening] === view else { return }
    state.value.views.modify(at: listening.path) { views in
      views?[listening] = nil
      if views?.isEmpty == true { views = nil }
    }
  }
}

extension EventHub.Refusal {
  /// Creates the refusal for a listener that did not begin. Without a reason the engine is stopping.
  fileprivate init(_ refusal: ListenStart.Refusal?) {
    switch refusal {
    case .denied: self = .denied
    case .tooManyViews: self = .tooManyViews
    case nil: self = .stopped
    }
  }
}

/// A connection that receives events.
package protocol Subscriber: AnyObject {
  /// Returns whether events of a subscription are to be sent now.
  func accepts(_ notifications: [Notification], bytes: Int, for subscription: Int64) -> Bool
  /// Appends the lines of events to the output.
  func send(events lines: ByteBuffer)
  /// Appends the lines of large events to the output.
  func send(events lines: LinePieces)
  /// Ends a subscription that cannot go on.
  func cancel(_ subscription: Int64, _ code: WireError.Code)
}

/// One subscription of a connection, as the hub keeps it.
package final class HubSubscription {
  /// The number on its connection.
  package let number: Int64
  /// Whether the rules decide about it.
  package let isAuthorized: Bool
  /// The protocol of the connection.
  package let format: EventFormat
  /// The number in the text of its events: that of the subscription, or the tag that its client has chosen.
  package let label: Int64
  /// The connection; nil when the subscription has ended.
  package fileprivate(set) var subscriber: (any Subscriber)?
  package fileprivate(set) var hasEnded = false
  package fileprivate(set) var listener: ListenerID?
  fileprivate var view: LocalView?
  fileprivate var index = 0

  package init(
    number: Int64, isAuthorized: Bool, format: EventFormat = .line, label: Int64? = nil,
    subscriber: any Subscriber
  ) {
    self.format = format
    self.label = label ?? number
    self.number = number
    self.isAuthorized = isAuthorized
    self.subscriber = subscriber
  }
}

/// The subscriptions on one loop with the same location, query and form.
package final class LocalView {
  package let listening: Listening
  /// Views are notified of a commit in the order of their numbers.
  package let number: Int
  /// The bytes of JSON in one event.
  private let bytesMax: Int
  /// The bytes of JSON up to which the events of a commit are encoded in one go: more than those of a reply,
  /// as that is done once for all subscriptions.
  private let wholeBytesMax: Int
  /// Subscriptions that wait for the engine to begin.
  package var starting = 0
  private var subscriptions: [HubSubscription] = []
  /// The number of subscriptions of each protocol.
  private var formats: [EventFormat: Int] = [:]

  package init(_ listening: Listening, _ limits: Limits, number: Int) {
    self.listening = listening
    self.number = number
    bytesMax = limits.replyBytesMax
    wholeBytesMax = min(4 * limits.wholeReplyBytesMax, limits.replyBytesMax)
  }

  package var count: Int { subscriptions.count }

  package var isUnused: Bool { starting == 0 && subscriptions.isEmpty }

  package func add(_ subscription: HubSubscription) {
    subscription.view = self
    subscription.index = subscriptions.count
    subscriptions.append(subscription)
    formats[subscription.format, default: 0] += 1
  }

  package func remove(_ subscription: HubSubscription) {
    let index = subscription.index
    guard subscriptions.indices.contains(index), subscriptions[index] === subscription else {
      return
    }
    // The last subscription fills the gap: the order has no meaning.
    subscriptions.swapAt(index, subscriptions.count - 1)
    subscriptions[index].index = index
    subscriptions.removeLast()
    let left = (formats[subscription.format] ?? 0) - 1
    assert(left >= 0, "a view has lost count of its subscriptions")
    formats[subscription.format] = left > 0 ? left : nil
  }

  /// Delivers notifications in order to all subscriptions, and removes them from the queue.
  func deliver(_ notifications: inout Deque<Notification>) {
    // A copy, because a subscriber may end subscriptions meanwhile.
    let subscriptions = subscriptions
    if let format = formats.first?.key, formats.count == 1 {
      return deliver(&notifications, to: subscriptions, in: format)
    }
    for format in EventFormat.allCases where formats[format] != nil {
      var same = notifications
      deliver(&same, to: subscriptions.filter { $0.format == format }, in: format)
    }
    notifications.removeAll()
  }

  /// Delivers notifications in order to some of the subscriptions, and removes them from the queue.
  ///
  /// It encodes no more events than it delivers at once. So a subscriber that does not read ends before the next
  /// events take memory.
  ///
  /// - Parameter format: the protocol of all these subscriptions.
  func deliver(
    _ notifications: inout Deque<Notification>, to subscriptions: some Collection<HubSubscription>,
    in format: EventFormat
  ) {
    var group = Group()
    while let notification = notifications.popFirst() {
      // If all subscriptions have ended, no events are computed.
      guard subscriptions.contains(where: { !$0.hasEnded }) else {
        notifications.removeAll()
        return
      }
      switch encoded(notification, in: format) {
      case .lines(let lines):
        group.append(lines, of: notification)
        if group.bytes >= LocalView.groupBytes { deliver(group.take(), to: subscriptions) }
      case .large(let bytes):
        deliver(group.take(), to: subscriptions)
        deliver(notification, bytes: bytes, to: subscriptions, in: format)
      case .failed(let error):
        deliver(group.take(), to: subscriptions)
        for subscription in subscriptions where !subscription.hasEnded {
          subscription.subscriber?.cancel(subscription.number, error.code)
        }
      }
    }
    deliver(group, to: subscriptions)
  }

  /// The bytes of events that are delivered together.
  private static let groupBytes = 64 * 1024

  /// The events of successive commits that are delivered together.
  private struct Group {
    private(set) var notifications: [Notification] = []
    private(set) var lines: [EventLines] = []
    private(set) var bytes = 0

    mutating func append(_ lines: EventLines, of notification: Notification) {
      guard lines.count > 0 else { return }
      notifications.append(notification)
      self.lines.append(lines)
      bytes += lines.byteCount(for: 1)
    }

    /// Takes everything out.
    mutating func take() -> Group {
      var taken = Group()
      swap(&taken, &self)
      return taken
    }
  }

  private func deliver(_ group: Group, to subscriptions: some Collection<HubSubscription>) {
    guard let first = group.lines.first else { return }
    let lines = group.lines.count == 1 ? first : EventLines(joining: group.lines)
    // Most subscriptions are the first of their connection: then all of them share the same bytes.
    var last: (label: Int64, bytes: ByteBuffer)?
    for subscription in subscriptions where !subscription.hasEnded {
      let label = subscription.label
      let count = lines.byteCount(for: label)
      guard let subscriber = subscription.subscriber,
        subscriber.accepts(group.notifications, bytes: count, for: subscription.number)
      else { continue }
      let bytes: ByteBuffer
      if let last, last.label == label {
        bytes = last.bytes
      } else {
        bytes = lines.bytes(for: label)
        last = (label, bytes)
      }
      subscriber.send(events: bytes)
    }
  }

  /// Delivers large events, which each connection encodes for itself, as its client reads.
  private func deliver(
    _ notification: Notification, bytes: Int, to subscriptions: some Collection<HubSubscription>,
    in format: EventFormat
  ) {
    for subscription in subscriptions where !subscription.hasEnded {
      guard let subscriber = subscription.subscriber,
        subscriber.accepts([notification], bytes: bytes, for: subscription.number)
      else { continue }
      subscriber.send(
        events: LinePieces(
          notification.events, notification.sequence, of: listening, in: format,
          for: subscription.label, bytes: bytes))
    }
  }

  /// The lines about a commit, made once for all loops.
  private enum Encoded: Sendable {
    case lines(EventLines)
    case large(bytes: Int)
    case failed(WireError)

    /// The bytes of the text.
    var bytes: Int {
      guard case .lines(let lines) = self else { return 0 }
      return lines.byteCount(for: 1)
    }
  }

  /// The text for event streams. A notification keeps one value of each type.
  private struct EncodedStream: Sendable {
    let encoded: Encoded
  }

  /// The text for the realtime protocol.
  private struct EncodedMessages: Sendable {
    let encoded: Encoded
  }

  private func encoded(_ notification: Notification, in format: EventFormat) -> Encoded {
    let encoded: Encoded
    switch format {
    case .line:
      encoded = notification.shared {
        encode(notification.events, notification.sequence, in: format)
      } bytes: {
        $0.bytes
      }
    case .stream:
      encoded =
        notification.shared {
          EncodedStream(encoded: encode(notification.events, notification.sequence, in: format))
        } bytes: {
          $0.encoded.bytes
        }.encoded
    case .realtime:
      encoded =
        notification.shared {
          EncodedMessages(encoded: encode(notification.events, notification.sequence, in: format))
        } bytes: {
          $0.encoded.bytes
        }.encoded
    }
    // The events may wait for a client for long. They must not keep versions of the whole tree.
    notification.releaseChange()
    return encoded
  }

  private func encode(
    _ events: [ListenEvent], _ sequence: Int64, in format: EventFormat
  ) -> Encoded {
    do throws(WireError) {
      var budget = wholeBytesMax
      if events.allSatisfy({ $0.fits(listening.query, budget: &budget) }) {
        return .lines(
          try EventLines(events, sequence, of: listening, in: format, bytesMax: bytesMax))
      }
      return .large(bytes: try EventLines.size(of: events, listening, bytesMax: bytesMax))
    } catch {
      return .failed(error)
    }
  }
}
