internal import Synchronization

/// The waits for turns of a request that goes on if its connection is lost.
///
/// Once such a request has begun to change an account it is carried out. Before, while it waits to decode its body or to
/// verify a token, it ends with its connection: its memory stays charged meanwhile, and others need the turns.
///
/// Safe to use from any thread.
public final class TurnWaits: Sendable {
  private struct State {
    var task: Task<Void, any Error>?
    var isCancelled = false
  }

  private let state = Mutex(State())

  /// Creates the waits of one request.
  public init() {}

  /// Runs a step that waits for its turn. A request has one step at a time.
  ///
  /// - Throws: the error of the step; `CancellationError` if it is cancelled before its turn.
  func run(_ step: @escaping @Sendable () async throws -> Void) async throws {
    let task = Task(operation: step)
    let isCancelled = state.withLock { state in
      state.task = task
      return state.isCancelled
    }
    if isCancelled { task.cancel() }
    defer { state.withLock { $0.task = nil } }
    try await task.value
  }

  /// Cancels the step that waits, and those that follow.
  public func cancel() {
    let task = state.withLock { state in
      state.isCancelled = true
      return state.task.take()
    }
    task?.cancel()
  }
}
