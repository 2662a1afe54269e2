/// The clock of sleeping tasks.
final class SimulatedClock: Clock, Sendable {
  /// A time since the beginning of the simulation.
  struct Instant: InstantProtocol {
    var offset: Duration

    func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }

    func duration(to other: Instant) -> Duration { other.offset - offset }

    static func < (a: Instant, b: Instant) -> Bool { a.offset < b.offset }
  }

  /// A sleep. `@unchecked Sendable`: the simulation has one thread.
  private final class Sleep: @unchecked Sendable {
    var continuation: CheckedContinuation<Void, any Error>?
    var timer: Scheduler.TimerID?
  }

  var now: Instant { Instant(offset: .nanoseconds(Scheduler.shared.now)) }

  var minimumResolution: Duration { .zero }

  func sleep(until deadline: Instant, tolerance: Duration?) async throws {
    let (seconds, attoseconds) = now.duration(to: deadline).components
    // A hundred years do not overflow.
    let nanoseconds = min(seconds, 3_000_000_000) * 1_000_000_000 + attoseconds / 1_000_000_000
    let sleep = Sleep()
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation {
        (continuation: CheckedContinuation<Void, any Error>) in
        if Task.isCancelled { return continuation.resume(throwing: CancellationError()) }
        sleep.continuation = continuation
        sleep.timer = Scheduler.shared.after(nanoseconds: nanoseconds) {
          sleep.continuation.take()?.resume()
        }
      }
    } onCancel: {
      if let timer = sleep.timer { Scheduler.shared.cancel(timer) }
      sleep.continuation.take()?.resume(throwing: CancellationError())
    }
  }
}

/// Waits for a number of nanoseconds.
func pause(_ nanoseconds: Int64) async {
  await withCheckedContinuation { continuation in
    Scheduler.shared.after(nanoseconds: nanoseconds) { continuation.resume() }
  }
}
