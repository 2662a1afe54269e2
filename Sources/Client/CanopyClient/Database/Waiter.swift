internal import Synchronization

/// A task's wait for the result of an operation. The result ends it, or the cancellation of the task: then the
/// operation goes on, and its result is dropped.
final class Waiter<Value: Sendable>: Sendable {
  private enum State {
    case beginning
    case waiting(CheckedContinuation<Value, any Error>)
    /// Ended before the wait began, with a result; nil once the task has it.
    case ended(Result<Value, any Error>?)
  }

  private let state = Mutex(State.beginning)

  /// Begins an operation and returns its result.
  ///
  /// - Parameter begin: begins the operation and passes on its result, at any time and at most once.
  /// - Throws: the error of the operation; `CancellationError` if the task is cancelled before the operation has
  ///   finished. An operation of a task that is cancelled already begins nevertheless.
  nonisolated(nonsending) static func result(
    of begin: (@escaping @Sendable (Result<Value, any Error>) -> Void) -> Void
  ) async throws -> Value {
    let waiter = Waiter()
    begin { waiter.end($0) }
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { waiter.wait($0) }
    } onCancel: {
      waiter.end(.failure(CancellationError()))
    }
  }

  private func wait(_ continuation: CheckedContinuation<Value, any Error>) {
    let result = state.withLock { state -> Result<Value, any Error>? in
      if case .ended(let result) = state {
        state = .ended(nil)
        return result
      }
      state = .waiting(continuation)
      return nil
    }
    if let result { continuation.resume(with: result) }
  }

  /// Ends the wait, unless it has ended.
  private func end(_ result: Result<Value, any Error>) {
    let continuation = state.withLock { state -> CheckedContinuation<Value, any Error>? in
      switch state {
      case .beginning:
        state = .ended(result)
        return nil
      case .waiting(let continuation):
        state = .ended(nil)
        return continuation
      case .ended: return nil
      }
    }
    continuation?.resume(with: result)
  }
}
