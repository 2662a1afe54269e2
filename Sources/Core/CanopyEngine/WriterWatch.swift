internal import CanopyTree
internal import Logging
internal import Synchronization

/// Counters of the work that held the writer for longer than `Engine.writerHoldMax`.
public struct WriterHolds: Sendable, Equatable {
  /// The counters of one kind of work.
  public struct Work: Sendable, Equatable {
    /// The number of times that it took longer.
    public var count = 0
    /// The longest time.
    public var longest = Duration.zero
    /// The sum of these times.
    public var total = Duration.zero

    mutating func note(_ duration: Duration) {
      count += 1
      longest = max(longest, duration)
      total += duration
    }
  }

  /// The counters by the kind of work: the verb of a request, or a step of the engine, such as `listeners`.
  public var work: [String: Work] = [:]
  /// The counters of appends to the journal. Writers wait for the disk then, so these say more about the disk than about
  /// requests.
  public var appends = Work()

  /// The number of times that any work but an append took longer.
  public var count: Int { work.values.reduce(0) { $0 + $1.count } }

  /// The longest time of any work but an append.
  public var longest: Duration { work.values.map(\.longest).max() ?? .zero }

  /// The kind of the work that took longest; empty if there is none.
  public var longestWork: String {
    work.max { ($0.value.longest, $1.key) < ($1.value.longest, $0.key) }?.key ?? ""
  }
}

/// Notices work that holds the engine's thread for too long, counts it, and names it in the log.
///
/// Costs one reading of the clock for each request, and four for each batch.
final class WriterWatch: Sendable {
  private struct State {
    var holds = WriterHolds()
    var pace = LogPace()
  }

  private let clock: @Sendable () -> Duration
  private let logger: Logger
  private let state = Mutex(State())

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
      state.withLock { $0.holds.appends.note(now - start) }
    }
    return now
  }

  private func report(
    _ work: StaticString, _ duration: Duration, _ location: Location?, _ now: Duration
  ) {
    let omitted = state.withLock { state in
      state.holds.work["\(work)", default: WriterHolds.Work()].note(duration)
      return state.pace.admit(at: now)
    }
    guard let omitted else { return }
    var metadata: Logger.Metadata = ["work": "\(work)", "ms": "\(duration.milliseconds)"]
    if let location { metadata["path"] = "\(location.textForLog)" }
    if omitted > 0 { metadata["suppressed"] = "\(omitted)" }
    logger.notice("all writes waited for one piece of work", metadata: metadata)
  }

  /// Logs the counters, if there are any: one line for the life of the engine.
  func logSummary() {
    let holds = holds
    guard !holds.work.isEmpty || holds.appends.count > 0 else { return }
    var metadata: Logger.Metadata = [:]
    for (name, work) in holds.work { metadata[name] = "\(work)" }
    if holds.appends.count > 0 { metadata["journal"] = "\(holds.appends)" }
    logger.notice(
      "pieces of work for which all writes waited longer than \(Engine.writerHoldMax.milliseconds) ms",
      metadata: metadata)
  }
}

extension WriterHolds.Work: CustomStringConvertible {
  /// The counters in one line, for the log.
  public var description: String {
    "\(count) times, \(total.milliseconds) ms, the longest \(longest.milliseconds) ms"
  }
}

extension Duration {
  /// The whole milliseconds.
  fileprivate var milliseconds: Int64 {
    let (seconds, attoseconds) = components
    let (product, overflow) = seconds.multipliedReportingOverflow(by: 1_000)
    let (sum, sumOverflow) = product.addingReportingOverflow(attoseconds / 1_000_000_000_000_000)
    return overflow || sumOverflow ? (seconds < 0 ? .min : .max) : sum
  }
}

extension Engine {
  /// The time for which one request may hold the writer.
  public static let writerHoldMax = Duration.milliseconds(10)

  /// Counters of the work that held the writer for longer than `writerHoldMax`.
  public var writerHolds: WriterHolds { watch.holds }
}
