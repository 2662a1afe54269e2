internal import DequeModule
internal import Dispatch
internal import Synchronization

/// State that one thread at a time uses, in the order of the calls.
///
/// A caller that finds the state idle uses it at once, on its own thread. Other callers queue their
/// function for that thread and return. No caller waits, a nested use does not deadlock, and a
/// write takes effect locally within microseconds, without a change of thread. Uses must be brief.
/// A use that has to call an application's function continues on another queue with `handOver`.
///
/// `@unchecked Sendable`: one thread at a time accesses `state` and `continuation`: the thread that
/// has set `isBusy` under the lock of `line`, or the queue to which it handed the state over.
final class Exclusive<State>: @unchecked Sendable {
  private struct Line {
    var isBusy = false
    var waiting: Deque<@Sendable (State) -> Void> = []
  }

  private let line = Mutex(Line())
  private let state: State
  private var continuation: (queue: DispatchQueue, body: @Sendable (State) -> Void)?

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
    if isMine { run(body) }
  }

  /// Continues a use on a queue, before all queued uses. Call it within a use, once.
  func handOver(to queue: DispatchQueue, _ body: @escaping @Sendable (State) -> Void) {
    assert(line.withLock { $0.isBusy }, "call this within a use of the state")
    assert(continuation == nil, "the state is handed over already")
    continuation = (queue, body)
  }

  private func run(_ first: @escaping @Sendable (State) -> Void) {
    var body = first
    while true {
      body(state)
      if let (queue, rest) = continuation {
        continuation = nil
        return queue.async { self.run(rest) }
      }
      guard let next = takeNext() else { return }
      body = next
    }
  }

  private func takeNext() -> (@Sendable (State) -> Void)? {
    line.withLock { line in
      let next = line.waiting.popFirst()
      if next == nil { line.isBusy = false }
      return next
    }
  }
}
