internal import DequeModule
internal import Dispatch
internal import Foundation
internal import Synchronization

/// State that one thread at a time uses, in the order of the calls.
///
/// A caller that finds the state idle uses it at once, on its own thread. Other callers queue their
/// function for that thread and return. No caller of `use` waits, a nested use does not deadlock, and a
/// write takes effect locally within microseconds, without a change of thread. Uses must be brief.
/// A use that has to call an application's function continues on another queue with `handOver`.
///
/// `@unchecked Sendable`: one thread at a time accesses `state` and `continuation`: the thread that
/// `line` names as the user, or the queue to which that thread handed the state over.
final class Exclusive<State>: @unchecked Sendable {
  private struct Use: Sendable {
    var body: @Sendable (State) -> Void
    /// Signalled when the use is done, or will be done too late to wait for it.
    var done: DispatchSemaphore?

    /// Lets the caller go on before the use is done.
    mutating func giveUp() {
      done?.signal()
      done = nil
    }
  }

  private enum User {
    case nobody
    case thread(pthread_t)
    /// A queue that calls functions of the application.
    case application
  }

  private struct Line {
    var user = User.nobody
    var waiting: Deque<Use> = []

    var isInUse: Bool {
      if case .nobody = user { false } else { true }
    }
  }

  private let line = Mutex(Line())
  private let state: State
  private var continuation: (queue: DispatchQueue, body: @Sendable (State) -> Void)?

  init(_ state: sending State) {
    self.state = state
  }

  /// Uses the state, now or after the queued uses.
  func use(_ body: @escaping @Sendable (State) -> Void) {
    let use = Use(body: body)
    if begin(use) { run(use) }
  }

  /// Uses the state, and returns when that is done.
  ///
  /// Does not wait where it could wait for itself: within a use, and while an application's function has the
  /// state. Then the use follows later.
  func useAndWait(_ body: @escaping @Sendable (State) -> Void) {
    let done = DispatchSemaphore(value: 0)
    let use = Use(body: body, done: done)
    if begin(use) { run(use) }
    done.wait()
  }

  /// Takes the state for a use, or queues the use and returns false.
  private func begin(_ use: Use) -> Bool {
    line.withLock { line in
      var use = use
      switch line.user {
      case .nobody:
        line.user = .thread(pthread_self())
        return true
      case .thread(let thread) where pthread_equal(thread, pthread_self()) == 0: break
      case .thread, .application: use.giveUp()
      }
      line.waiting.append(use)
      return false
    }
  }

  /// Continues a use on a queue, before all queued uses. Call it within a use, once.
  func handOver(to queue: DispatchQueue, _ body: @escaping @Sendable (State) -> Void) {
    assert(line.withLock { $0.isInUse }, "call this within a use of the state")
    assert(continuation == nil, "the state is handed over already")
    continuation = (queue, body)
  }

  private func run(_ first: Use) {
    var use = first
    while true {
      use.body(state)
      use.done?.signal()
      if let (queue, rest) = continuation {
        continuation = nil
        letApplicationUse()
        return queue.async { self.run(Use(body: rest)) }
      }
      guard let next = takeNext() else { return }
      use = next
    }
  }

  /// Lets no caller wait any longer, because a function of the application may wait for that caller.
  private func letApplicationUse() {
    line.withLock { line in
      line.user = .application
      for index in line.waiting.indices { line.waiting[index].giveUp() }
    }
  }

  private func takeNext() -> Use? {
    line.withLock { line in
      let next = line.waiting.popFirst()
      line.user = next == nil ? .nobody : .thread(pthread_self())
      return next
    }
  }
}
