import Synchronization

/// A clock whose sleeps end at once, as if the time had passed.
public final class EagerClock: Clock {
  private struct State {
    var offset = Duration.zero
    var sleeps: [Duration] = []
  }

  private let start = StepClock().now
  private let state = Mutex(State())

  /// Creates a clock.
  public init() {}

  /// The duration of each sleep.
  public var sleeps: [Duration] { state.withLock { $0.sleeps } }

  /// The time.
  public var now: StepClock.Instant { start.advanced(by: state.withLock { $0.offset }) }

  /// The resolution, which is unlimited.
  public var minimumResolution: Duration { .zero }

  /// Moves the time to the deadline.
  public func sleep(until deadline: StepClock.Instant, tolerance: Duration?) async throws {
    let rest = now.duration(to: deadline)
    state.withLock { state in
      state.sleeps.append(rest)
      state.offset += rest
    }
  }
}
