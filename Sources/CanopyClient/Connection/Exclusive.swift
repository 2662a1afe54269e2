internal import DequeModule
internal import Synchronization

/// State that is used by one thread at a time, in the order in which its uses were asked for.
///
/// Whoever asks while nobody uses it does so at once, on the same thread; others leave what they ask for
/// to the one who does, and return. So nobody waits, a use that asks for another use does not deadlock,
/// and a write is seen here some microseconds after it was made, without a change of thread. Uses must be
/// brief and must not call an application's functions.
// Unchecked, as `state` is touched only by the thread that has set `isBusy`, under the lock of `line`.
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

  /// Uses the state, now or in turn.
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
