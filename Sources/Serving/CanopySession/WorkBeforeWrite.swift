internal import Synchronization

/// The work for a write before the writer gets it, on other threads: making a large write, or hashing the large value that
/// a compare-and-set compares.
///
/// A front end cancels it when the connection of the write is lost. The client cannot know whether such a write was made,
/// and others need the turns and the memory. A write whose turn has begun is made in any case.
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

  /// Cancels the part of the work that waits for a turn, and those that follow. The write is refused with
  /// `WireError.cancelled`, unless its last turn has begun.
  public func cancel() {
    let task = state.withLock { state in
      state.isCancelled = true
      return state.task.take()
    }
    task?.cancel()
  }
}
