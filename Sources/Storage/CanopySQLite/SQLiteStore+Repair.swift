internal import CanopyRows
internal import GRDB
internal import Logging
internal import Synchronization

extension SQLiteStore {
  /// Runs a part of a transaction, and notes errors of the disk, after which the log is repaired first.
  func notingErrors<R>(_ body: () throws -> R) throws -> R {
    do { return try body() } catch {
      if LogRepair.isNeeded(after: error) { files.noteError() }
      throw error
    }
  }

  /// Repairs the write-ahead log if the disk has failed since the last repair: see `LogRepair`.
  ///
  /// Call on the queue of the writing connection, outside of a transaction.
  ///
  /// - Throws: an error of SQLite, and the repair is tried again; `StoreError.damaged` if durable data is missing.
  func repairLog(_ db: Database) throws {
    guard let errors = files.unrepairedErrors, configuration.repairsLog, logCopier != nil else {
      return
    }
    let outcome = try LogRepair(db).run()
    if outcome.lostFrames > 0 { lostSteps.add(1, ordering: .relaxed) }
    // SQLite reads the log again with the first statement.
    let last = try CommitRow.last(db)
    let revision = try Meta.read(db)[.revision]
    let tail = tail.withLock { $0 }
    guard last.sequence == tail.sequence, last.checksum == tail.checksum,
      revision == tail.revision
    else {
      throw StoreError.damaged(
        "after an error of the disk, \(folder) does not contain all that was stored: stop the server, and "
          + StoreError.waysOut
      )
    }
    files.noteRepair(after: errors)
    guard errors > 0 else { return }
    configuration.logger.notice(
      "the write-ahead log was written again after an error of the disk",
      metadata: ["frames": "\(outcome.frames)", "lostFrames": "\(outcome.lostFrames)"])
  }

  /// Writes the log that an earlier process has left again: a synchronization may have failed there, which the system
  /// does not report to this process.
  ///
  /// - Throws: `StoreError`.
  func repairLeftLog() throws(StoreError) {
    do {
      try pool.writeWithoutTransaction { try repairLog($0) }
    } catch {
      throw error as? StoreError ?? .opening(folder + "/canopy.sqlite", error)
    }
  }
}
