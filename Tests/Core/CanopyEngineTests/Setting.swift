import Logging
import Synchronization

/// A clock that a test advances, and a log that a test reads.
final class Setting: Sendable {
  private let time = Mutex(Duration.zero)
  private let lines = Mutex<[String]>([])
  private let texts = Mutex<[String]>([])

  /// The messages of all lines.
  var messages: [String] { texts.withLock { $0 } }

  var elapsed: @Sendable () -> Duration { { [self] in time.withLock { $0 } } }

  func advance(_ duration: Duration) { time.withLock { $0 += duration } }

  /// Returns the metadata of the lines since the last call.
  func logged() -> [String] {
    lines.withLock { lines in
      defer { lines = [] }
      return lines
    }
  }

  var logger: Logger { Logger(label: "test") { _ in Handler(setting: self) } }

  private struct Handler: LogHandler {
    let setting: Setting
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.trace

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
      get { metadata[key] }
      set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
      let words = (event.metadata ?? [:]).sorted { $0.key < $1.key }.map { "\($0)=\($1)" }
      setting.texts.withLock { $0.append("\(event.message)") }
      setting.lines.withLock { $0.append(words.joined(separator: " ")) }
    }
  }
}
