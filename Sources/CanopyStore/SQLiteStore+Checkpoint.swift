public import CanopyTree
internal import Foundation
internal import GRDB

extension SQLiteStore {
  /// Folds the commits up to `sequence` into the leaves.
  ///
  /// Runs in steps of a few hundred rows, each a transaction of its own, between which appends go on.
  /// A step need not be on the disk when it ends (the next append puts it there, in order), so steps
  /// wait for no disk. When the process dies between two steps, the leaves are of mixed age; loading
  /// applies the commits since the last whole checkpoint, which are absolute, and that mends it.
  ///
  /// What was written is read from the journal, so that nothing has to be kept in memory for this while
  /// commits are made: their locations would take more of it than small posts. Nor is it all read at
  /// once: the commits are folded a portion at a time, and with each portion the checkpoint counts as
  /// one through its last commit. Every place that the portion wrote then has its value of `root`, which
  /// may be newer than that commit, and every other place has the value that it had, so the leaves are
  /// of mixed age still: nothing in them is older than the portion's last commit, and the commits after
  /// it mend the rest.
  public func checkpoint(
    _ root: Node, through sequence: Int64, resting rest: @Sendable () async throws -> Void
  ) async throws {
    var folded = try await pool.read { try SQLiteStore.checkpointSequence($0) }
    repeat {
      let (locations, end) = try await readPortion(after: folded, through: sequence, resting: rest)
      try await write(Fold(root: root, locations: locations), resting: rest)
      try await withoutSync { db in
        try db.execute(
          sql: "UPDATE meta SET value = ? WHERE name = 'checkpoint'", arguments: [end])
      }
      try await configuration.afterStep()
      folded = end
    } while folded < sequence
    try await dropCommits(upTo: sequence, resting: rest)
  }

  /// Reads what the next commits wrote: the locations in order, and the last of the commits.
  private func readPortion(
    after first: Int64, through last: Int64, resting rest: @Sendable () async throws -> Void
  ) async throws -> ([Location], end: Int64) {
    var portion = Portion(
      after: first, through: last, locationsMax: configuration.checkpointPortionLocations)
    while !portion.isWhole {
      let next = portion.nextCommits
      // Added here: what goes to another queue and back would be copied each time that it changes.
      portion.add(try await pool.read { try Portion.read($0, next) })
      try await rest()
    }
    return (portion.locations.sorted, portion.sequence)
  }

  /// Writes the rows of some locations, step by step.
  private func write(_ whole: Fold, resting rest: @Sendable () async throws -> Void) async throws {
    var fold = whole
    var isDone = false
    while !isDone {
      let step = fold
      (fold, isDone) = try await withoutSync { [rows = configuration.checkpointStepRows] db in
        var fold = step
        let isDone = try fold.step(db, rows: rows)
        return (fold, isDone)
      }
      try await configuration.afterStep()
      try await rest()
    }
  }

  /// A transaction that does not wait for the disk. Its effect is durable, and in order, with the next
  /// append: both are in the same write-ahead log.
  private func withoutSync<R: Sendable>(
    _ body: @escaping @Sendable (Database) throws -> R
  ) async throws -> R {
    try await pool.writeWithoutTransaction { [pragma = configuration.durability.pragma] db in
      try db.execute(sql: "PRAGMA synchronous = NORMAL")
      let result = Result {
        var result: R?
        try db.inTransaction(.immediate) {
          result = try body(db)
          return .commit
        }
        return result
      }
      try db.execute(sql: "PRAGMA synchronous = \(pragma)")
      guard let value = try result.get() else { throw CancellationError() }
      return value
    }
  }

  /// Drops commits that are in the checkpoint and that nobody is to resume from any more: from the
  /// oldest on, until one is to stay.
  private func dropCommits(
    upTo sequence: Int64, resting rest: @Sendable () async throws -> Void
  ) async throws {
    let kept = configuration.retainedCommits
    let span = configuration.retainedMilliseconds
    let end = try await pool.read { db -> Int64 in
      let last = try Row.fetchOne(
        db, sql: "SELECT sequence, time FROM commits ORDER BY sequence DESC LIMIT 1")
      guard let last else { return 0 }
      let (lastSequence, lastTime): (Int64, Int64) = (last[0], last[1])
      let first = try Int64.fetchOne(
        db,
        sql:
          "SELECT sequence FROM commits WHERE sequence > ? AND time >= ? ORDER BY sequence LIMIT 1",
        arguments: [max(0, lastSequence - kept), lastTime - min(span, lastTime)])
      // The last one stays in any case: the next keys are to sort after its time.
      return min(first ?? lastSequence, lastSequence, sequence + 1)
    }
    _ = try await withoutSync { db in
      let last = try Int64.fetchOne(
        db, sql: "SELECT time FROM commits ORDER BY sequence DESC LIMIT 1")
      if let last { try SQLiteStore.forgetClientWrites(db, at: last) }
    }
    var dropped = 1
    while dropped > 0 {
      dropped = try await withoutSync { db in
        try db.execute(
          sql: """
            DELETE FROM commits WHERE sequence IN (
              SELECT sequence FROM commits WHERE sequence < ? ORDER BY sequence LIMIT 1000)
            """, arguments: [end])
        return db.changesCount
      }
      try await rest()
    }
  }
}
