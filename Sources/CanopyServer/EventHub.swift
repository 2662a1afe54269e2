internal import CanopyEngine
internal import CanopyTree
internal import CanopyWire
internal import DequeModule
internal import NIOCore
internal import Synchronization

/// The subscriptions of all connections on one event loop, by what they listen to.
///
/// What a commit did to a view comes to the loop once, and is handed on there to every subscription:
/// so a commit with a thousand listeners costs the engine two calls on two loops, and each loop one
/// task. Connections that were written to are flushed together at the end of it.
///
/// All state is touched on the loop alone.
final class EventHub: Sendable {
  let loop: any EventLoop
  private let engine: Engine
  private let bytesMax: Int
  private let state: NIOLoopBoundBox<State>

  private struct State {
    var views: [Listening: LocalView] = [:]
    var unflushed: [any Subscriber] = []
    /// What came from the engine and has not been done, in order.
    var arrived: Deque<@Sendable () -> Void> = []
  }

  /// What the engine has sent and the loop has not taken.
  private let sent = Mutex<[@Sendable () -> Void]>([])

  /// - Parameter bytesMax: bytes of JSON in one event.
  init(loop: any EventLoop, engine: Engine, bytesMax: Int) {
    self.loop = loop
    self.engine = engine
    self.bytesMax = bytesMax
    state = .makeBoxSendingValue(State(), eventLoop: loop)
  }

  /// Begins to listen for a subscription; `started` is called on the loop, and the subscription gets
  /// what comes after. Where the engine is stopping, it is called with nil.
  func begin(
    _ subscription: Subscription, _ listening: Listening,
    started: @escaping (ListenStart?) -> Void
  ) {
    let view = state.value.views[listening] ?? LocalView(listening, bytesMax: bytesMax)
    state.value.views[listening] = view
    view.starting += 1
    let boundView = NIOLoopBound(view, eventLoop: loop)
    let bound = NIOLoopBound((subscription, started), eventLoop: loop)
    engine.listen(listening, group: ObjectIdentifier(self)) { [self] notification in
      send { boundView.value.deliver(notification) }
    } started: { [self] id, start in
      send { [self] in
        let view = boundView.value
        let (subscription, started) = bound.value
        view.starting -= 1
        subscription.listener = id
        if id != nil, !subscription.hasEnded { view.add(subscription) } else { drop(subscription) }
        removeIfUnused(view)
        started(id == nil ? nil : start)
      }
    }
  }

  /// Has something done on the loop, after all that was sent before. From any thread.
  private func send(_ body: @escaping @Sendable () -> Void) {
    let isFirst = sent.withLock { sent in
      sent.append(body)
      return sent.count == 1
    }
    if isFirst { loop.execute { self.takeArrived() } }
  }

  /// Hands on all that the engine has sent until now. On the loop.
  ///
  /// What comes from a socket overtakes what others have the loop do: so before a connection with
  /// subscriptions gets a reply, this makes sure that it has the events that come before the reply.
  func takeArrived() {
    state.value.arrived.append(
      contentsOf: sent.withLock { sent in
        defer { sent = [] }
        return sent
      })
    // What is done here may lead here again, and goes on where this is.
    while let next = state.value.arrived.popFirst() { next() }
  }

  /// Ends what `begin` began.
  func end(_ subscription: Subscription) {
    guard !subscription.hasEnded else { return }
    let view = subscription.view
    subscription.hasEnded = true
    drop(subscription)
    view?.remove(subscription)
    subscription.forget()
    if let view { removeIfUnused(view) }
  }

  private func drop(_ subscription: Subscription) {
    if let id = subscription.listener { engine.unlisten(id) }
    subscription.listener = nil
  }

  private func removeIfUnused(_ view: LocalView) {
    guard view.isUnused, state.value.views[view.listening] === view else { return }
    state.value.views[view.listening] = nil
  }

  /// Has a subscriber flushed when the tasks that wait on the loop now are done.
  func flushLater(_ subscriber: any Subscriber) {
    state.value.unflushed.append(subscriber)
    guard state.value.unflushed.count == 1 else { return }
    loop.execute { [self] in
      var unflushed: [any Subscriber] = []
      swap(&unflushed, &state.value.unflushed)
      for subscriber in unflushed { subscriber.flushEvents() }
    }
  }

