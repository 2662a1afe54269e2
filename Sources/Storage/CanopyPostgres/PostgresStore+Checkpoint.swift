#if PostgreSQL
  internal import CanopyEngine
  internal import CanopyRows
  public import CanopyTree
  internal import Logging

  /// Checkpoints. One node at a time folds: the one that the row in `checkpoints` names.
  extension PostgresStore {
    /// Folds the commits up to `sequence` into the leaves, as `SQLiteStore` does.
    ///
    /// Each step is a transaction that locks the row in `checkpoints` and goes on only if it still names this node. Another node
    /// may fold when the lease has run out. It must have a tree that is at least as new, so that no row becomes older.
    /// Returns at once if another node folds, or has folded a newer tree.
    ///
    /// - Throws: `CancellationError` between two steps, if the task is cancelled.
    public func checkpoint(
      _ root: Node, through sequence: Int64, resting rest: @Sendable () async throws -> Void
    ) async throws {
      guard let start = try await beginFolding(through: sequence) else { return }
      do {
        try await fold(root, after: start, through: sequence, resting: rest)
        try await step { row, _, _ in row.folder = nil }
      } catch is FoldingEnded {
        configuration.logger.notice("another node has taken over the checkpoint")
      } catch {
        // Otherwise other nodes would wait for the end of the lease.
        try? await step { row, _, _ in row.folder = nil }
        throw error
      }
    }

    /// Another node folds.
    private struct FoldingEnded: Error {}

    private func fold(
      _ root: Node, after start: Int64, through sequence: Int64,
      resting rest: @Sendable () async throws -> Void
    ) async throws {
      var folded = start
      while folded < sequence {
        var batch = CheckpointBatch(
          after: folded, through: sequence, locationsMax: configuration.checkpointBatchLocations)
        while !batch.isFull {
          batch.add(try await readLocations(batch.nextCommits))
          try await rest()
        }
        try await write(Fold(root: root, locations: batch.locations.sorted), resting: rest)
        let end = batch.sequence
        try await step { row, _, _ in row.sequence = end }
        folded = end
      }
      try await forgetClientWrites(resting: rest)
      try await dropCommits(upTo: sequence, resting: rest)
    }

    /// Takes the lease, unless another node has it. Returns the number of the present checkpoint; nil if this node must not
    /// fold.
    func beginFolding(through sequence: Int64) async throws -> Int64? {
      let lease = leaseMilliseconds
      return try await lanes.run { [namespace, node, run] link in
        var row = try CheckpointRow(link.begin([CheckpointRow.query(namespace, locking: true)])[0])
        let isOwn = row.folder.map { $0.node == node && $0.run == run } ?? true
        guard isOwn || row.isFree, row.rootSequence <= sequence, row.sequence <= sequence else {
          try link.rollBack()
          return nil
        }
        row.folder = (node, run)
        row.rootSequence = sequence
        _ = try link.finish([row.update(namespace, leaseMilliseconds: lease)])
        return row.sequence
      }
    }

    private var leaseMilliseconds: Int64 {
      Int64(max(1, min(configuration.leaseSeconds * 2_000, 1e12)))
    }

    /// Runs one step. It does not wait for the standby: a later durable transaction comes after it in the log of the database.
    ///
    /// - Throws: `FoldingEnded` if another node folds.
    func step<R: Sendable>(
      _ body: @escaping @Sendable (inout CheckpointRow, inout PostgresLeaves, Link) throws -> R
    ) async throws -> R {
      let lease = leaseMilliseconds
      let result = try await lanes.run { [namespace, node, run] link in
        let begun = try link.begin([
          Query("SET LOCAL synchronous_commit = off"),
          CheckpointRow.query(namespace, locking: true),
        ])
        var row = try CheckpointRow(begun[1])
        guard let folder = row.folder, folder.node == node, folder.run == run else {
          throw FoldingEnded()
        }
        var table = PostgresLeaves(link, namespace, row.leaves)
        let result = try body(&row, &table, link)
        let changes = table.takeChanges()
        row.leaves = table.sums
        _ = try link.finish(changes + [row.update(namespace, leaseMilliseconds: lease)])
        return result
      }
      try await configuration.afterStep()
      return result
    }

    var stepLimits: StepBudget.Limits {
      StepBudget.Limits(
        rows: configuration.checkpointStepRows, bytes: configuration.checkpointStepBytes,
        seconds: max(0.001, configuration.replySeconds / 10), uptime: configuration.uptime)
    }

    /// Writes the rows of a fold, step by step.
    func write(_ whole: Fold, resting rest: @Sendable () async throws -> Void) async throws {
      var fold = whole
      var isDone = false
      while !isDone {
        (fold, isDone) = try await step { [fold, stepLimits] _, table, _ in
          var fold = fold
          var budget = StepBudget(stepLimits)
          let isDone = try fold.step(&table, &budget)
          return (fold, isDone)
        }
        try Task.checkCancellation()
        try await rest()
      }
    }

    /// Reads commits without their values: all of the range, or the first ones until there are enough.
    private func readLocations(
      _ range: ClosedRange<Int64>
    ) async throws -> CheckpointBatch.Reading {
      try await lanes.run { [namespace] link in
        var reading = CheckpointBatch.Reading()
        try link.forEachRow(
          Query(
            """
            SELECT sequence, time, body FROM canopy.commits
            WHERE namespace = $1 AND sequence BETWEEN $2 AND $3 ORDER BY sequence
            """, .bytes(namespace), .int(range.lowerBound), .int(range.upperBound))
        ) { rows in
          guard !reading.isFull else { return }
          let sequence = try rows.int(0, 0)
          let next = range.lowerBound + Int64(reading.entries.count)
          guard sequence == next, let body = rows.bytes(0, 2) else {
            throw PostgresError.missing(commit: next)
          }
          do throws(TreeError) {
            let locations = try AssignmentCodec.decodeLocations(body)
            reading.append(
              CheckpointBatch.Entry(sequence: sequence, time: 0, locations: locations))
          } catch {
            throw PostgresError.unreadable("commit \(sequence)", error.sentence)
          }
        }
        guard reading.isFull || reading.entries.count == range.count else {
          throw PostgresError.missing(commit: range.lowerBound + Int64(reading.entries.count))
        }
        return reading
      }
    }
  }
#endif
