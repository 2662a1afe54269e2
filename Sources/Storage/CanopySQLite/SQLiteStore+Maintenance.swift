internal import CanopyEngine
internal import CanopyRows
public import CanopyTree
internal import Foundation
internal import GRDB

extension SQLiteStore {
  /// Replaces the node at a path in one transaction, whatever its size.
  ///
  /// The journal is empty afterwards, so no client can resume from an earlier commit.
  ///
  /// - Parameters:
  ///   - now: the present time in milliseconds since 1970, before which a later restore does not take the new tree; nil if
  ///     it is unknown.
  ///   - progress: receives the number of rows stored so far.
  public func replace(
    _ path: Path, with node: Node, at now: Int64? = nil,
    progress: @escaping @Sendable (Int) -> Void
  ) async throws {
    let state = try await load(keeping: IndexPlan())
    var tree = state.tree
    var locations = LocationSet()
    for assignment in tree.apply([Assignment(path, node)]) { locations.insert(assignment.location) }
    try await begin(
      state, tree.root, replacing: locations, at: state.sequence + 1, time: now, progress)
  }

  /// Makes a tree the checkpoint of an empty journal, whose first commit will be the one after `sequence`.
  ///
  /// - Parameters:
  ///   - state: the contents of the folder.
  ///   - root: the new tree.
  ///   - replaced: the locations at which `root` differs from the tree of `state`.
  ///   - now: the present time in milliseconds since 1970; nil for the time at which the store was opened.
  func begin(
    _ state: JournalState, _ root: Node, replacing replaced: LocationSet, at sequence: Int64,
    time now: Int64? = nil, _ progress: @escaping @Sendable (Int) -> Void
  ) async throws {
    // No commit was made since the folder was opened, so the time of the opening serves as well.
    let now = now ?? configuration.currentTime
    try await writeDurably { [max = configuration.checkpointBatchLocations] db, tail in
      var rows = 0
      var table = LeafTable(db)
      func write(_ locations: LocationSet) throws {
        var fold = Fold(root: root, locations: locations.sorted)
        var budget = SQLiteStore.replacingBudget
        while try !fold.step(&table, &budget) {
          rows += SQLiteStore.replacingRows
          progress(rows)
          budget = SQLiteStore.replacingBudget
        }
      }
      var folded = state.checkpoint
      while folded < state.sequence {
        var batch = CheckpointBatch(after: folded, through: state.sequence, locationsMax: max)
        while !batch.isFull { batch.add(try CheckpointBatch.read(db, batch.nextCommits)) }
        try write(batch.locations)
        folded = batch.sequence
      }
      try write(replaced)
      var checksum = try CommitRow.last(db).checksum
      try db.execute(sql: "DELETE FROM commits")
      try table.finish { meta in
        checksum.add(sequence, meta.leaves)
        if let time = state.lastTime { meta.noteKeyTime(time) }
        meta[.checkpoint] = sequence
        meta[.base] = sequence
        meta.baseChecksum = checksum
        if let now { meta.noteBaseTime(now) }
        if meta.needsNewNumbers { meta.needsNewNumbers = false }
      }
      tail.sequence = sequence
      tail.checksum = checksum
    }
  }

  /// The number of rows after which a replacement reports its progress.
  private static let replacingRows = 10_000

  /// A budget of that many rows.
  private static var replacingBudget: StepBudget {
    StepBudget(
      StepBudget.Limits(rows: replacingRows, bytes: .max, seconds: .infinity, uptime: { 0 }))
  }

  /// Returns one sentence for each problem of the files, the checkpoint or the journal; empty if there is none. O(size).
  ///
  /// - Parameter now: the time in milliseconds since 1970, after which no login can be; nil to check no login.
  public func problems(at now: Int64? = nil) async throws -> [String] {
    do {
      return try await pool.read { [losses, folder, tail = foundTail?.tail] db in
        var problems = try SQLiteStore.rowProblems(db, folder, losses, tail)
        if problems.isEmpty, let now, try Meta.read(db).hasFutureLogin(at: now / 1_000) {
          problems.append(
            "the time of the latest login of a deleted account is more than a day in the future, so it was altered on the "
              + "disk, or the clock was wrong: \(StoreError.waysOut)")
        }
        if problems.isEmpty {
          _ = try SQLiteStore.readLeaves(db)
          try SQLiteStore.forEachCommit(db, after: Meta.read(db)[.checkpoint]) { _ in }
        }
        return problems
      }
    } catch {
      return [try sentence(of: error)]
    }
  }

