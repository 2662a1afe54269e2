internal import CanopyRows
internal import Foundation
internal import GRDB
internal import Synchronization

extension SQLiteStore {
  /// Runs one background step with a budget of its own. An append that arrives meanwhile waits for it.
  ///
  /// Three rules keep that wait short, whatever the sizes of the rows:
  /// - The budget bounds the work of the step.
  /// - No step begins while the write-ahead log is copied into the database file. The copier would otherwise never
  ///   catch up, and would leave many frames to the writer.
  /// - The bytes of steps are synchronized here, beside the writer. A step does not wait for the disk, so the next
  ///   append would otherwise have to synchronize the bytes of all steps since the last one.
  ///
  /// - Parameter lostSteps: the value of `lostSteps` when the earlier steps began on which this one relies; nil if it
  ///   relies on none.
  /// - Throws: `StoreError.inaccessible` if such a step was lost by an error of the disk.
  func step<R: Sendable>(
    relyingOnStepsSince lostSteps: Int? = nil,
    _ body: @escaping @Sendable (Database, inout StepBudget) throws -> R
  ) async throws -> R {
    await logCopier?.waitUntilIdle()
    let limits = StepBudget.Limits(
      rows: configuration.checkpointStepRows, bytes: configuration.checkpointStepBytes,
      seconds: configuration.checkpointStepSeconds, uptime: configuration.uptime)
    let result = try await writeInBackground { [self] db in
      guard lostSteps == nil || lostSteps == self.lostSteps.load(ordering: .relaxed) else {
        throw StoreError.inaccessible(
          "the disk has lost steps of the checkpoint of \(folder); it begins again")
      }
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
