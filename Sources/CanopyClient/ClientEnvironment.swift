internal import NIOCore
internal import NIOPosix

/// What a database takes from the world outside: time, randomness and being called later.
///
/// Parameters, so that a test decides them.
public struct ClientEnvironment: Sendable {
  /// Milliseconds since 1970.
  public var now: @Sendable () -> Int64
  /// Random words, for keys, the name of the client, and the jitter of reconnection.
  public var random: @Sendable () -> UInt64

  /// Has something done after so many milliseconds, on any thread.
  public var schedule: @Sendable (Int64, @escaping @Sendable () -> Void) -> Void

  /// An environment.
  public init(
    now: @escaping @Sendable () -> Int64, random: @escaping @Sendable () -> UInt64,
    schedule: @escaping @Sendable (Int64, @escaping @Sendable () -> Void) -> Void
  ) {
    self.now = now
    self.random = random
    self.schedule = schedule
  }

  /// The machine's clock and the system's source of randomness.
  public static let live = ClientEnvironment(
    now: { Int64(Date().timeIntervalSince1970 * 1000) },
    random: {
      var source = SystemRandomNumberGenerator()
      return source.next()
    },
    schedule: { milliseconds, body in
      let loop = MultiThreadedEventLoopGroup.singleton.any()
      loop.scheduleTask(in: .milliseconds(milliseconds), body)
    })
}
