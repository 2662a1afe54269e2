internal import CanopyTree
internal import Synchronization

/// A listener that is to begin.
struct StartingListener: Sendable {
  /// Its number in `StartingListeners`.
  let number: Int
  let listening: Listening
  let group: (any ListenerGroup)?
  let owner: ListenerOwner?
  let authorization: ListenAuthorization?
  let listener: @Sendable (Notification) -> Void
  let denied: (@Sendable () -> Void)?
  let started: @Sendable (ListenerID?, ListenStart) -> Void

  /// The owner of the steps in which it begins.
  ///
  /// The clients of one network share their turns, and the writers of the network have turns of their own.
  var writeOwner: WriteOwner {
    owner.map { .address("listeners of \($0.name)", network: $0.name) } ?? .server
  }

  /// The turns of its verdict, if that takes many steps.
  var turns: TurnGroup? {
    guard let owner, let group else { return nil }
    return TurnGroup(network: owner.name, connection: ObjectIdentifier(group))
  }
}

/// The listeners that were asked for and have not begun, and the closures that wait for them. Safe to use from any
/// thread.
///
/// Listeners do not begin in the order in which they were asked for, because some of their verdicts take many steps.
final class StartingListeners: Sendable {
  private struct Wait {
    /// The listeners that must begin before.
    var numbers: Set<Int>
    let body: @Sendable () -> Void
  }

  private struct State {
    var last = 0
    var numbers: Set<Int> = []
    /// The numbers of those that are cancelled.
    var cancelled: Set<Int> = []
    /// The tasks that wait for their turns of long verdicts.
    var tasks: [Int: Task<Void, Never>] = [:]
    var waits: [Wait] = []
  }

  private let state = Mutex(State())

  /// Adds a listener, and returns its number. Call `end` when it has begun or was refused.
  func add() -> Int {
    state.withLock { state in
      state.last += 1
      state.numbers.insert(state.last)
      return state.last
    }
  }

  /// Begins a task that waits for the turn of the verdict of a listener. It is cancelled with the listener.
  func begin(_ number: Int, _ body: @escaping @Sendable () async -> Void) {
    let task = Task(operation: body)
    let isCancelled = state.withLock { state in
      // The task may have ended.
      if state.numbers.contains(number) { state.tasks[number] = task }
      return state.cancelled.contains(number)
    }
    if isCancelled { task.cancel() }
  }

  /// Cancels a listener. Does nothing if it has begun.
  func cancel(_ number: Int) {
    let task = state.withLock { state -> Task<Void, Never>? in
      guard state.numbers.contains(number) else { return nil }
      state.cancelled.insert(number)
      return state.tasks.removeValue(forKey: number)
    }
    task?.cancel()
  }

  /// Whether a listener is cancelled.
  func isCancelled(_ number: Int) -> Bool { state.withLock { $0.cancelled.contains(number) } }

  /// Removes a listener. Calls the closures that have waited for it as the last.
  func end(_ number: Int) {
    let ready = state.withLock { state -> [@Sendable () -> Void] in
      state.numbers.remove(number)
      state.cancelled.remove(number)
      state.tasks[number] = nil
      guard !state.waits.isEmpty else { return [] }
      for index in state.waits.indices { state.waits[index].numbers.remove(number) }
      let ready = state.waits.filter(\.numbers.isEmpty)
      state.waits.removeAll(where: \.numbers.isEmpty)
      return ready.map(\.body)
    }
    for body in ready { body() }
  }

  /// Calls a closure when these listeners have begun or were refused: at once if all have.
  func whenEnded(_ numbers: [Int], _ body: @escaping @Sendable () -> Void) {
    let mustWait = state.withLock { state in
      let left = state.numbers.intersection(numbers)
      guard !left.isEmpty else { return false }
      state.waits.append(Wait(numbers: left, body: body))
      return true
    }
    if !mustWait { body() }
  }
}
