internal import CanopyEngine
internal import DequeModule
internal import NIOCore

/// A turn of an `EventHub`, after which the event loop serves other connections.
struct HubTurn {
  /// The time of a turn.
  static let timeMax = TimeAmount.milliseconds(1)
  /// The bytes of events that are sent in a turn. Afterwards the connections end that hold too much memory.
  static let bytesMax = 1024 * 1024
  /// The steps after which the clock is read, as reading it has a cost.
  static let stepsPerLook = 16
  /// The most calls inside one another.
  static let depthMax = 8

  /// The number of calls inside one another that share the turn.
  var depth = 0
  private var steps = 0
  private var bytes = 0
  private var end: NIODeadline?
  private var hasEnded = false

  /// Counts a step of a delivery.
  mutating func count(_ step: ViewDelivery.Step) {
    bytes += step.bytes
    if step.isLong { countLongStep() }
  }

  /// Counts a step that takes longer than sending the events of one commit to one subscription.
  mutating func countLongStep() {
    steps += HubTurn.stepsPerLook - 1
  }

  /// Whether the turn is over. Counts a step. The time counts from the first look at the clock.
  mutating func isOver(_ now: () -> NIODeadline) -> Bool {
    if hasEnded || bytes >= HubTurn.bytesMax {
      hasEnded = true
      return true
    }
    steps += 1
    guard steps > HubTurn.stepsPerLook else { return false }
    steps = 0
    let time = now()
    if let end { hasEnded = time >= end } else { end = time + HubTurn.timeMax }
    return hasEnded
  }
}

/// The connections that wait until an `EventHub` has sent the events of the inbox.
///
/// A connection waits for the events of the inbox at the time when it begins to wait. So it is resumed when all events
/// are sent that were taken from the inbox at once after that.
struct HubWaiters {
  private typealias Waiter = (Snapshot) -> Void

  /// The connections that wait for the next events that are taken.
  private var waiting: [Waiter] = []
  /// The connections that wait until all events that were taken are sent.
  private var ready: Deque<Waiter> = []
  /// The snapshot after these events.
  private var snapshot: Snapshot?
  private var isResuming = false

  /// Whether connections wait for events that are not taken from the inbox.
  var isWaiting: Bool { !waiting.isEmpty }

  mutating func add(_ body: @escaping (Snapshot) -> Void) {
    waiting.append(body)
  }

  /// Notes that the events were taken that led to a snapshot.
  mutating func noteTaken(_ snapshot: @autoclosure () -> Snapshot) {
    ready += waiting
    waiting = []
    // An old snapshot would stay in memory.
    if !ready.isEmpty { self.snapshot = snapshot() }
  }

  /// Removes and returns a connection to be resumed, when all events are sent; nil if there is none. Call
  /// `endResuming` when it is resumed.
  ///
  /// Resuming a connection may lead to another call. It returns nil, so that the calls do not nest.
  mutating func takeNext() -> (resume: (Snapshot) -> Void, Snapshot)? {
    guard !isResuming, let snapshot, let waiter = ready.popFirst() else { return nil }
    isResuming = true
    if ready.isEmpty { self.snapshot = nil }
    return (waiter, snapshot)
  }

  mutating func endResuming() {
    isResuming = false
  }
}
