internal import CanopyRows
public import CanopyTree
internal import Foundation
internal import GRDB
internal import Synchronization

extension SQLiteStore {
  /// Folds the commits up to `sequence` into the leaves.
  ///
  /// Runs in steps (see `step`), each a transaction of its own. Appends go on between the steps. A crash between two
  /// steps leaves rows of different ages. Loading then applies all commits since the last complete checkpoint. They
  /// are absolute, so the result is correct.
  ///
  /// The locations come from the journal, in batches. To remember them while commits are made would take more memory
  /// than small posts do. After each batch, the number of the checkpoint is that of the batch's last commit. At that
  /// point each location of the batch has its value in `root`, which may be newer than the commit. No row is older
  /// than the commit, and applying the commits after it corrects the newer rows.
  ///
  /// If a commit was altered on the disk, its locations are not known. The checkpoint writes the whole tree then, so that no
  /// value is lost, and throws at its end.
  ///
  /// - Throws: `CancellationError` between two steps, if the task is cancelled; `StoreError.damaged` for an altered commit,
  ///   and without a change for a missing one.
  public func checkpoint(
    _ root: Node, through sequence: Int64, resting rest: @Sendable () async throws -> Void
  ) async throws {
    let lostBefore = lostSteps.load(ordering: .relaxed)
    var folded = try await pool.read { try SQLiteStore.checkpointSequence($0) }
    var altered: Int64?
    repeat {
      let batch = try await readBatch(after: folded, through: sequence, resting: rest)
      try await write(
        Fold(root: root, locations: batch.locations.sorted), relyingOnStepsSince: lostBefore,
        resting: rest)
      let (end, time) = (batch.sequence, batch.latestTime)
      try await step(relyingOnStepsSince: lostBefore) { db, _ in
        var meta = try Meta.read(db)
        meta[.checkpoint] = end
        meta.noteKeyTime(time)
        try meta.write(db)
      }
      folded = end
      altered = altered ?? batch.altered
    } while folded < sequence
    if let altered {
      throw StoreError.damagedCommit(
        altered, checkpoint: folded,
        StoreError.altered("commit \(altered), or the one before it,"))
    }
    try await forgetClientWrites(resting: rest)
    try await dropCommits(upTo: sequence, relyingOnStepsSince: lostBefore, resting: rest)
  }

  /// Reads the next commits without their values.
  private func readBatch(
    after first: Int64, through last: Int64, resting rest: @Sendable () async throws -> Void
  ) async throws -> CheckpointBatch {
    var batch = CheckpointBatch(
      after: first, through: last, locationsMax: configuration.checkpointBatchLocations)
    while !batch.isFull {
      let next = batch.nextCommits
      // Added on this side: a batch that went to the reader's queue and back would be copied by each change.
      batch.add(try await pool.read { try CheckpointBatch.read($0, next) })
      try await rest()
    }
    return batch
  }

  /// Writes the rows of a fold, step by step.
  func write(
    _ whole: Fold, relyingOnStepsSince lostSteps: Int? = nil,
    resting rest: @Sendable () async throws -> Void
  ) async throws {
    var fold = whole
    var isDone = false
    while !isDone {
      (fold, isDone) = try await step(relyingOnStepsSince: lostSteps) { [fold] db, budget in
        var fold = fold
        var table = LeafTable(db)
        let isDone = try fold.step(&table, &budget)
        try table.finish()
        return (fold, isDone)
      }
      try await rest()
    }
  }
}
