#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// A source of random bytes: given a count, returns exactly that many, fit for secrets.
public typealias RandomBytes = @Sendable (_ count: Int) -> [UInt8]

/// What the module takes from the world: the time and randomness.
///
/// Both are parameters so that a test, or a whole server replayed from a seed, decides them.
public struct AccountEnvironment: Sendable {
  /// The time, in milliseconds since 1970. It may step back; no wait grows by that.
  public var now: @Sendable () -> Int64
  /// Where identifiers, salts and tokens come from.
  public var random: RandomBytes

  /// An environment with the given clock and random source.
  public init(now: @escaping @Sendable () -> Int64, random: @escaping RandomBytes) {
    self.now = now
    self.random = random
  }

  /// The machine's own clock and random source: the only place here that reaches for them.
  public static let live = AccountEnvironment(
    now: {
      var time = timespec()
      clock_gettime(CLOCK_REALTIME, &time)
      return Int64(time.tv_sec) * 1_000 + Int64(time.tv_nsec) / 1_000_000
    },
    random: { count in
      var generator = SystemRandomNumberGenerator()
      return (0..<max(0, count)).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
    }
  )
}
