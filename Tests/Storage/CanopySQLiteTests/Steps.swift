import Synchronization

/// A counter of calls.
final class Steps: Sendable {
  private let count = Mutex(0)

  /// The number of this call, from 1.
  func next() -> Int {
    count.withLock {
      $0 += 1
      return $0
    }
  }
}

/// A task that can cancel itself.
final class Cancellation: Sendable {
  private let task = Mutex<Task<Void, any Error>?>(nil)

  /// Starts a task that may cancel itself.
  func start(
    _ body: @escaping @Sendable (Cancellation) async throws -> Void
  ) -> Task<Void, any Error> {
    task.withLock { task in
      let started = Task { try await body(self) }
      task = started
      return started
    }
  }

  func cancel() {
    task.withLock { $0 }?.cancel()
  }
}
