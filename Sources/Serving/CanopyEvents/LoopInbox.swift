package import CanopyEngine
package import CanopySession
internal import CanopyTree
package import NIOCore
internal import Synchronization

/// Everything that other threads hand to one event loop: the events of each batch with its snapshot, and the
/// outcomes of requests.
///
/// The engine hands over a whole batch at once. So a reply from `snapshot` that is sent after `takeEvents` comes
/// after all events that led to that snapshot, and before all later ones. The memory of the events that wait is
/// bounded: see `PendingEvents`.
///
/// Call it on the loop only, except where a method says otherwise.
package final class LoopInbox: BatchObserver, ListenerGroup {
  package typealias Event = PendingEvents.Event

  typealias Outcome = (request: PendingOutcome, completion: Session.Completion)

  fileprivate struct State {
    /// The events of the batch that the engine is publishing.
    var collected: PendingEvents
    /// The events of whole batches that the loop has not taken.
    var events: PendingEvents
    var outcomes: [Outcome] = []
    /// The snapshot after those batches.
    var snapshot: Snapshot
    /// Whether a task that empties the inbox is scheduled on the loop.
    var isScheduled = false
  }

  package let loop: any EventLoop
  fileprivate let state: Mutex<State>
  /// The snapshot that reads see; nil if none was taken since `release`. Only the loop uses it, as each access asserts.
  /// A `NIOLoopBoundBox` would check in release builds as well, several times for each request.
  @exclusivity(unchecked) private nonisolated(unsafe) var taken: Snapshot?
  /// Empties the inbox. Called on the loop.
  private let wakeUp: NIOLoopBoundBox<() -> Void>

  /// The memory for the events that wait, in bytes: an estimate.
  package static let eventBytesMax = 16 * 1024 * 1024

  /// - Parameter eventBytesMax: the memory for the events that wait, in bytes.
  package init(_ engine: Engine, loop: any EventLoop, eventBytesMax: Int = LoopInbox.eventBytesMax)
  {
    self.loop = loop
    let events = PendingEvents(bytesMax: eventBytesMax)
    state = Mutex(State(collected: events, events: events, snapshot: engine.snapshot))
    wakeUp = .makeBoxSendingValue({}, eventLoop: loop)
    let snapshot = engine.add(self)
    // A later batch may have ended already.
    state.withLock { state in
      if state.snapshot.sequence < snapshot.sequence { state.snapshot = snapshot }
    }
  }

  /// Sets the closure that empties the inbox. The loop calls it after events or outcomes were added.
  package func onWakeUp(_ body: @escaping () -> Void) {
    wakeUp.value = body
  }

  /// Sets the closure that empties the inbox, as long as the result is kept. The closure may keep the inbox and its
  /// hub.
  package func onWakeUpWhileKept(_ body: @escaping () -> Void) -> WakeUp {
    let wakeUp = WakeUp(body)
    onWakeUp { [weak wakeUp] in wakeUp?.body() }
    return wakeUp
  }

  /// A closure that empties an inbox. The inbox does not keep it, so the owner of the inbox does.
  ///
  /// A weak reference makes each strong one to the same object slower. So this small object has the weak reference, and
  /// not the objects that each request uses.
  package final class WakeUp {
    fileprivate let body: () -> Void

    fileprivate init(_ body: @escaping () -> Void) {
      self.body = body
    }
  }

  /// True, because the hub that takes the events checks them.
  package var checksAuthorizations: Bool { true }

  /// Adds a commit. The loop finds the views that it concerns. Called on the engine's thread.
  package func notify(_ change: CommittedChange) {
    collect(.change(change))
  }

  /// Adds an event to the batch that the engine is publishing. Safe to call on the engine's thread.
  package func collect(_ event: Event) {
    state.withLock { $0.collected.append(event) }
  }

  /// Hands over the events of a batch with its snapshot. Called on the engine's thread.
  package func batchEnded(_ snapshot: Snapshot) {
    let isNews = state.withLock { state in
      state.snapshot = snapshot
      if state.collected.isEmpty && state.events.isEmpty { return false }
      state.events.append(takingFrom: &state.collected)
      return schedule(&state)
    }
    if isNews { wake() }
  }

  fileprivate func schedule(_ state: inout State) -> Bool {
    defer { state.isScheduled = true }
    return !state.isScheduled
  }

  fileprivate func wake() {
    loop.execute { [self] in
      state.withLock { $0.isScheduled = false }
      wakeUp.value()
    }
  }

  /// The snapshot that reads of this loop see: as new as the events that were taken, or newer.
  package var snapshot: Snapshot {
    loop.assertInEventLoop()
    if let taken, !isPlanted(.snapshotKept) { return taken }
    let snapshot = taken ?? state.withLock { $0.snapshot }
    taken = snapshot
    #if DEBUG
      if isPlanted(.snapshotKept) {
        defer { last = snapshot }
        return last ?? snapshot
      }
    #endif
    return snapshot
  }

  #if DEBUG
    /// The snapshot of the last read, for a planted defect.
    private nonisolated(unsafe) var last: Snapshot?
  #endif

  /// Drops the snapshot, so that the next read sees everything that its client can know of, and so that an idle
  /// loop does not keep an old version of the tree in memory.
  package func release() {
    loop.assertInEventLoop()
    taken = nil
  }

  /// Makes the newest snapshot that of reads, unless events wait. Returns whether no events wait.
  func takeIfEmpty() -> Bool {
    let snapshot = state.withLock { $0.events.isEmpty ? $0.snapshot : nil }
    guard let snapshot else { return false }
    loop.assertInEventLoop()
    taken = snapshot
    return true
  }

  /// Removes and returns the events of all batches up to the newest snapshot, which reads see from now on.
  package func takeEvents() -> [Event] {
    let (events, snapshot) = state.withLock { state in
      (state.events.take(), state.snapshot)
    }
    loop.assertInEventLoop()
    taken = snapshot
    return events
  }

  /// Whether at least so many subscriptions wait for events. O(countMin).
  package func hasSubscriptions(atLeast countMin: Int) -> Bool {
    state.withLock { state in
      var count = 0
      for event in state.events.events {
        switch event {
        case .notification(let view, _, _): count += view.value.count
        // It concerns many views, or the loop is behind.
        case .change: return true
        case .call: continue
        }
        if count >= countMin { return true }
      }
      return false
    }
  }

  /// Removes and returns the outcomes. The next read sees their commits.
  func takeOutcomes() -> [Outcome] {
    release()
    return state.withLock { state in
      var outcomes: [Outcome] = []
      swap(&outcomes, &state.outcomes)
      return outcomes
    }
  }
}

/// The outcome that a request under way will have: the connection and the slot that receive it.
package struct PendingOutcome: Sendable {
  let inbox: LoopInbox
  let connection: NIOLoopBound<(SessionHandler, ChannelHandlerContext)>
  let slot: Session.Slot

  /// Passes the outcome to the connection, by way of the inbox if the caller is on another thread. Safe to call from
  /// any thread.
  package func complete(_ completion: Session.Completion) {
    if inbox.loop.inEventLoop { return connection.value.0.finish(slot, completion) }
    let isNews = inbox.state.withLock { state in
      state.outcomes.append((self, completion))
      return inbox.schedule(&state)
    }
    if isNews { inbox.wake() }
  }
}
