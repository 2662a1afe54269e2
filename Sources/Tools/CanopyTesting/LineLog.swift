public import Logging
import Synchronization

/// A log that keeps the lines of all levels with their metadata.
public final class LineLog: Sendable {
  private let kept = Mutex<[String]>([])

  /// Creates an empty log.
  public init() {}

  /// The lines so far, each with level, message and metadata.
  public var lines: [String] { kept.withLock { $0 } }

  /// A logger that writes to this log.
  public var logger: Logger {
    var logger = Logger(label: "canopy.test") { _ in Handler(log: self) }
    logger.logLevel = .trace
    return logger
  }

  private struct Handler: LogHandler {
    let log: LineLog
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.trace

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
      get { metadata[key] }
      set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
      let all = metadata.merging(event.metadata ?? [:]) { $1 }
      log.kept.withLock { $0.append("\(event.level) \(event.message) \(all)") }
    }
  }
}
