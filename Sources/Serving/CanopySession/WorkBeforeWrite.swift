internal import Synchronization

/// The work for a write before the writer gets it, on other threads: making a large write, or hashing the large value that
/// a compare-and-set compares.
///
/// A front end cancels it when the connection of the write ends, before the on-disconnect writes are submitted. Then either
/// the writer has got the write before, or the write is dropped: the client cannot know whether it was made, and others need
/// the turns and the memory. So no write follows the end of its connection. It would overwrite the on-disconnect writes, or
/// what another connection of the client has written meanwhile.
///
/// Safe to use from any thread.
public final class WorkBeforeWrite: Sendable {
  private struct State {
    /// The part of the work that began last.
    var task: Task<Void, Never>?
    var isCancelled = false
  }

  private let state = Mutex(State())

  /// Creates the work for one write.
  public init() {}

  /// Begins a part of the work, after the one before it.
  func begin(_ body: @escaping @Sendable () async -> Void) {
    let task = Task(operation: body)
    let isCancelled = state.withLock { state in
      state.task = task
      return state.isCancelled
    }
    if isCancelled { task.cancel() }
  }

  /// Runs `submit`, which gives the write to the writer. It must not begin a part of the work at once.
  ///
  /// - Throws: `CancellationError` if the work was cancelled. Then `submit` does not run.
  func submitUnlessCancelled(_ submit: () -> Void) throws(CancellationError) {
    let isCancelled = state.withLock { state in
      // While the lock is held, so that no write is submitted after `cancel` has returned.
      if !state.isCancelled { submit() }
      return state.isCancelled
    }
    if isCancelled { throw CancellationError() }
  }

  /// Cancels the work. The write is refused with `WireError.cancelled`, unless the writer has got it.
  public func cancel() {
    let task = state.withLock { state in
      state.isCancelled = true
      return state.task.take()
    }
    task?.cancel()
  }
}
