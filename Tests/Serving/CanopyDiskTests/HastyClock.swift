import Synchronization

/// A clock whose sleeps of a few seconds end at once, and whose longer sleeps end only when they are cancelled.
///
/// The engine's pauses between two tries take no time, and the time from a commit to a checkpoint never passes.
final class HastyClock: Clock {
  struct Instant: InstantProtocol {
    var offset: Duration

    func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
    func duration(to other: Instant) -> Duration { other.offset - offset }
    static func < (a: Instant, b: Instant) -> Bool { a.offset < b.offset }
  }

  private static let longest = Duration.seconds(10)

  private let time = Mutex(Duration.zero)

  var now: Instant { Instant(offset: time.withLock { $0 }) }
  var minimumResolution: Duration { .zero }

  func sleep(until deadline: Instant, tolerance: Duration?) async throws {
    guard now.duration(to: deadline) <= Self.longest else {
      let (never, end) = AsyncStream.makeStream(of: Void.self)
      for await _ in never {}
      withExtendedLifetime(end) {}
      throw CancellationError()
    }
    time.withLock { $0 = max($0, deadline.offset) }
    await Task.yield()
  }
}
