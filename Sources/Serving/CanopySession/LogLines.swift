internal import CanopyTree
internal import CanopyWire
internal import DequeModule
public import Logging
internal import Synchronization

/// The last lines of the log, in memory, for the administrator, and the level of the log.
///
/// The number of lines and the length of each are bounded. Values with the names of secrets are left out: the
/// administrator finds them in the log itself. Safe to use from any thread.
public final class LogLines: Sendable {
  /// A line.
  struct Line: Sendable {
    /// The number of the line since the start, from 1.
    let number: Int64
    /// Milliseconds since 1970.
    let time: Int64
    let level: LogPage.Level
    let message: String
    /// In the order of the names.
    let metadata: [(name: String, value: String)]
  }

  private struct State {
    var lines: Deque<Line> = []
    var last: Int64 = 0
  }

  /// The most lines that are kept.
  public static let linesMax = 1_000
  static let messageBytesMax = 1_000
  static let valueBytesMax = 200
  static let valuesMax = 12
  /// The names of values that are secret.
  static let secretNames: Set = ["code", "token", "password"]
  static let hidden = "(hidden)"

  /// The lowest level of the lines, also for the handlers after this one.
  public let level = LogLevel()
  private let state = Mutex(State())
  private let now: @Sendable () -> Int64

  /// Creates an empty log.
  ///
  /// - Parameter now: milliseconds since 1970.
  public init(now: @escaping @Sendable () -> Int64 = { 0 }) {
    self.now = now
  }

  /// Returns a handler that keeps each line and passes it on to another handler.
  public func handler(before next: any LogHandler) -> any LogHandler {
    LeveledHandler(level, before: MultiplexLogHandler([Keeper(lines: self), next]))
  }

  /// Keeps a line, and drops the oldest one if there are too many. O(bytes kept).
  private func add(_ event: LogEvent, _ metadata: Logger.Metadata) {
    let values = metadata.sorted { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }
      .prefix(LogLines.valuesMax)
      .map { (name: $0.key, value: LogLines.text(of: $0.value, named: $0.key)) }
    let message = "\(event.message)".cut(toBytes: LogLines.messageBytesMax)
    let level = LogPage.Level(rawValue: event.level.rawValue) ?? .info
    let time = now()
    state.withLock { state in
      state.last += 1
      if state.lines.count == LogLines.linesMax { state.lines.removeFirst() }
      state.lines.append(
        Line(number: state.last, time: time, level: level, message: message, metadata: values))
    }
  }

  private static func text(of value: Logger.MetadataValue, named name: String) -> String {
    if secretNames.contains(name.asciiLowercased) { return hidden }
    if case .dictionary(let members) = value {
      let texts = members.map { "\($0.key): \(text(of: $0.value, named: $0.key))" }.sorted()
      return texts.joined(separator: ", ").cut(toBytes: valueBytesMax)
    }
    return "\(value)".cut(toBytes: valueBytesMax)
  }

  /// Returns a page of the lines, oldest first, and the number after which the next page begins.
  func page(_ page: LogPage) -> (lines: [Line], last: Int64) {
    let (all, last) = state.withLock { ($0.lines, $0.last) }
    let wanted = all.lazy.filter { page.level <= $0.level }
    // After a restart the numbers begin again.
    guard let after = page.after, after <= last else {
      return (Array(wanted.suffix(page.limit)), last)
    }
    let newer = Array(wanted.filter { after < $0.number }.prefix(page.limit + 1))
    guard newer.count > page.limit else { return (newer, last) }
    let lines = Array(newer.dropLast())
    return (lines, lines.last?.number ?? last)
  }

  private struct Keeper: LogHandler {
    let lines: LogLines
    var metadata: Logger.Metadata = [:]
    /// The handler before decides.
    var logLevel = Logger.Level.trace

    init(lines: LogLines) {
      self.lines = lines
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
      get { metadata[key] }
      set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
      lines.add(event, metadata.merging(event.metadata ?? [:]) { $1 })
    }
  }
}

extension String {
  /// Returns the text, cut off after the last whole scalar that fits into a number of bytes.
  func cut(toBytes bytesMax: Int) -> String {
    guard utf8.count > bytesMax else { return self }
    var end = utf8.index(utf8.startIndex, offsetBy: bytesMax)
    // Bytes after the first of a scalar begin with the bits 10.
    while end > utf8.startIndex, utf8[end] & 0xC0 == 0x80 { end = utf8.index(before: end) }
    return String(decoding: utf8[..<end], as: UTF8.self)
  }
}
