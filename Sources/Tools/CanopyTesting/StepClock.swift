internal import Synchronization

/// A clock for sleeping tasks that moves only when a test advances it. It records each sleep.
public final class StepClock: Clock {
  /// A time since the clock was created.
  public struct Instant: InstantProtocol {
    var offset: Duration

    /// Returns a later time.
    public func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }

    /// Returns the duration from this time to another.
    public func duration(to other: Instant) -> Duration { other.offset - offset }

    /// Whether `a` is before `b`.
    public static func < (a: Instant, b: Instant) -> Bool { a.offset < b.offset }
  }

  private struct State {
    var now = Instant(offset: .zero)
    var sleeps: [Duration] = []
    var sleepers: [Int: (deadline: Instant, continuation: CheckedContinuation<Void, any Error>)] =
      [:]
    var watchers: [(count: Int, continuation: CheckedContinuation<Void, Never>)] = []
  }

  private let state = Mutex(State())

  /// Creates a clock at time zero.
  public init() {}

  /// The time.
  public var now: Instant { state.withLock { $0.now } }

  /// The resolution, which is unlimited.
  public var minimumResolution: Duration { .zero }

  /// The duration of each sleep that began.
  public var sleeps: [Duration] { state.withLock { $0.sleeps } }

  /// The number of sleeping tasks.
  public var sleepers: Int { state.withLock { $0.sleepers.count } }

  /// Waits until `count` sleeps have begun since the clock was created.
  public func slept(_ count: Int) async {
    await withCheckedContinuation { continuation in
      let isReached = state.withLock { state in
        if state.sleeps.count < count { state.watchers.append((count, continuation)) }
        return state.sleeps.count >= count
      }
      if isReached { continuation.resume() }
    }
  }

  /// Advances the clock, and wakes the tasks whose deadline has passed.
  public func advance(by duration: Duration) {
    let woken = state.withLock { state in
      state.now = state.now.advanced(by: duration)
      let over = state.sleepers.filter { $0.value.deadline <= state.now }
      for id in over.keys { state.sleepers[id] = nil }
      return over.values.map(\.continuation)
    }
    for continuation in woken { continuation.resume() }
  }

  /// Waits until the clock reaches a time, or the task is cancelled.
  public func sleep(until deadline: Instant, tolerance: Duration? = nil) async throws {
    let id = state.withLock { state in
      state.sleeps.append(state.now.duration(to: deadline))
      return state.sleeps.count
    }
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        let isOver: Bool? = state.withLock { state in
          if Task.isCancelled { return nil }
          if deadline <= state.now { return true }
          state.sleepers[id] = (deadline, continuation)
          return false
        }
        switch isOver {
        case nil: continuation.resume(throwing: CancellationError())
        case true?: continuation.resume()
        case false?: break
        }
        let watchers = state.withLock { state in
          let reached = state.watchers.filter { $0.count <= id }
          state.watchers.removeAll { $0.count <= id }
          return reached
        }
        for watcher in watchers { watcher.continuation.resume() }
      }
    } onCancel: {
      state.withLock { $0.sleepers.removeValue(forKey: id) }?.continuation
        .resume(throwing: CancellationError())
    }
  }
}
