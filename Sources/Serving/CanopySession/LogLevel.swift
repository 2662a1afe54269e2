public import Logging
internal import Synchronization

/// The lowest level that the server logs. It can be changed while the server runs. Safe to use from any thread.
public final class LogLevel: Sendable {
  private let rank: Atomic<Int>

  /// Creates a level.
  public init(_ level: Logger.Level = .info) {
    rank = Atomic(level.rank)
  }

  /// The present level. O(1).
  public var current: Logger.Level { Logger.Level(rank: rank.load(ordering: .relaxed)) }

  /// Sets the level of all loggers with this level.
  public func set(_ level: Logger.Level) {
    rank.store(level.rank, ordering: .relaxed)
  }
}

/// A handler with the level of the server. A logger whose own level is set keeps that one.
struct LeveledHandler: LogHandler {
  private let shared: LogLevel
  private var own: Logger.Level?
  private var next: any LogHandler

  init(_ shared: LogLevel, before next: any LogHandler) {
    self.shared = shared
    self.next = next
    // This handler decides alone.
    self.next.logLevel = .trace
  }

  var logLevel: Logger.Level {
    get { own ?? shared.current }
    set { own = newValue }
  }

  var metadata: Logger.Metadata {
    get { next.metadata }
    set { next.metadata = newValue }
  }

  var metadataProvider: Logger.MetadataProvider? {
    get { next.metadataProvider }
    set { next.metadataProvider = newValue }
  }

  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { next[metadataKey: key] }
    set { next[metadataKey: key] = newValue }
  }

  func log(event: LogEvent) {
    next.log(event: event)
  }
}

extension Logger.Level {
  /// The position, from the least important level on.
  fileprivate var rank: Int {
    switch self {
    case .trace: 0
    case .debug: 1
    case .info: 2
    case .notice: 3
    case .warning: 4
    case .error: 5
    case .critical: 6
    }
  }

  fileprivate init(rank: Int) {
    self =
      switch rank {
      case 0: .trace
      case 1: .debug
      case 2: .info
      case 3: .notice
      case 4: .warning
      case 5: .error
      default: .critical
      }
  }
}
