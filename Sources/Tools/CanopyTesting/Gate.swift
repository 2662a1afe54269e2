internal import Synchronization

/// A place where tasks wait until a test lets them go on. Tests hold work with it instead of sleeping.
public final class Gate: Sendable {
  private struct State {
    /// The number of tasks that are still to wait.
    var holds: Int
    var waiting: [CheckedContinuation<Void, Never>] = []
    var watchers: [CheckedContinuation<Void, Never>] = []
  }

  private let state: Mutex<State>

  /// Creates a gate, which is closed unless `isOpen` is true.
  public init(isOpen: Bool = false) {
    state = Mutex(State(holds: isOpen ? 0 : .max))
  }

  /// Makes the next `count` tasks wait; all later ones if no count is given.
  public func hold(_ count: Int = .max) {
    state.withLock { $0.holds = count }
  }

  /// Opens the gate for all waiting and all later tasks.
  public func open() {
    let waiting = state.withLock { state in
      state.holds = 0
      defer { state.waiting = [] }
      return state.waiting
    }
    for continuation in waiting { continuation.resume() }
  }

  /// Returns as soon as a task waits at the gate.
  public func reached() async {
    await withCheckedContinuation { continuation in
      let isReached = state.withLock { state in
        guard state.waiting.isEmpty else { return true }
        state.watchers.append(continuation)
        return false
      }
      if isReached { continuation.resume() }
    }
  }

  /// Waits while the gate holds tasks.
  public func pass() async {
    await withCheckedContinuation { continuation in
      let (isOpen, watchers) = state.withLock {
        state -> (Bool, [CheckedContinuation<Void, Never>]) in
        guard state.holds > 0 else { return (true, []) }
        state.holds -= 1
        state.waiting.append(continuation)
        defer { state.watchers = [] }
        return (false, state.watchers)
      }
      for watcher in watchers { watcher.resume() }
      if isOpen { continuation.resume() }
    }
  }
}
