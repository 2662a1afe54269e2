package import CanopyEngine
package import CanopyTree
internal import CanopySystem
internal import CanopyWire
internal import DequeModule
package import NIOCore

/// The subscriptions of connections on one event loop, grouped by location and query.
///
/// The loop receives the events of a commit once for each view, and delivers them to every subscription of the view.
/// So a commit with a thousand listeners costs the engine one call for each loop, and each loop one task. The loop
/// receives a commit that concerns many views once, and the hub finds the views.
///
/// Call it on the loop only.
package final class EventHub: Sendable {
  package let loop: any EventLoop
  let engine: Engine
  package let inbox: LoopInbox
  private let limits: Limits
  private let now: @Sendable () -> NIODeadline
  private let beside: @Sendable (@escaping @Sendable () -> Void) -> Bool
  let state: NIOLoopBoundBox<State>
  /// The owner of the turns of the hub; nil for the hub that most connections share. An own hub works in its turns only.
  package let turnGroup: TurnGroup?
  private let ownTurns: NIOLoopBound<LoopTurns>?

  struct State {
    var views = PathTrie<ViewLevel>()
    var viewCount = 0
    /// The number of the next view.
    var nextView = 0
    /// The verdicts that were asked for before the events of the last commit.
    let checked = CheckedVerdicts()
    /// The deliveries of events that have waited for subscriptions. They come before everything else, because the
    /// delivery under way may have later events for the same subscriptions.
    var held: Deque<ViewDelivery> = []
    /// The delivery under way. It comes before all later events.
    var delivery: ViewDelivery?
    /// A commit that the views get next, the last of them first.
    var concerned: (change: CommittedChange, views: [LocalView])?
    /// The events that are taken from the inbox and not handled yet, in order.
    var pending: Deque<LoopInbox.Event> = []
    /// The connections whose subscriptions get the commits that were withheld, before any later event.
    var catchUps: Deque<CatchUp> = []
    /// The connections that wait until the events are sent.
    var waiters = HubWaiters()
    /// The turn under way.
    var turn: HubTurn?
    /// The turns in which the hub goes on.
    let turns: LoopTurns
    /// Whether the hub waits for its turn to go on.
    var goesOnLater = false
    /// The last commit of the events that were taken from the inbox.
    var taken: Int64?
    /// Whether events are computed on another thread. Meanwhile the hub sends nothing, so the events keep their order.
    var isComputing = false
    /// Whether `drain` is delayed, to send the events of several commits together.
    var isHolding = false
    /// The number of moves to the hub that are under way. Meanwhile it sends nothing: the events before a move come first.
    var moves = 0
    /// The number of subscriptions of each remote network.
    var networks: [ByteString: Int] = [:]

    /// Whether the hub can send nothing now.
    var isWaiting: Bool { goesOnLater || isComputing || moves > 0 }

    /// Whether no event that was taken from the inbox is left.
    var isDone: Bool {
      held.isEmpty && delivery == nil && concerned == nil && pending.isEmpty && catchUps.isEmpty
    }
  }

  /// A connection that has read its events, and gets those of the commits that were withheld.
  struct CatchUp {
    /// The version that its subscriptions get: that of the events that were sent last.
    let snapshot: Snapshot
    /// Returns the next subscription, if there is room for its events.
    let next: (Snapshot) -> HubSubscription?
    let done: () -> Void
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

  /// - Parameters:
  ///   - limits: the bounds on events.
  ///   - now: the clock by which turns end.
  ///   - later: schedules a closure to run on the loop after the loop has read input; nil for a way that does.
  ///   - turns: the turns of own hubs, with the owner of this hub; nil for a hub that most connections share.
  ///   - beside: starts a thread that runs a closure. Returns false, and does not run it, if no thread can be started.
  package init(
    _ inbox: LoopInbox, engine: Engine, limits: Limits,
    now: @escaping @Sendable () -> NIODeadline = { .now() },
    later: (@Sendable (@escaping () -> Void) -> Void)? = nil,
    turns own: (turns: NIOLoopBound<LoopTurns>, group: TurnGroup)? = nil,
    beside: @escaping @Sendable (@escaping @Sendable () -> Void) -> Bool = {
      WorkerThread.start(niceness: 5, $0)
    }
  ) {
    loop = inbox.loop
    self.inbox = inbox
    self.engine = engine
    self.limits = limits
    self.now = now
    self.beside = beside
    turnGroup = own?.group
    ownTurns = own?.turns
    let turns = later.map { LoopTurns(loop: inbox.loop, later: $0) } ?? LoopTurns(loop: inbox.loop)
    state = .makeBoxSendingValue(State(turns: turns), eventLoop: inbox.loop)
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
    let registration = HubRegistration(inbox)
    subscription.registration = registration
    subscription.view = view
    enter(subscription)
    let deny = { @Sendable [self] in registration.call { self.deny(bound.value.0) } }
    subscription.start = engine.listen(
      listening, group: inbox, owner: owner, authorization: authorization, listener(of: view),
      denied: subscription.isAuthorized ? deny : nil
    ) { [self] id, start in
      registration.begin(id)
      call { [self] in
        let view = boundView.value
        let (subscription, started) = bound.value
        view.starting -= 1
        subscription.start = nil
        subscription.listener = id
        if id != nil, !subscription.hasEnded {
          view.add(subscription)
        } else {
          drop(subscription)
          leave(subscription)
        }
        removeIfUnused(view)
        started(id == nil ? .failure(Refusal(start.refusal)) : .success(start))
      }
    }
  }

  /// Returns the closure that hands the events of a view to the inbox.
  func listener(of view: LocalView) -> @Sendable (Notification) -> Void {
    let view = NIOLoopBound(view, eventLoop: loop)
    return { [inbox] notification in
      inbox.collect(.notification(view, notification, notification.change))
    }
  }

  /// Counts a subscription as one of this hub.
  func enter(_ subscription: HubSubscription) {
    subscription.hub = self
    if turnGroup != nil { subscription.leaveSharedValues() }
    if let network = subscription.network { state.value.networks[network, default: 0] += 1 }
  }

  /// Removes a subscription from this hub if it is there, and its view if that was the last.
  func leave(_ subscription: HubSubscription) {
    guard subscription.hub === self else { return }
    subscription.hub = nil
    subscription.leaveSharedValues()
    if let network = subscription.network {
      let left = (state.value.networks[network] ?? 0) - 1
      assert(left >= 0, "a hub has lost count of the subscriptions of a network")
      state.value.networks[network] = left > 0 ? left : nil
    }
    guard let view = subscription.view else { return }
    view.remove(subscription)
    subscription.view = nil
    removeIfUnused(view)
  }

  /// Returns the number of subscriptions of a remote network, with those that begin.
  func count(ofNetwork network: String) -> Int { state.value.networks[ByteString(network)] ?? 0 }

  func findOrAddView(_ listening: Listening) -> LocalView {
    if let view = state.value.views[listening.path]?.views[listening] { return view }
    let view = LocalView(listening, limits, number: state.value.nextView)
    state.value.nextView += 1
    state.value.viewCount += 1
    state.value.views.modify(at: listening.path) { level in
      let found = level ?? ViewLevel(listening.path)
      found.add(view)
      level = found
    }
    return view
  }

  /// Replaces the authorizations of subscriptions. `done` is called on the loop when the subscriptions that they deny
  /// are cancelled.
  ///
  /// - Parameter turns: their connection and its network, which take their turns together.
  package func reauthorize(
    _ changes: [(subscription: HubSubscription, authorization: ListenAuthorization?)],
    of turns: TurnGroup?, done: @escaping () -> Void
  ) {
    let done = NIOLoopBound(done, eventLoop: loop)
    engine.setAuthorizations(
      changes.compactMap { change in
        change.subscription.listener.map { ($0, change.authorization) }
      }, of: turns
    ) { [self] in
      call { done.value() }
    }
  }

  private func deny(_ subscription: HubSubscription) {
    subscription.subscriber?.cancel(subscription.number, .permissionDenied)
  }

  /// Calls a closure on the loop, in order with the events.
  func call(_ body: @escaping @Sendable () -> Void) {
    // An engine that is stopping calls back on the caller's thread, and has no more events.
    if loop.inEventLoop { loop.execute(body) } else { inbox.collect(.call(body)) }
  }

  /// Handles the events in the inbox now or a moment later.
  ///
  /// Sending to each of many subscribers takes longer than a commit, and the events of several commits
  /// can be sent together. So with many subscribers it waits for the commits that are under way.
  package func drainSoon() {
    if state.value.isWaiting { return }
    if turnGroup != nil { return goOnLater() }
    guard inbox.hasSubscriptions(atLeast: EventHub.manySubscribers), engine.hasCommitsUnderWay
    else {
      drain()
      return
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

  /// Sends the events in the inbox, in one turn. If they take longer, the hub goes on in later turns. Between them the
  /// loop serves other connections.
  ///
  /// A connection with subscriptions calls this before it reads or sends a reply, to send the events before it. If
  /// not all are sent, it must `wait`.
  ///
  /// - Returns: whether all events are sent.
  @discardableResult
  package func drain() -> Bool {
    let (isWaiting, isIdle) = state.withValue { state in
      state.isHolding = false
      // A turn of the shared hub also calls the waiters, and a call from within it is a part of it.
      let hasTurn = state.turn != nil || state.waiters.isWaiting
      return (state.isWaiting, state.isDone && (turnGroup != nil || !hasTurn))
    }
    if isWaiting { return false }
    if isIdle, inbox.takeIfEmpty() { return true }
    if turnGroup == nil { return takeTurn() }
    goOnLater()
    return false
  }

  /// Returns the present snapshot; nil if events that led to it are to be sent before.
  package func takeSnapshot() -> Snapshot? {
    guard drain() else { return nil }
    defer { inbox.release() }
    return inbox.snapshot
  }

  /// Calls a closure when all events are sent that are in the inbox now.
  package func afterEvents(_ body: @escaping () -> Void) {
    if takeSnapshot() != nil { body() } else { wait { _ in body() } }
  }

  /// Calls a closure when all events are sent that are in the inbox now, with the snapshot after them. For a connection
  /// for which `drain` has returned false.
  package func wait(_ body: @escaping (Snapshot) -> Void) {
    state.value.waiters.add(body)
  }

  /// Sends events until there are none, or the turn is over. Returns whether there are none.
  private func takeTurn() -> Bool {
    // An event may lead to another call, which continues with the next event in the same turn.
    let isFirst = state.value.turn == nil
    var turn = state.value.turn ?? HubTurn()
    turn.depth += 1
    guard turn.depth <= HubTurn.depthMax else { return false }
    state.value.turn = turn
    defer {
      state.value.turn?.depth -= 1
      if isFirst { state.value.turn = nil }
    }
    var hasTaken = false
    while state.value.turn?.isOver(now) == false {
      if state.value.isComputing || state.value.moves > 0 { return false }
      if step() { continue }
      // The step of another connection may have released the snapshot. A reply must not be of a newer one.
      let isCurrent = hasTaken && inbox.snapshot.sequence == state.value.taken
      if isCurrent, !isFirst || !state.value.waiters.isWaiting { return true }
      takeEvents()
      hasTaken = true
    }
    goOnLater()
    return false
  }

  func goOnLater() {
    guard !state.value.isWaiting else { return }
    state.value.goesOnLater = true
    (ownTurns?.value ?? state.value.turns).append(self)
  }

  /// Takes the events of the inbox. If they are more than all views can get soon, it merges the commits among them.
  private func takeEvents() {
    let events = inbox.takeEvents()
    let snapshot = inbox.snapshot
    state.value.taken = snapshot.sequence
    state.value.waiters.noteTaken(snapshot)
    let changesMax = EventHub.notificationsMax / max(1, state.value.viewCount)
    let changes = events.count { event in
      if case .change = event { true } else { false }
    }
    state.value.pending.append(
      contentsOf: changes > max(1, changesMax) ? PendingEvents.merged(events) : events)
  }

  /// The product of commits and views from which on commits are merged.
  static let notificationsMax = 4_096

  /// Handles the next event, or a part of it. Returns whether there was one.
  private func step() -> Bool {
    if let held = state.value.held.first {
      if !carryOut(held), state.value.held.first === held { state.value.held.removeFirst() }
      return true
    }
    if let delivery = state.value.delivery {
      if !carryOut(delivery), state.value.delivery === delivery { state.value.delivery = nil }
      return true
    }
    if let view = state.value.concerned?.views.popLast() {
      if let change = state.value.concerned?.change, view.count > 0 {
        state.value.delivery = view.delivery(
          of: [(change.notification(for: view.listening), change)], in: engine,
          checked: state.value.checked)
      }
      return true
    }
    state.value.concerned = nil
    if let catchUp = state.value.catchUps.first {
      continueCatchUp(catchUp)
      return true
    }
    guard let next = state.value.pending.popFirst() else {
      state.value.checked.removeAll()
      return resumeNext()
    }
    state.value.turn?.countLongStep()
    switch next {
    case .call(let body): body()
    case .change(let change):
      let views = ViewSearch(change, in: state.value.views).views
      state.value.concerned = (change, views)
    case .notification(let view, let notification, let change):
      let view = view.value
      var notifications: Deque<ViewDelivery.Item> = [(notification, change)]
      while case .notification(let other, let notification, let change)? = state.value.pending.first,
        other.value === view
      {
        notifications.append((notification, change))
        state.value.pending.removeFirst()
      }
      state.value.delivery = view.delivery(
        of: notifications, in: engine, checked: state.value.checked)
    }
    return true
  }

  /// Carries out a step of a delivery. Returns whether there was one.
  private func carryOut(_ delivery: ViewDelivery) -> Bool {
    guard let step = delivery.step() else { return false }
    state.value.turn?.count(step)
    if let work = step.work { compute(work) }
    return true
  }

  /// The bytes of a commit whose events are computed on the loop.
  static let comparedBytesMax = 64 * 1024
  /// The number of children that are compared on the loop for one commit: about a millisecond.
  static let comparedChildrenMax = 4_096

  /// Computes or measures events on another thread, and then goes on.
  private func compute(_ work: @escaping @Sendable () -> Void) {
    state.value.isComputing = true
    let isBegun = beside { [self] in
      work()
      loop.execute { [self] in
        state.value.isComputing = false
        goOnLater()
      }
    }
    guard !isBegun else { return }
    state.value.isComputing = false
    work()
  }

  /// Resumes a connection that has waited for the events. Returns whether there was one.
  private func resumeNext() -> Bool {
    guard let (resume, snapshot) = state.value.waiters.takeNext() else { return false }
    state.value.turn?.countLongStep()
    resume(snapshot)
    state.value.waiters.endResuming()
    return true
  }

  /// Delivers the events that have waited for one subscription, before all later events. Those that do not fit into the
  /// present turn of the hub follow in later ones: they may be many.
  package func deliver(_ notifications: [Notification], to subscription: HubSubscription) {
    guard let view = subscription.view else { return }
    let items: [ViewDelivery.Item] = notifications.map { ($0, nil) }
    // Another hub may have the subscription now, which has the later events.
    let hub = subscription.hub ?? self
    hub.state.value.held.append(
      ViewDelivery(
        Deque(items), to: [subscription], isMixed: false, of: view, in: engine, mayWithhold: false))
    hub.drain()
  }

  /// Delivers the events of withheld commits to subscriptions of one connection, when all events are sent that are in the
  /// inbox now. They get the difference to the version after these events, before any later event.
  ///
  /// - Parameters:
  ///   - next: gets that version, and returns the next subscription of this hub that may catch up to it; nil if there is
  ///     no other, or no room for its events.
  ///   - done: called after `next` has returned nil.
  package func catchUp(
    next: @escaping (Snapshot) -> HubSubscription?, done: @escaping () -> Void
  ) {
    let add = { [self] (snapshot: Snapshot) in
      state.value.catchUps.append(CatchUp(snapshot: snapshot, next: next, done: done))
    }
    guard let snapshot = takeSnapshot() else { return wait(add) }
    add(snapshot)
    goOnLater()
  }

  private func continueCatchUp(_ catchUp: CatchUp) {
    state.value.turn?.countLongStep()
    guard let subscription = catchUp.next(catchUp.snapshot) else {
      state.value.catchUps.removeFirst()
      return catchUp.done()
    }
    let withheld = subscription.withheld.take()
    guard let view = subscription.view, let change = withheld?.change(to: catchUp.snapshot) else {
      return
    }
    state.value.delivery = ViewDelivery(
      [(change.notification(for: view.listening), change)], to: [subscription], isMixed: false,
      of: view, in: engine, checked: state.value.checked, mayWithhold: false)
  }

  /// Ends a subscription that `begin` has started. O(depth).
  package func end(_ subscription: HubSubscription) {
    guard !subscription.hasEnded else { return }
    stop(subscription)
    remove(subscription)
  }

  /// Ends the events of a subscription that `begin` has started. `remove` must follow. O(1).
  func stop(_ subscription: HubSubscription) {
    subscription.hasEnded = true
    subscription.leaveSharedValues()
    subscription.subscriber = nil
    // The verdict about its start may wait for a turn.
    if let start = subscription.start { engine.cancel(start) }
  }

  /// Removes a subscription whose events have ended. O(depth).
  func remove(_ subscription: HubSubscription) {
    drop(subscription)
    // Until the end of a move the subscription is still in its former hub.
    subscription.hub?.leave(subscription)
    // It may have the last references to large values.
    if let withheld = subscription.withheld.take() { RetiredTrees.free(withheld) }
  }

  private func drop(_ subscription: HubSubscription) {
    if let id = subscription.listener { engine.unlisten(id) }
    subscription.listener = nil
  }

  func removeIfUnused(_ view: LocalView) {
    let listening = view.listening
    guard view.isUnused, state.value.views[listening.path]?.views[listening] === view else {
      return
    }
    state.value.viewCount -= 1
    state.value.views.modify(at: listening.path) { level in
      level?.remove(view)
      if level?.views.isEmpty == true { level = nil }
    }
  }
}

extension EventHub: TurnTaker {
  package func takeTurn(bytes: Int) -> Int {
    state.value.goesOnLater = false
    state.value.isHolding = false
    if !state.value.isWaiting { _ = takeTurn() }
    inbox.release()
    return LoopTurns.turnBytes
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
