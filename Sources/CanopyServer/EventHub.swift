internal import CanopyEngine
internal import CanopyWire
internal import DequeModule
internal import NIOCore
internal import Synchronization

/// The subscriptions of all connections on one event loop, by what they listen to.
///
/// What a commit did to a view comes to the loop once, and is handed on there to every subscription:
/// so a commit with a thousand listeners costs the engine one call for each loop, and each loop one
/// task. Connections that were written to are flushed together, soon after.
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
    var arrived: Deque<Item> = []
  }

  /// Something that the engine has sent.
  private enum Item: Sendable {
    /// What a commit did to a view.
    case notification(NIOLoopBound<LocalView>, Notification)
    /// Anything else that is to be done in order with these.
    case other(@Sendable () -> Void)
  }

  /// What the engine has sent and the loop has not taken.
  private let sent = Mutex<[Item]>([])

  /// - Parameter bytesMax: bytes of JSON in one event.
  init(loop: any EventLoop, engine: Engine, bytesMax: Int) {
    self.loop = loop
    self.engine = engine
    self.bytesMax = bytesMax
    state = .makeBoxSendingValue(State(), eventLoop: loop)
  }

  /// Begins to listen for a subscription; `started` is called on the loop, and the subscription gets
  /// what comes after, until `judge` denies it. The engine may be stopping, or `judge` deny it at once.
  func begin(
    _ subscription: Subscription, _ listening: Listening, _ judge: ListenJudge?,
    started: @escaping (Result<ListenStart, EngineError>) -> Void
  ) {
    let view = state.value.views[listening] ?? LocalView(listening, bytesMax: bytesMax)
    state.value.views[listening] = view
    view.starting += 1
    let boundView = NIOLoopBound(view, eventLoop: loop)
    let bound = NIOLoopBound((subscription, started), eventLoop: loop)
    let deny = { @Sendable [self] in send(.other { self.deny(bound.value.0) }) }
    engine.listen(
      listening, group: ObjectIdentifier(self), judge: judge,
      { [self] notification in send(.notification(boundView, notification)) },
      denied: subscription.judged == nil ? nil : deny
    ) { [self] id, start in
      send(
        .other { [self] in
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
          started(id == nil ? .failure(start.isDenied ? .denied : .stopped) : .success(start))
        })
    }
  }

  /// Gives subscriptions other judges. `done` is called on the loop when those that these deny have
  /// been cancelled.
  func judge(
    _ changes: [(subscription: Subscription, judge: ListenJudge?)], done: @escaping () -> Void
  ) {
    let done = NIOLoopBound(done, eventLoop: loop)
    engine.setJudges(
      changes.compactMap { change in change.subscription.listener.map { ($0, change.judge) } }
    ) { [self] in
      send(.other { done.value() })
    }
  }

  /// Ends a subscription that may no longer be. Before its request is answered, that is for the answer
  /// to say.
  private func deny(_ subscription: Subscription) {
    guard !subscription.hasEnded else { return }
    if subscription.isHeld {
      subscription.isDenied = true
      end(subscription)
    } else {
      subscription.subscriber?.cancel(subscription, .permissionDenied)
    }
  }

  /// Has something done on the loop, after all that was sent before. From any thread.
  private func send(_ item: Item) {
    let isFirst = sent.withLock { sent in
      sent.append(item)
      return sent.count == 1
    }
    if isFirst { loop.execute { self.arrive() } }
  }

  /// Hands on what has come from the engine, now or a moment later. On the loop.
  ///
  /// Sending to each of many takes longer than a commit, and one call sends as well what several
  /// commits did. So where many are to be told, and commits are under way, these are waited for.
  private func arrive() {
    let concerned = sent.withLock { sent in
      sent.reduce(0) { count, item in
        guard case .notification(let view, _) = item else { return count }
        return count + view.value.count
      }
    }
    guard concerned >= EventHub.manySubscribers, engine.hasCommitsUnderWay else {
      return takeArrived()
    }
    // Writes nothing, and is answered when all that was accepted before has been told.
    engine.submit { _ in
      Decision(nil, ())
    } answer: { [self] (_: Result<Committed<Void>, any Error>) in
      loop.execute { self.takeArrived() }
    }
    // A disk that takes its time delays nobody for longer than sending to them does.
    loop.scheduleTask(in: EventHub.waitMax) { [self] in takeArrived() }
  }

  private static let manySubscribers = 64
  private static let waitMax = TimeAmount.milliseconds(3)

  /// Hands on all that the engine has sent until now. On the loop.
  ///
  /// What comes from a socket overtakes what others have the loop do: so before a connection with
  /// subscriptions gets a reply, this makes sure that it has the events that come before the reply.
  func takeArrived() {
    let items = sent.withLock { sent in
      defer { sent = [] }
      return sent
    }
    state.value.arrived.append(contentsOf: items)
    // What is done here may lead here again, and goes on where this is.
    while let next = state.value.arrived.popFirst() {
      switch next {
      case .other(let body): body()
      case .notification(let view, let notification):
        let view = view.value
        var notifications = [notification]
        while case .notification(let other, let notification)? = state.value.arrived.first,
          other.value === view
        {
          notifications.append(notification)
          state.value.arrived.removeFirst()
        }
        view.deliver(notifications)
      }
    }
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

  /// Has a subscriber flushed soon: when the tasks that wait on the loop now are done.
  func flushLater(_ subscriber: any Subscriber) {
    state.value.unflushed.append(subscriber)
    if state.value.unflushed.count == 1 { loop.execute { [self] in flush() } }
  }

  private func flush() {
    var unflushed: [any Subscriber] = []
    swap(&unflushed, &state.value.unflushed)
    for subscriber in unflushed { subscriber.flushEvents() }
  }
}

