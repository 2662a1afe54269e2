internal import Synchronization

/// A clock for those who sleep, which moves only when it is told to, and notes who slept for how long.
public final class StepClock: Clock {
  /// A time since the clock was made.
  public struct Instant: InstantProtocol {
    var offset: Duration

    /// A later time.
    public func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }

    /// The time from this one to another.
    public func duration(to other: Instant) -> Duration { other.offset - offset }

    /// Whether one is before another.
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

  /// A clock that stands.
  public init() {}

  /// The time.
  public var now: Instant { state.withLock { $0.now } }

  /// Any step.
  public var minimumResolution: Duration { .zero }

  /// How long was slept, or is to be, each time that somebody went to sleep.
  public var sleeps: [Duration] { state.withLock { $0.sleeps } }

  /// How many sleep.
  public var sleepers: Int { state.withLock { $0.sleepers.count } }

  /// Waits until somebody has gone to sleep so many times since the clock was made.
  public func slept(_ count: Int) async {
    await withCheckedContinuation { continuation in
      let isReached = state.withLock { state in
        if state.sleeps.count < count { state.watchers.append((count, continuation)) }
        return state.sleeps.count >= count
      }
      if isReached { continuation.resume() }
    }
  }

  /// Moves the clock on, and wakes those whose time has come.
  public func advance(by duration: Duration) {
    let woken = state.withLock { state in
      state.now = state.now.advanced(by: duration)
      let over = state.sleepers.filter { $0.value.deadline <= state.now }
      for id in over.keys { state.sleepers[id] = nil }
      return over.values.map(\.continuation)
    }
    for continuation in woken { continuation.resume() }
  }

  /// Waits until the clock is moved to a time, or the task is cancelled.
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
