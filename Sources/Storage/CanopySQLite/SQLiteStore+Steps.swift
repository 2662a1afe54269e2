internal import Foundation
internal import GRDB

/// The bounds of one background step, which occupies the writer: rows, bytes and time.
///
/// A step ends when it reaches the first of them. It may exceed the bytes and the time by one row, because a row is
/// written as a whole.
struct StepBudget {
  /// The bounds of a step.
  struct Limits: Sendable {
    var rows: Int
    var bytes: Int
    var seconds: Double
    /// Returns the seconds since some fixed moment. It never goes back.
    var uptime: @Sendable () -> Double
  }

  /// The bytes that one row or one look-up costs in addition to the value.
  private static let rowBytes = 64

  private var isBegun = false
  private var rows: Int
  private var bytes: Int
  private let end: Double
  private let uptime: @Sendable () -> Double

  /// Creates the budget of a step that begins now.
  init(_ limits: Limits) {
    rows = max(1, limits.rows)
    bytes = max(1, limits.bytes)
    uptime = limits.uptime
    end = uptime() + limits.seconds
  }

  /// Whether the step must end. False until the step has done something, so that each step makes progress.
  var isSpent: Bool { isBegun && (rows <= 0 || bytes <= 0 || uptime() >= end) }

  /// Subtracts completed work.
  mutating func spend(rows: Int = 1, bytes: Int = 0) {
    isBegun = true
    self.rows -= rows
    self.bytes -= bytes + rows * StepBudget.rowBytes
  }
}

extension SQLiteStore {
  /// Runs one background step with a budget of its own. An append that arrives meanwhile waits for it.
  ///
  /// Three rules keep that wait short, whatever the sizes of the rows:
  /// - The budget bounds the work of the step.
  /// - No step begins while the write-ahead log is copied into the database file. The copier would otherwise never
  ///   catch up, and would leave many frames to the writer.
  /// - The bytes of steps are synchronized here, beside the writer. A step does not wait for the disk, so the next
  ///   append would otherwise have to synchronize the bytes of all steps since the last one.
  func step<R: Sendable>(
    _ body: @escaping @Sendable (Database, inout StepBudget) throws -> R
  ) async throws -> R {
    await logCopier?.waitUntilIdle()
    let limits = StepBudget.Limits(
      rows: configuration.checkpointStepRows, bytes: configuration.checkpointStepBytes,
      seconds: configuration.checkpointStepSeconds, uptime: configuration.uptime)
    let result = try await writeInBackground { db in
      var budget = StepBudget(limits)
      return try body(db, &budget)
    }
    await synchronizeSteps()
    try await configuration.afterStep()
    return result
  }

  /// Synchronizes the write-ahead log if background steps have added many bytes that no append has synchronized.
  ///
  /// Runs on a queue of its own, and not on the writer's. An error is not reported here: the next append gets it from
  /// the system as well, because the log was already open there.
  private func synchronizeSteps() async {
    guard configuration.durability == .full, let logCopier,
      logCopier.unsyncedBytes >= configuration.unsyncedBytesMax
    else { return }
    await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
      syncQueue.async { [self] in
        let bytes = logCopier.unsyncedBytes
        files.synchronizeLog()
        logCopier.noteSynced(bytes)
        continuation.resume()
      }
    }
  }
}
