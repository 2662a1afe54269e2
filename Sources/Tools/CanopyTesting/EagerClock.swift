import Synchronization

/// A clock whose sleeps end at once, as if the time had passed. Sleeps that are longer than a bound end only when they are
/// cancelled.
public final class EagerClock: Clock {
  private struct State {
    var offset = Duration.zero
    var sleeps: [Duration] = []
  }

  private let start = StepClock().now
  private let state = Mutex(State())
  private let sleepMax: Duration?

  /// Creates a clock.
  ///
  /// - Parameter sleepMax: the longest sleep that ends at once; nil for no bound.
  public init(sleepMax: Duration? = nil) {
    self.sleepMax = sleepMax
  }

  /// The duration of each sleep.
  public var sleeps: [Duration] { state.withLock { $0.sleeps } }

  /// The time.
  public var now: StepClock.Instant { start.advanced(by: state.withLock { $0.offset }) }

  /// The resolution, which is unlimited.
  public var minimumResolution: Duration { .zero }

  /// Moves the time to the deadline.
  public func sleep(until deadline: StepClock.Instant, tolerance: Duration?) async throws {
    let rest = now.duration(to: deadline)
    if let sleepMax, rest > sleepMax {
      let (never, end) = AsyncStream.makeStream(of: Void.self)
      for await _ in never {}
      withExtendedLifetime(end) {}
      throw CancellationError()
    }
    state.withLock { state in
      state.sleeps.append(rest)
      state.offset += max(.zero, rest)
    }
    await Task.yield()
  }
}
