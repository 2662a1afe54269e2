#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// A source of random bytes for secrets. Returns exactly `count` bytes.
public typealias RandomBytes = @Sendable (_ count: Int) -> [UInt8]

/// The clock and the random source of the module.
///
/// Both are parameters, so that a test, or a server that is replayed from a seed, can choose them.
public struct AccountEnvironment: Sendable {
  /// Returns the time in milliseconds since 1970. It may go back, which does not extend a wait.
  public var now: @Sendable () -> Int64
  /// The source of identifiers, salts and tokens.
  public var random: RandomBytes

  /// Creates an environment with the given clock and random source.
  public init(now: @escaping @Sendable () -> Int64, random: @escaping RandomBytes) {
    self.now = now
    self.random = random
  }

  /// The machine's clock and random source. Only this property uses them.
  public static let live = AccountEnvironment(
    now: {
      var time = timespec()
      clock_gettime(CLOCK_REALTIME, &time)
      return milliseconds(seconds: Int64(time.tv_sec), nanoseconds: Int64(time.tv_nsec))
    },
    random: { count in
      var generator = SystemRandomNumberGenerator()
      return (0..<max(0, count)).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
    }
  )

  /// Returns a time in milliseconds, or the nearest bound if it overflows. A clock can be set to any time.
  static func milliseconds(seconds: Int64, nanoseconds: Int64) -> Int64 {
    let (milliseconds, overflow) = seconds.multipliedReportingOverflow(by: 1_000)
    guard !overflow else { return seconds < 0 ? .min : .max }
    return milliseconds.addingSaturated(nanoseconds / 1_000_000)
  }
}
