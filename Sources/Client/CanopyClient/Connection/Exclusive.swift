internal import DequeModule
internal import Synchronization

/// State that one thread at a time uses, in the order of the calls.
///
/// A caller that finds the state idle uses it at once, on its own thread. Other callers queue their
/// function for that thread and return. No caller waits, a nested use does not deadlock, and a
/// write takes effect locally within microseconds, without a change of thread. Uses must be brief
/// and must not call an application's functions.
// Unchecked: only the thread that has set `isBusy`, under the lock of `line`, accesses `state`.
final class Exclusive<State>: @unchecked Sendable {
  private struct Line {
    var isBusy = false
    var waiting: Deque<@Sendable (State) -> Void> = []
  }

  private let line = Mutex(Line())
  private let state: State

  init(_ state: sending State) {
    self.state = state
  }

  /// Uses the state, now or after the queued uses.
  func use(_ body: @escaping @Sendable (State) -> Void) {
    let isMine = line.withLock { line in
      guard line.isBusy else {
        line.isBusy = true
        return true
      }
      line.waiting.append(body)
      return false
    }
    guard isMine else { return }
    body(state)
    while let next = takeNext() { next(state) }
  }

  private func takeNext() -> (@Sendable (State) -> Void)? {
    line.withLock { line in
      let next = line.waiting.popFirst()
      if next == nil { line.isBusy = false }
      return next
    }
  }
}
