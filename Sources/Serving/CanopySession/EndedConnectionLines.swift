internal import CanopySystem
public import Logging
internal import Synchronization

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