  /// Returns the problems like `problems`, but without building the tree, which takes O(1) memory. Blocks the caller's
  /// thread.
  ///
  /// - Parameter goesOn: called every few milliseconds. If it returns false, the work ends with a problem.
  func problemsOnThisThread(_ goesOn: () -> Bool) -> [String] {
    do {
      return try pool.read { db in
        try StatementWatch.run(on: db, goesOn) {
          try SQLiteStore.rowProblems(db, folder, losses, foundTail?.tail)
        }
      }
    } catch {
      return [(try? sentence(of: error)) ?? "\(error)"]
    }
  }

  /// Returns the sentence of an error of reading a damaged database.
  ///
  /// - Throws: any other error.
  private func sentence(of error: any Error) throws -> String {
    switch error {
    case let error as StoreError: error.sentence
    case let error as DatabaseError:
      StoreError.reading(folder + "/canopy.sqlite", error).sentence
    default: throw error
    }
  }

  /// Returns the problems that reading each row finds.
  static func rowProblems(
    _ db: Database, _ folder: String, _ losses: [String], _ tail: Tail?
  ) throws -> [String] {
    var problems = try losses + integrityProblems(db, folder + "/canopy.sqlite")
    guard problems.isEmpty else { return problems }
    let meta = try Meta.read(db)
    guard try Schema.checksum(db).stored == meta[.schema] else {
      throw StoreError.alteredDefinition(in: folder + "/canopy.sqlite")
    }
    try SequenceRange.check(db)
    for table in SealedTable.allCases { problems += try table.problems(db) }
    problems += try SQLiteStore.journalProblems(db, meta)
    problems += try SQLiteStore.disconnectProblems(db)
    if let error = try Opening.wrongTime(in: folder, db, tail) { problems.append(error.sentence) }
    problems += try RowCheck.problems(db)
    try SQLiteStore.forEachClientWrite(db) { _ = try $0.write() }
    return problems
  }

  /// Returns the problems that SQLite finds. A page that SQLite cannot read ends the check, and the lines before it say which
  /// page that is.
  private static func integrityProblems(_ db: Database, _ path: String) throws -> [String] {
    var problems: [String] = []
    do {
      let lines = try String.fetchCursor(db, sql: "PRAGMA integrity_check")
      while let line = try lines.next() {
        if !line.hasSameBytes(as: "ok") { problems.append(line) }
      }
      return problems
    } catch let error as DatabaseError where error.resultCode == .SQLITE_CORRUPT {
      let reason = problems.first ?? error.message ?? "malformed"
      let text = reason.utf8.map { $0 == UInt8(ascii: "\n") ? UInt8(ascii: " ") : $0 }
      let problem = String(decoding: text, as: UTF8.self)
      return [StoreError.damagedPages(of: path, problem).sentence]
    }
  }

  private static func journalProblems(_ db: Database, _ meta: Meta) throws -> [String] {
    var problems: [String] = []
    let range = try Row.fetchOne(
      db, sql: "SELECT min(sequence), max(sequence), count(*) FROM commits")
    if let range, let first: Int64 = range[0], let last: Int64 = range[1] {
      if last - first + 1 != range[2] { problems.append("the journal has gaps") }
      if first > meta[.checkpoint] + 1 {
        problems.append("commits between the checkpoint and the journal are missing")
      } else if first != meta[.base] + 1 {
        problems.append("the first commits of the journal are missing")
      }
      if last < meta[.checkpoint] { problems.append("the journal ends before the checkpoint") }
    } else if meta[.base] != meta[.checkpoint] {
      problems.append("the commits up to the checkpoint are missing")
    }
    var last: (sequence: Int64, checksum: Checksum) = (meta[.base], meta.baseChecksum)
    let rows = try Row.fetchCursor(
      db, sql: "SELECT \(CommitRow.columns) FROM commits ORDER BY sequence")
    while let row = try rows.next() {
      // After a gap, which is reported above, the next commit has no predecessor to check against.
      let isNext = row.number(0) == last.sequence + 1
      let previous = last.checksum
      last = (row.number(0) ?? last.sequence + 1, Checksum(stored: row.number(4) ?? 0))
      do {
        if isNext { _ = try CommitRow.check(row, after: previous) }
        _ = try CommitRow.commitAndImage(row)
      } catch {
        let damage = (error as? StoreError).map {
          StoreError.damagedCommit(last.sequence, checkpoint: meta[.checkpoint], $0)
        }
        problems.append(damage?.sentence ?? "\(error)")
      }
    }
    return problems
  }
}

extension Checksum {
  /// Adds the number and the rows of a checkpoint with which a journal begins. So the chains of two folders differ if
  /// their trees do, though both begin with an import.
  mutating func add(_ sequence: Int64, _ leaves: LeafSums) {
    add(sequence)
    add(leaves.count)
    add(Int64(bitPattern: leaves.sum))
  }
}
