internal import CanopyEngine
public import CanopyTree
internal import Foundation
internal import GRDB

extension SQLiteStore {
  /// The tree as of the last commit, and that commit's number. O(size). For commands that work on a
  /// folder without an engine.
  public func tree() async throws -> (root: Node, sequence: Int64) {
    let state = try await load(keeping: IndexPlan())
    return (state.tree.root, state.sequence)
  }

  /// Replaces what stands at a path, in one transaction, whatever its size.
  ///
  /// The journal begins anew after it: nothing before it can be resumed from.
  ///
  /// - Parameter progress: gets the number of rows stored so far.
  public func replace(
    _ path: Path, with node: Node, progress: @escaping @Sendable (Int) -> Void
  ) async throws {
    let state = try await load(keeping: IndexPlan())
    var tree = state.tree
    var locations = LocationSet()
    for assignment in tree.apply([Assignment(path, node)]) { locations.insert(assignment.location) }
    let (root, replaced) = (tree.root, locations)
    try await writeDurably { [max = configuration.checkpointPortionLocations] db in
      var rows = 0
      func write(_ locations: LocationSet) throws {
        var fold = Fold(root: root, locations: locations.sorted)
        var budget = SQLiteStore.replacingBudget
        while try !fold.step(db, &budget) {
          rows += SQLiteStore.replacingRows
          progress(rows)
          budget = SQLiteStore.replacingBudget
        }
      }
      var folded = state.checkpoint
      while folded < state.sequence {
        var portion = Portion(after: folded, through: state.sequence, locationsMax: max)
        while !portion.isWhole { portion.add(try Portion.read(db, portion.nextCommits)) }
        try write(portion.locations)
        folded = portion.sequence
      }
      try write(replaced)
      if let time = state.lastTime { try SQLiteStore.noteKeyTime(db, time) }
      let sequence = try SQLiteStore.lastSequence(db) + 1
      try db.execute(
        sql: "UPDATE meta SET value = ? WHERE name = 'checkpoint'", arguments: [sequence])
      try db.execute(sql: "DELETE FROM commits")
    }
  }

  /// The rows after which a replacement reports its progress.
  private static let replacingRows = 10_000

  /// The budget of the rows until then.
  private static var replacingBudget: StepBudget {
    StepBudget(
      StepBudget.Limits(rows: replacingRows, bytes: .max, seconds: .infinity, uptime: { 0 }))
  }

  /// What is wrong with the file, the checkpoint or the journal, a sentence each; empty if nothing.
  public func problems() async throws -> [String] {
    do {
      return try await pool.read { db in
        var problems = try String.fetchAll(db, sql: "PRAGMA integrity_check").filter { $0 != "ok" }
        guard problems.isEmpty else { return problems }
        let checkpoint = try SQLiteStore.checkpointSequence(db)
        problems += try SQLiteStore.journalProblems(db, checkpoint)
        problems += try SQLiteStore.disconnectProblems(db)
        problems += try RowCheck.problems(db)
        _ = try SQLiteStore.readClientWrites(db)
        if problems.isEmpty {
          _ = try SQLiteStore.readLeaves(db)
          try SQLiteStore.forEachCommit(db, after: checkpoint) { _ in }
        }
        return problems
      }
    } catch let error as StoreError {
      return [error.sentence]
    } catch let error as DatabaseError {
      return [StoreError.opening(folder + "/canopy.sqlite", error).sentence]
    }
  }

  private static func journalProblems(_ db: Database, _ checkpoint: Int64) throws -> [String] {
    var problems: [String] = []
    let range = try Row.fetchOne(
      db, sql: "SELECT min(sequence), max(sequence), count(*) FROM commits")
    if let range, let first: Int64 = range[0], let last: Int64 = range[1] {
      if last - first + 1 != range[2] { problems.append("the journal has gaps") }
      if first > checkpoint + 1 {
        problems.append("commits between the checkpoint and the journal are missing")
      }
      if last < checkpoint { problems.append("the journal ends before the checkpoint") }
    }
    let rows = try Row.fetchCursor(db, sql: "SELECT sequence, time, body, before FROM commits")
    while let row = try rows.next() {
      do { _ = try SQLiteStore.readCommitAndImage(row) } catch {
        problems.append((error as? StoreError)?.sentence ?? "\(error)")
      }
    }
    return problems
  }
}
