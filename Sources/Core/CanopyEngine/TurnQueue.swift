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
    let continuation: CheckedContinuation<Void, any Error>
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

  /// Queues of waiters that are served in turn.
  private struct Lane {
    private var waiters: [ObjectIdentifier?: [Waiter]] = [:]
    /// The connections that wait, in the order of their turns.
    private var order: [ObjectIdentifier?] = []

    var isEmpty: Bool { order.isEmpty }

    var count: Int { waiters.values.reduce(0) { $0 + $1.count } }

    mutating func add(_ waiter: Waiter, _ connection: ObjectIdentifier?) {
      if waiters[connection] == nil { order.append(connection) }
      waiters[connection, default: []].append(waiter)
    }

    /// Removes the waiter whose turn it is.
    mutating func next() -> Waiter? {
      guard let connection = order.first, let first = waiters[connection]?.first else { return nil }
      order.removeFirst()
      waiters[connection]?.removeFirst()
      if waiters[connection]?.isEmpty == false {
        order.append(connection)
      } else {
        waiters[connection] = nil
      }
      return first
    }

    mutating func remove(_ number: Int, _ connection: ObjectIdentifier?) -> Waiter? {
      guard let index = waiters[connection]?.firstIndex(where: { $0.number == number }) else {
        return nil
      }
      let waiter = waiters[connection]?.remove(at: index)
      if waiters[connection]?.isEmpty == true {
        waiters[connection] = nil
        order.removeAll { $0 == connection }
      }
      return waiter
    }
  }

  private struct State {
    var free: Int
    var turns = 0
    var lastNumber = 0
    var lanes: [Owner: Lane] = [:]
    /// The owners that wait, in the order of their turns.
    var order: [Owner] = []

    mutating func begin() {
      free -= 1
      turns += 1
    }

    mutating func add(_ waiter: Waiter, at place: Place) {
      if lanes[place.owner] == nil { order.append(place.owner) }
      lanes[place.owner, default: Lane()].add(waiter, place.connection)
    }

    /// Removes the waiter whose turn it is.
    mutating func next() -> Waiter? {
      guard let owner = order.first, let first = lanes[owner]?.next() else { return nil }
      order.removeFirst()
      if lanes[owner]?.isEmpty == false { order.append(owner) } else { lanes[owner] = nil }
      return first
    }

    mutating func remove(_ place: Place) -> Waiter? {
      let waiter = lanes[place.owner]?.remove(place.number, place.connection)
      if lanes[place.owner]?.isEmpty == true {
        lanes[place.owner] = nil
        order.removeAll { $0 == place.owner }
      }
      return waiter
    }
  }

  private let state: Mutex<State>

  /// A queue that lets `width` tasks work at a time.
  public init(width: Int) {
    state = Mutex(State(free: max(1, width)))
  }

  /// The number of tasks that wait.
  public var waiting: Int { state.withLock { $0.lanes.values.reduce(0) { $0 + $1.count } } }

  /// The number of turns that have begun.
  public var turns: Int { state.withLock { $0.turns } }

  /// Runs `body` when it is the caller's turn.
  ///
  /// - Parameter group: the tasks that share turns; nil for a task of its own.
  /// - Throws: the error of `body`; `CancellationError` if the task is cancelled while it waits.
  public func withTurn<R: Sendable>(
    of group: TurnGroup? = nil, _ body: () async throws -> R
  ) async throws -> R {
    try await begin(group)
    defer { end() }
    return try await body()
  }

  private func begin(_ group: TurnGroup?) async throws {
    try Task.checkCancellation()
    let number = state.withLock { state -> Int? in
      guard state.free == 0 || !state.order.isEmpty else {
        state.begin()
        return nil
      }
      state.lastNumber += 1
      return state.lastNumber
    }
    guard let number else { return }
    let place = Place(group, number)
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        let isCancelled = state.withLock { state in
          if Task.isCancelled { return true }
          state.add(Waiter(number: number, continuation: continuation), at: place)
          return false
        }
        if isCancelled { return continuation.resume(throwing: CancellationError()) }
        // A turn may have ended in between.
        handOn()
      }
    } onCancel: {
      state.withLock { $0.remove(place) }?.continuation.resume(throwing: CancellationError())
    }
  }

  private func end() {
    state.withLock { $0.free += 1 }
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
