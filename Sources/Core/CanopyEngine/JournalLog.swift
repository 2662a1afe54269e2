internal import CanopyTree
internal import Logging

/// Limits the lines of the log about one repeated problem to one a second. Each line has the number of those that were
/// left out before it.
struct LogPace {
  /// The pause between two lines.
  static let interval = Duration.seconds(1)

  private var last: Duration?
  private var omitted = 0

  /// Returns the number of lines that were left out since the last one; nil if this one is to be left out as well.
  ///
  /// - Parameter now: the time since any moment, which never goes back.
  mutating func admit(at now: Duration) -> Int? {
    if let last, now - last < LogPace.interval {
      omitted += 1
      return nil
    }
    last = now
    defer { omitted = 0 }
    return omitted
  }
}

/// The lines of the log about commits that are not stored: one when the journal begins to fail, at most one a second
/// while it fails, and one when it works again.
///
/// A value of the engine's thread.
struct JournalLog {
  private let logger: Logger
  private var pace = LogPace()
  private var unstorablePace = LogPace()
  /// The appends that failed since the last one that succeeded.
  private var failures = 0

  init(_ logger: Logger) {
    self.logger = logger
  }

  /// Notes that an append has failed.
  mutating func noteFailure(of batch: Batch, _ error: any Error, at now: Duration) {
    failures += 1
    // The first line of a failure is never left out.
    if failures == 1 { pace = LogPace() }
    log("the journal failed", batch, error, at: now)
  }

  /// Notes that the journal could not say whether an append was stored.
  mutating func noteDoubt(about batch: Batch, _ error: any Error, at now: Duration) {
    log(
      "the journal cannot say whether commits were stored; it is asked again", batch, error, at: now
    )
  }

  /// Notes that commits were stored although their append failed.
  mutating func noteStoredDespiteFailure(_ batch: Batch, at now: Duration) {
    guard let omitted = pace.admit(at: now) else { return }
    logger.notice(
      "the commits had been stored although the journal failed", metadata: metadata(batch, omitted))
  }

  private mutating func log(
    _ message: Logger.Message, _ batch: Batch, _ error: any Error, at now: Duration
  ) {
    guard let omitted = pace.admit(at: now) else { return }
    var metadata = metadata(batch, omitted)
    metadata["error"] = "\(error)"
    logger.error(message, metadata: metadata)
  }

  private func metadata(_ batch: Batch, _ omitted: Int) -> Logger.Metadata {
    var metadata: Logger.Metadata = ["commits": "\(batch.commits.count)"]
    if omitted > 0 { metadata["suppressed"] = "\(omitted)" }
    return metadata
  }

  /// Notes that an append has succeeded. O(1) unless the last one failed.
  mutating func noteSuccess() {
    guard failures > 0 else { return }
    logger.notice("the journal works again", metadata: ["failures": "\(failures)"])
    failures = 0
  }

  /// Notes the locations of writes that were refused because their commits would not read back.
  mutating func noteUnstorable(_ locations: [Location], at now: Duration) {
    guard let first = locations.first, let omitted = unstorablePace.admit(at: now) else { return }
    var metadata: Logger.Metadata = [
      "path": "\(first.textForLog)", "locations": "\(locations.count)",
    ]
    if omitted > 0 { metadata["suppressed"] = "\(omitted)" }
    logger.error("a write was refused because its commit does not read back", metadata: metadata)
  }
}
