internal import CanopyTree
internal import Synchronization

/// The tasks that share turns in a `TurnQueue`: those of one connection, within those of its remote network.
public struct TurnGroup: Hashable, Sendable {
  /// The remote network; nil for this machine, behind whose connections there may be many people.
  public let network: String?
  /// The connection.
  public let connection: ObjectIdentifier

  /// Creates the group of a connection.
  public init(network: String?, connection: ObjectIdentifier) {
    self.network = network
    self.connection = connection
  }
}

/// Admits a few tasks at a time. The others wait. Each network has one turn before any network has a second one, so an
/// address does not get more turns by opening more connections. Within the turns of a network its connections take
/// turns. A connection from this machine counts as a network of its own.
///
/// Tasks may have costs. Then networks have equal costs instead of equal numbers of turns, and a cheap task may pass
/// expensive ones of other networks that came before it: see `FairOrder`.
///
/// A queue that charges time counts the microseconds of each turn as its cost when the turn ends. So a network that has
/// had a long turn waits until the others have used as much. Earlier turns that it had while no task waited do not
/// count, because no other network has waited for them. While no task waits, the last turn also fades: it does not
/// count after sixteen times its length.
///
/// Complexity: O(waiting networks + waiting connections of one network) for each turn.
public final class TurnQueue: Sendable {
  /// The tasks that have one turn before the others have a second one.
  private enum Owner: Hashable {
    case network(String)
    case connection(ObjectIdentifier)
    case single(Int)

    init(_ group: TurnGroup?, _ number: Int) {
      self =
        switch group {
        case nil: .single(number)
        case let group?: group.network.map(Owner.network) ?? .connection(group.connection)
        }
    }
  }

  private struct Waiter {
    let number: Int
    let cost: Int
    let continuation: CheckedContinuation<Void, any Error>
  }

  /// The waiters of one connection, in the order in which they came.
  private struct Line: FairMember {
    var waiters: [Waiter] = []

    var nextCost: Int? { waiters.first?.cost }

    mutating func takeNext() -> Waiter? { waiters.isEmpty ? nil : waiters.removeFirst() }

    mutating func remove(_ number: Int) -> Waiter? {
      waiters.firstIndex { $0.number == number }.map { waiters.remove(at: $0) }
    }
  }

  /// The place of a waiting task: its owner, and its connection there.
  private struct Place {
    let number: Int
    let owner: Owner
    let connection: ObjectIdentifier?

    init(_ group: TurnGroup?, _ number: Int) {
      self.number = number
      owner = Owner(group, number)
      connection = group?.connection
    }
  }

  private struct State {
    var free: Int
    var turns = 0
    var lastNumber = 0
    var waiting = 0
    /// The time up to which the clock of the order has advanced.
    var time = Duration.zero
    var order = FairOrder<Owner, FairOrder<ObjectIdentifier?, Line>>()

    mutating func begin() {
      free -= 1
      turns += 1
    }

    mutating func advance(to now: Duration) {
      let steps = Int((now - time) / TurnQueue.clockStep)
      guard steps > 0 else { return }
      time += TurnQueue.clockStep * steps
      order.advance(by: steps)
    }

    mutating func add(_ waiter: Waiter, at place: Place) {
      waiting += 1
      order.update(place.owner) { $0.update(place.connection) { $0.waiters.append(waiter) } }
    }

    /// Removes the waiter whose turn it is.
    mutating func next() -> Waiter? {
      guard let waiter = order.takeNext() else { return nil }
      waiting -= 1
      return waiter
    }

    mutating func remove(_ place: Place) -> Waiter? {
      let waiter = order.update(place.owner) {
        $0.update(place.connection) { $0.remove(place.number) }
      }
      if waiter != nil { waiting -= 1 }
      return waiter
    }
  }

  private let state: Mutex<State>
  /// The clock of the turns; nil if the queue does not charge time.
  private let elapsed: (@Sendable () -> Duration)?

  /// The real time in which the clock of the order advances by a microsecond while no task waits.
  private static let clockStep = Duration.microseconds(16)

  /// A queue that lets `width` tasks work at a time.
  ///
  /// - Parameter elapsed: returns the time of a clock that never goes back, to charge the time of turns; nil to charge
  ///   none.
  public init(width: Int, charging elapsed: (@Sendable () -> Duration)? = nil) {
    state = Mutex(State(free: max(1, width)))
    self.elapsed = elapsed
  }

  /// The number of tasks that wait.
  public var waiting: Int { state.withLock { $0.waiting } }

  /// The number of turns that have begun.
  public var turns: Int { state.withLock { $0.turns } }

  /// Runs `body` when it is the caller's turn.
  ///
  /// - Parameters:
  ///   - group: the tasks that share turns; nil for a task of its own.
  ///   - cost: the cost of the task, in a unit that all tasks of the queue share. It counts as 1 if it is less.
  /// - Throws: the error of `body`; `CancellationError` if the task is cancelled while it waits.
  public func withTurn<R: Sendable>(
    of group: TurnGroup? = nil, cost: Int = 1, _ body: () async throws -> R
  ) async throws -> R {
    let place = try await begin(group, max(1, cost))
    let start = elapsed?()
    defer {
      if let elapsed, let start { charge(place.owner, from: start, to: elapsed()) }
      end()
    }
    return try await body()
  }

  private func charge(_ owner: Owner, from start: Duration, to end: Duration) {
    let used = Int(max(.zero, end - start) / Duration.microseconds(1))
    state.withLock { state in
      state.advance(to: end)
      // A task without a group has turns of its own, and no later task to charge.
      if case .single = owner { return }
      state.order.charge(owner, used)
    }
  }

  /// Waits for a turn. Returns the place of the task, by which it is charged.
  private func begin(_ group: TurnGroup?, _ cost: Int) async throws -> Place {
    try Task.checkCancellation()
    let now = elapsed?()
    let (place, isNext) = state.withLock { state -> (Place, Bool) in
      if let now { state.advance(to: now) }
      state.lastNumber += 1
      let place = Place(group, state.lastNumber)
      guard state.free == 0 || state.waiting > 0 else {
        state.order.serveAtOnce(place.owner, cost: cost)
        state.begin()
        return (place, true)
      }
      return (place, false)
    }
    if isNext { return place }
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        let isCancelled = state.withLock { state in
          if Task.isCancelled { return true }
          state.add(Waiter(number: place.number, cost: cost, continuation: continuation), at: place)
          return false
        }
        if isCancelled { return continuation.resume(throwing: CancellationError()) }
        // A turn may have ended in between.
        handOn()
      }
    } onCancel: {
      state.withLock { $0.remove(place) }?.continuation.resume(throwing: CancellationError())
    }
    return place
  }

  private func end() {
    state.withLock { $0.free += 1 }
    if isPlanted(.lostWakeUp) { return }
    handOn()
  }

  /// Gives a free turn to the next waiter.
  private func handOn() {
    let next = state.withLock { state -> Waiter? in
      guard state.free > 0, let next = state.next() else { return nil }
      state.begin()
      return next
    }
    next?.continuation.resume()
  }
}
