internal import CanopyTree
internal import Logging
internal import Synchronization

/// Counts of the times that something held the writer for longer than it may.
public struct WriterHolds: Sendable, Equatable {
  /// The number of times that one request, or one step of publishing a batch, took longer than
  /// `Engine.writerHoldMax`.
  public var count = 0
  /// The longest of them.
  public var longest = Duration.zero
  /// The kind of work that took longest: the verb of a request, or a step such as `listeners`.
  public var longestWork = ""
  /// The number of appends to the journal that took longer than `Engine.writerHoldMax`. Writers wait for the
  /// disk then, so that says more about the disk than about requests.
  public var appends = 0
  /// The longest append.
  public var longestAppend = Duration.zero
}

/// Notices work that holds the engine's thread for too long, counts it, and names it in the log.
///
/// Costs one reading of the clock for each request, and four for each batch.
final class WriterWatch: Sendable {
  private struct State {
    var holds = WriterHolds()
    var lastLogged: Duration?
    /// Holds that were not logged since the last line.
    var suppressed = 0
  }

  private let clock: @Sendable () -> Duration
  private let logger: Logger
  private let state = Mutex(State())
  /// The pause between two lines of the log.
  private static let logInterval = Duration.seconds(1)

  /// Creates a watch.
  ///
  /// - Parameter clock: the time since any moment, which never goes back.
  init(clock: @escaping @Sendable () -> Duration, logger: Logger) {
    self.clock = clock
    self.logger = logger
  }

  /// The counts until now.
  var holds: WriterHolds { state.withLock { $0.holds } }

  /// The time now.
  var now: Duration { clock() }

  /// Notes that some work has ended. Returns the time.
  @discardableResult
  func note(
    _ work: StaticString, since start: Duration, at location: @autoclosure () -> Location? = nil
  ) -> Duration {
    let now = clock()
    if now - start > Engine.writerHoldMax { report(work, now - start, location(), now) }
    return now
  }

  /// Notes that an append to the journal has ended. Returns the time.
  func noteAppend(since start: Duration) -> Duration {
    let now = clock()
    if now - start > Engine.writerHoldMax {
      state.withLock { state in
        state.holds.appends += 1
        state.holds.longestAppend = max(state.holds.longestAppend, now - start)
      }
    }
    return now
  }

  private func report(
    _ work: StaticString, _ duration: Duration, _ location: Location?, _ now: Duration
  ) {
    let suppressed = state.withLock { state -> Int? in
      state.holds.count += 1
      if duration > state.holds.longest {
        state.holds.longest = duration
        state.holds.longestWork = "\(work)"
      }
      if let last = state.lastLogged, now - last < WriterWatch.logInterval {
        state.suppressed += 1
        return nil
      }
      defer { state.suppressed = 0 }
      state.lastLogged = now
      return state.suppressed
    }
    guard let suppressed else { return }
    var metadata: Logger.Metadata = ["work": "\(work)", "ms": "\(duration.milliseconds)"]
    if let location { metadata["path"] = "/\(location.text)" }
    if suppressed > 0 { metadata["suppressed"] = "\(suppressed)" }
    logger.notice("all writes waited for one piece of work", metadata: metadata)
  }
}

extension Duration {
  /// The whole milliseconds.
  fileprivate var milliseconds: Int64 {
    let (seconds, attoseconds) = components
    return seconds * 1_000 + attoseconds / 1_000_000_000_000_000
  }
}

extension Engine {
  /// The time for which one request may hold the writer.
  public static let writerHoldMax = Duration.milliseconds(10)

  /// Counts of the work that held the writer for longer than `writerHoldMax`.
  public var writerHolds: WriterHolds { watch.holds }
}