/// A connection, as far as events are concerned.
protocol Subscriber: AnyObject {
  /// Takes lines about one of its subscriptions.
  func receive(_ lines: ByteBuffer, of subscription: Subscription)
  /// Learns that one of its subscriptions cannot go on.
  func cancel(_ subscription: Subscription, _ code: WireError.Code)
  /// Sends what it has received.
  func flushEvents()
}

/// One subscription of one connection.
final class Subscription {
  let number: Int64
  /// What the rules judge of it; nil where they have no say.
  let judged: Listening?
  /// Until it has ended.
  private(set) var subscriber: (any Subscriber)?
  fileprivate(set) var hasEnded = false
  /// Finds out what the client has missed; cancelled when the subscription ends.
  var resumption: Task<Void, Never>?
  fileprivate var listener: ListenerID?
  fileprivate var view: LocalView?
  fileprivate var index = 0
  /// What happened while it is being found out what the client has missed before; nil when it is
  /// told at once.
  private var held: [Notification]?
  /// Bytes of the lines that these come to.
  private var heldBytes = 0
  private var heldBytesMax = 0
  /// Whether so much happened meanwhile that not all was kept.
  private(set) var hasLost = false
  /// Whether the right to it ended before its request was answered.
  fileprivate(set) var isDenied = false

  init(number: Int64, judged: Listening?, subscriber: any Subscriber) {
    self.number = number
    self.judged = judged
    self.subscriber = subscriber
  }

  fileprivate func forget() {
    subscriber = nil
    view = nil
    held = nil
    resumption?.cancel()
  }

  /// Whether its request is not answered yet.
  fileprivate var isHeld: Bool { held != nil }

  /// Keeps what happens from now on until `release`: lines of so many bytes at most.
  func hold(bytesMax: Int) {
    held = []
    heldBytesMax = bytesMax
  }

  /// Hands on what was kept, and from now on everything at once.
  func release() {
    guard let held, let view else { return }
    self.held = nil
    if !held.isEmpty { view.deliver(held, to: CollectionOfOne(self)) }
  }

  /// Keeps what happens, if it is to be kept.
  ///
  /// - Parameter bytes: of the lines that these come to.
  fileprivate func keep(_ notifications: [Notification], bytes: Int) -> Bool {
    guard held != nil else { return false }
    heldBytes += bytes
    if heldBytes > heldBytesMax {
      hasLost = true
      held = []
    } else {
      held?.append(contentsOf: notifications)
    }
    return true
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

  /// Hands on what some commits did, in order.
  func deliver(_ notifications: [Notification]) {
    // A copy: one that is told may end, and others with it.
    deliver(notifications, to: subscriptions)
  }

  func deliver(_ notifications: [Notification], to subscriptions: some Collection<Subscription>) {
    // What nobody gets any more is not looked for.
    guard subscriptions.contains(where: { !$0.hasEnded }) else { return }
    let lines: EventLines
    do throws(WireError) {
      lines = try self.lines(of: notifications)
    } catch {
      // What came before that which cannot be told is told.
      if notifications.count > 1 {
        for notification in notifications { deliver([notification], to: subscriptions) }
        return
      }
      for subscription in subscriptions where !subscription.hasEnded {
        subscription.subscriber?.cancel(subscription, error.code)
      }
      return
    }
    if lines.count == 0 { return }
    // Most are the first of their connection: then all of them get the very same bytes.
    var last: (number: Int64, bytes: ByteBuffer)?
    for subscription in subscriptions where !subscription.hasEnded {
      if subscription.keep(notifications, bytes: lines.byteCount) { continue }
      let number = subscription.number
      let bytes: ByteBuffer
      if let last, last.number == number {
        bytes = last.bytes
      } else {
        bytes = lines.bytes(for: number)
        last = (number, bytes)
      }
      subscription.subscriber?.receive(bytes, of: subscription)
    }
  }

  private func lines(of notifications: [Notification]) throws(WireError) -> EventLines {
    if notifications.count == 1, let only = notifications.first { return try lines(of: only).get() }
    var all: [EventLines] = []
    for notification in notifications { all.append(try lines(of: notification).get()) }
    return EventLines(joining: all)
  }

  private func lines(of notification: Notification) -> Result<EventLines, WireError> {
    notification.shared {
      Result { () throws(WireError) in
        try EventLines(
          notification.events, notification.sequence, of: listening, bytesMax: bytesMax)
      }
    }
  }
}
