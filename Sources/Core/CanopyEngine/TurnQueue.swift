internal import Synchronization

/// Admits a few tasks at a time. The others wait. Each group of tasks, such as the tasks of one connection, has one turn
/// before any group has a second one.
///
/// Complexity: O(waiting groups) for each turn.
public final class TurnQueue: Sendable {
  private enum Group: Hashable {
    case shared(ObjectIdentifier)
    case single(Int)
  }

  private struct Waiter {
    let number: Int
    let continuation: CheckedContinuation<Void, any Error>
  }

  private struct State {
    var free: Int
    var turns = 0
    var lastNumber = 0
    var waiters: [Group: [Waiter]] = [:]
    /// The groups that wait, in the order of their turns.
    var order: [Group] = []

    mutating func begin() {
      free -= 1
      turns += 1
    }

    mutating func add(_ waiter: Waiter, _ group: Group) {
      if waiters[group] == nil { order.append(group) }
      waiters[group, default: []].append(waiter)
    }

    /// Removes the waiter whose turn it is.
    mutating func next() -> Waiter? {
      guard let group = order.first, let first = waiters[group]?.first else { return nil }
      order.removeFirst()
      waiters[group]?.removeFirst()
      if waiters[group]?.isEmpty == false { order.append(group) } else { waiters[group] = nil }
      return first
    }

    mutating func remove(_ number: Int, _ group: Group) -> Waiter? {
      guard let index = waiters[group]?.firstIndex(where: { $0.number == number }) else {
        return nil
      }
      let waiter = waiters[group]?.remove(at: index)
      if waiters[group]?.isEmpty == true {
        waiters[group] = nil
        order.removeAll { $0 == group }
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
  public var waiting: Int { state.withLock { $0.waiters.values.reduce(0) { $0 + $1.count } } }

  /// The number of turns that have begun.
  public var turns: Int { state.withLock { $0.turns } }

  /// Runs `body` when it is the caller's turn.
  ///
  /// - Parameter group: the tasks that share turns; nil for a task of its own.
  /// - Throws: the error of `body`; `CancellationError` if the task is cancelled while it waits.
  public func withTurn<R: Sendable>(
    of group: ObjectIdentifier? = nil, _ body: () async throws -> R
  ) async throws -> R {
    try await begin(group)
    defer { end() }
    return try await body()
  }

  private func begin(_ group: ObjectIdentifier?) async throws {
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
    let key = group.map(Group.shared) ?? .single(number)
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        let isCancelled = state.withLock { state in
          if Task.isCancelled { return true }
          state.add(Waiter(number: number, continuation: continuation), key)
          return false
        }
        if isCancelled { return continuation.resume(throwing: CancellationError()) }
        // A turn may have ended in between.
        handOn()
      }
    } onCancel: {
      state.withLock { $0.remove(number, key) }?.continuation.resume(throwing: CancellationError())
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
