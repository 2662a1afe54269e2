public import CanopyTree
internal import Foundation
internal import GRDB

extension SQLiteStore {
  /// Folds the commits up to `sequence` into the leaves.
  ///
  /// Runs in steps whose rows, bytes and time are bounded, each a transaction of its own, between which appends
  /// go on. A step need not be on the disk when it ends (the next append puts it there, in order), so steps
  /// wait for no disk. When the process dies between two steps, the leaves are of mixed age; loading
  /// applies the commits since the last whole checkpoint, which are absolute, and that mends it.
  ///
  /// The locations are read from the journal, so that nothing has to be kept in memory for this while
  /// commits are made: their locations would take more of it than small posts. Nor are they all read at
  /// once: the commits are folded a portion at a time, and with each portion the checkpoint counts as
  /// one through its last commit. Every place that the portion wrote then has its value of `root`, which
  /// may be newer than that commit, and every other place has the value that it had, so the leaves are
  /// of mixed age still: nothing in them is older than the portion's last commit, and the commits after
  /// it mend the rest.
  ///
  /// - Throws: `CancellationError` between two steps, if the task is cancelled.
  public func checkpoint(
    _ root: Node, through sequence: Int64, resting rest: @Sendable () async throws -> Void
  ) async throws {
    var folded = try await pool.read { try SQLiteStore.checkpointSequence($0) }
    repeat {
      let portion = try await readPortion(after: folded, through: sequence, resting: rest)
      try await write(Fold(root: root, locations: portion.locations.sorted), resting: rest)
      let (end, time) = (portion.sequence, portion.latestTime)
      try await step { db, _ in
        var meta = try Meta.read(db)
        meta[.checkpoint] = end
        meta.noteKeyTime(time)
        try meta.write(db)
      }
      folded = end
    } while folded < sequence
    try await forgetClientWrites(resting: rest)
    try await dropCommits(upTo: sequence, resting: rest)
  }

  /// Reads the next commits without their values.
  private func readPortion(
    after first: Int64, through last: Int64, resting rest: @Sendable () async throws -> Void
  ) async throws -> Portion {
    var portion = Portion(
      after: first, through: last, locationsMax: configuration.checkpointPortionLocations)
    while !portion.isWhole {
      let next = portion.nextCommits
      // Added here: a portion that goes to another queue and back would be copied each time that it changes.
      portion.add(try await pool.read { try Portion.read($0, next) })
      try await rest()
    }
    return portion
  }

  /// Writes the rows of some locations, step by step.
  private func write(_ whole: Fold, resting rest: @Sendable () async throws -> Void) async throws {
    var fold = whole
    var isDone = false
    while !isDone {
      (fold, isDone) = try await step { [fold] db, budget in
        var fold = fold
        var table = LeafTable(db)
        let isDone = try fold.step(&table, &budget)
        try table.finish()
        return (fold, isDone)
      }
      try await rest()
    }
  }

  /// Runs one background step with a budget of its own.
  func step<R: Sendable>(
    _ body: @escaping @Sendable (Database, inout StepBudget) throws -> R
  ) async throws -> R {
    let limits = StepBudget.Limits(
      rows: configuration.checkpointStepRows, bytes: configuration.checkpointStepBytes,
      seconds: configuration.checkpointStepSeconds, uptime: configuration.uptime)
    let result = try await writeInBackground { db in
      var budget = StepBudget(limits)
      return try body(db, &budget)
    }
    try await configuration.afterStep()
    return result
  }
}
