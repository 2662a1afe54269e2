internal import CanopyAccounts
internal import CanopySystem
public import Logging
internal import Synchronization

/// Bounds the lines of the log about one thing that any client may cause: 60 at once, and then one a second.
///
/// For example, anyone may arm writes that the rules will refuse, and disconnect. Without a bound each connection adds
/// lines.
struct LogLineLimit: Sendable {
  /// The maximum of lines at once, and in a minute.
  static let linesMax = 60

  private var lines = RateLimiter<Int>(
    attemptsMax: linesMax, windowMilliseconds: 60_000, keysMax: 1)
  private var omitted = 0

  /// Requests a line.
  ///
  /// - Parameter now: the time in milliseconds since 1970.
  /// - Returns: the number of lines omitted since the last one, or nil if this one is to be omitted.
  mutating func take(now: Int64) -> Int? {
    guard lines.take(0, now: now) == nil else {
      omitted += 1
      return nil
    }
    defer { omitted = 0 }
    return omitted
  }
}

/// The lines of the log about connections that the server ends to make room for others.
///
/// Clients may cause as many of them as they open connections. So all of these lines together have one `LogLineLimit`.
/// Safe to use from any thread.
public final class EndedConnectionLines: Sendable {
  private let now: @Sendable () -> Int64
  private let limit = Mutex(LogLineLimit())

  /// - Parameter now: milliseconds since any moment; nil for those since the start of the system.
  public init(now: (@Sendable () -> Int64)? = nil) {
    self.now = now ?? { RoughTime.now() / 1_000_000 }
  }

  /// Logs a line with the number of the lines that were omitted before, or counts it if there were too many.
  public func add(_ message: Logger.Message, _ metadata: Logger.Metadata, to logger: Logger) {
    guard let omitted = limit.withLock({ $0.take(now: now()) }) else { return }
    var metadata = metadata
    if omitted > 0 { metadata["suppressed"] = "\(omitted)" }
    logger.notice(message, metadata: metadata)
  }
}