  /// The number of views, and of the subscriptions that share them.
  var counts: (views: Int, subscriptions: Int) {
    let views = state.value.views.values
    return (views.count, views.reduce(0) { $0 + $1.count })
  }
}

/// A connection, as far as events are concerned.
protocol Subscriber: AnyObject {
  /// Takes events of one of its subscriptions.
  func receive(_ lines: EventLines, of subscription: Subscription)
  /// Learns that one of its subscriptions cannot go on.
  func cancel(_ subscription: Subscription, _ code: WireError.Code)
  /// Sends what it has received.
  func flushEvents()
}

/// One subscription of one connection.
final class Subscription {
  let number: Int64
  /// Bytes of the beginning of its lines, with the number.
  let beginBytes: Int
  /// Whether only the administrator may have it.
  let needsAdministrator: Bool
  /// Until it has ended.
  private(set) var subscriber: (any Subscriber)?
  fileprivate(set) var hasEnded = false
  fileprivate var listener: ListenerID?
  fileprivate var view: LocalView?
  fileprivate var index = 0
  /// What happened while it is being found out what the client has missed before; nil when it is
  /// told at once.
  private var held: [Notification]?

  init(number: Int64, needsAdministrator: Bool, subscriber: any Subscriber) {
    self.number = number
    var output = JSONOutput(capacity: 32)
    EventLine.begin(number, to: &output)
    beginBytes = output.count
    self.needsAdministrator = needsAdministrator
    self.subscriber = subscriber
  }

  fileprivate func forget() {
    subscriber = nil
    view = nil
    held = nil
  }

  /// Keeps what happens from now on until `release`.
  func hold() {
    held = []
  }

  /// Hands on what was kept, and from now on everything at once.
  func release() {
    guard let held, let view else { return }
    self.held = nil
    for notification in held where !hasEnded { take(notification, view) }
  }

  fileprivate func take(_ notification: Notification, _ view: LocalView) {
    if held != nil {
      held?.append(notification)
      return
    }
    switch view.lines(of: notification) {
    case .success(let lines): subscriber?.receive(lines, of: self)
    case .failure(let error): subscriber?.cancel(self, error.code)
    }
  }
}

/// The subscriptions on one loop that listen to the same.
private final class LocalView {
  let listening: Listening
  private let bytesMax: Int
  /// Subscriptions that wait for the engine to begin.
  var starting = 0
  private var subscriptions: [Subscription] = []

  init(_ listening: Listening, bytesMax: Int) {
    self.listening = listening
    self.bytesMax = bytesMax
  }

  var count: Int { subscriptions.count }
  var isUnused: Bool { starting == 0 && subscriptions.isEmpty }

  func add(_ subscription: Subscription) {
    subscription.view = self
    subscription.index = subscriptions.count
    subscriptions.append(subscription)
  }

  func remove(_ subscription: Subscription) {
    let index = subscription.index
    guard subscriptions.indices.contains(index), subscriptions[index] === subscription else {
      return
    }
    // The last one takes the place: their order means nothing.
    subscriptions.swapAt(index, subscriptions.count - 1)
    subscriptions[index].index = index
    subscriptions.removeLast()
  }

  func deliver(_ notification: Notification) {
    // A copy: one that is told may end, and others with it.
    for subscription in subscriptions where !subscription.hasEnded {
      subscription.take(notification, self)
    }
  }

  func lines(of notification: Notification) -> Result<EventLines, WireError> {
    notification.shared {
      Result { () throws(WireError) in
        try EventLines(
          notification.events, notification.sequence, of: listening, bytesMax: bytesMax)
      }
    }
  }
}

/// The hubs, one for each event loop that has connections.
final class EventHubs: Sendable {
  private let engine: Engine
  private let bytesMax: Int
  private let hubs = Mutex<[ObjectIdentifier: EventHub]>([:])

  init(engine: Engine, bytesMax: Int) {
    self.engine = engine
    self.bytesMax = bytesMax
  }

  /// The hub of a loop.
  func hub(of loop: any EventLoop) -> EventHub {
    hubs.withLock { hubs in
      if let hub = hubs[ObjectIdentifier(loop)] { return hub }
      let hub = EventHub(loop: loop, engine: engine, bytesMax: bytesMax)
      hubs[ObjectIdentifier(loop)] = hub
      return hub
    }
  }
}
