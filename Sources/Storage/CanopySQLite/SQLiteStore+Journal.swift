public import CanopyEngine
internal import CanopyRows
public import CanopyTree
internal import Foundation
internal import GRDB
internal import Synchronization

extension SQLiteStore: Journal {
  /// Reads the checkpoint in one ordered scan, then reads and applies the later commits one by one. Then waits until all
  /// pages are checked.
  ///
  /// - Complexity: O(size of the tree and of the later commits). The memory is that of the tree and one commit.
  /// - Throws: `StoreError.damaged`, whose sentence names the damaged pages or the unreadable row.
  public func load(keeping indexes: IndexPlan) async throws -> JournalState {
    let state: Result<JournalState, any Error>
    do { state = .success(try await read(keeping: indexes)) } catch { state = .failure(error) }
    try await waitForPageCheck()
    return try state.get()
  }

  private func read(keeping indexes: IndexPlan) async throws -> JournalState {
    do {
      return try await pool.read { [configuration] db in
        let meta = try Meta.read(db)
        for table in SealedTable.allCases {
          // The rows of this table are checked when they are read below. There may be many that are not read.
          let problems =
            try table == .clientWrites ? table.structureProblems(db) : table.problems(db)
          for problem in problems { throw StoreError.damaged(problem) }
        }
        let checkpoint = meta[.checkpoint]
        var tree = Tree(root: try SQLiteStore.readLeaves(db, keeping: indexes), indexPlan: indexes)
        var latestTime = meta.keyTime
        let sequence = try SQLiteStore.forEachCommit(db, after: checkpoint) {
          tree.apply($0.assignments)
          latestTime = max(latestTime ?? 0, $0.time)
        }
        // No append would succeed behind a journal that ends before the checkpoint.
        let last = try CommitRow.last(db).sequence
        guard last == sequence else { throw StoreError.missing(commit: last + 1) }
        return JournalState(
          tree: tree, sequence: sequence, checkpoint: checkpoint,
          lastTime: latestTime,
          clientWrites: try SQLiteStore.readClientWrites(
            db, rowsMax: configuration.clientWritesMax))
      }
    } catch let error as DatabaseError {
      throw StoreError.opening(folder + "/canopy.sqlite", error)
    }
  }

  /// Appends commits in one transaction. With `Durability.full`, the disk has them when this returns.
  ///
  /// Blocks the caller's thread. The engine has a thread for this. To pass the work to another thread and back would take
  /// as long as a synchronization of a fast disk.
  ///
  /// Each commit is one row, whose text has been proven to read back. The numbers of the rows must be consecutive, so the
  /// next append finds out whether an earlier one with an uncertain outcome was stored.
  ///
  /// - Throws: `JournalError.conflict`, `StoreError`, or an error of SQLite. See `Journal`.
  public func append(_ commits: [Commit], after last: Int64) throws {
    appendFoundFullDisk.store(false, ordering: .relaxed)
    do {
      try pool.writeWithoutTransaction { db in
        var tail = try notingErrors { try beginDurably(db) }
        var sizes: [(sequence: Int64, bytes: Int)] = []
        try notingErrors {
          try db.inTransaction(.immediate) {
            var (present, checksum) = try CommitRow.last(db, known: tail)
            guard present == last else {
              throw JournalError.conflict(missed: try SQLiteStore.readMissed(db, after: last))
            }
            let insert = try ByteStatement(
              db, "INSERT INTO commits(\(CommitRow.columns)) VALUES (?, ?, ?, ?, ?)")
            var scratch = JSONOutput(capacity: 4096)
            for commit in commits {
              try insert.bind(commit.sequence, at: 1)
              try insert.bind(commit.time, at: 2)
              try commit.storedText(scratch: &scratch).withBytes { body, image in
                try insert.bind(body, at: 3)
                if let image { try insert.bind(image, at: 4) } else { try insert.bindNull(at: 4) }
                checksum = .commit(after: checksum, commit.sequence, commit.time, body, image)
                try insert.bind(checksum.stored, at: 5)
                try insert.run()
                sizes.append((commit.sequence, body.count + (image?.count ?? 0)))
              }
              for id in commit.completedDisconnectWrites {
                try SQLiteStore.deleteDisconnectWrite(db, id)
              }
              if let write = commit.clientWrite { try SQLiteStore.remember(write, db) }
              if let time = commit.keyTime {
                var meta = try Meta.read(db)
                meta.noteKeyTime(time)
                try meta.write(db)
              }
              tail.sequence = commit.sequence
              tail.time = max(tail.time, commit.time, commit.keyTime ?? 0)
            }
            tail.checksum = checksum
            return .commit
          }
        }
        endDurably(with: tail)
        appendedBytes.withLock { appended in
          for (sequence, bytes) in sizes { appended.note(sequence, bytes: bytes) }
        }
      }
    } catch let error as DatabaseError where error.resultCode == .SQLITE_FULL {
      appendFoundFullDisk.store(true, ordering: .relaxed)
      throw error
    }
  }

  /// Returns the commits after `last`, and makes that result final. See `Journal`. Blocks the caller's thread.
  ///
  /// A commit whose synchronization failed can be in the write-ahead log, where this process does not see it but a
  /// recovery would find it. The transaction of this method overwrites it there. So either this process and a recovery
  /// both see the commit, or neither does.
  ///
  /// If the disk has no room for that transaction, the result is still known after an append that found no room either:
  /// SQLite reports that before the last frame of a transaction is in the log. After any other failure of the append, such
  /// as a failed synchronization, its frames may be in the log, so this method throws until there is room.
  ///
  /// - Throws: `StoreError`, or an error of SQLite.
  public func resolveAppend(after last: Int64) throws -> [Commit] {
    do {
      return try writeDurably { db, _ in
        try db.execute(
          sql: "INSERT OR REPLACE INTO meta(name, value) VALUES ('settled', ?)", arguments: [last])
        return try SQLiteStore.readMissed(db, after: last)
      }
    } catch let error as DatabaseError
      where error.resultCode == .SQLITE_FULL && appendFoundFullDisk.load(ordering: .relaxed)
    {
      return try pool.read { db in try SQLiteStore.readMissed(db, after: last) }
    }
  }

  static func checkpointSequence(_ db: Database) throws -> Int64 {
    try Meta.read(db)[.checkpoint]
  }

  /// Reads the commits after `sequence` with their origins.
  private static func readMissed(_ db: Database, after sequence: Int64) throws -> [Commit] {
    let writes = try readClientWrites(db, after: sequence)
    let origins = Dictionary(writes.map { ($0.sequence, $0.origin) }) { $1 }
    var commits: [Commit] = []
    try forEachCommit(db, after: sequence) { commit in
      commits.append(commit)
      commits[commits.count - 1].origin = origins[commit.sequence]
    }
    return commits
  }

  /// Reads the commits after `sequence` in order, without their origins and before-images. Passes each to `body` before
  /// it reads the next one.
  ///
  /// - Returns: the sequence number of the last commit.
  /// - Throws: `StoreError.damaged` at the first commit that is missing or unreadable.
  @discardableResult
  static func forEachCommit(
    _ db: Database, after sequence: Int64, _ body: (Commit) throws -> Void
  ) throws -> Int64 {
    var last = sequence
    let rows = try Row.fetchCursor(
      db, sql: "SELECT \(CommitRow.columns) FROM commits WHERE sequence > ? ORDER BY sequence",
      arguments: [sequence])
    var checksum: Checksum?
    while let row = try rows.next() {
      guard row[0] == last + 1 else { throw StoreError.missing(commit: last + 1) }
      checksum = try CommitRow.check(row, after: checksum ?? CommitRow.chain(db, after: last))
      last += 1
      try body(try CommitRow.commit(row))
    }
    return last
  }

  /// Reads the checkpoint in one ordered scan.
  ///
  /// - Throws: `StoreError.damaged` if a row was altered or is missing.
  static func readLeaves(
    _ db: Database, keeping indexes: IndexPlan = IndexPlan()
  ) throws -> Node {
    let expected = try Meta.read(db).leaves
    var sums = LeafSums()
    let pipe = RowPipe(indexes: indexes)
    let read = Result {
      let rows = try ByteStatement(db, "SELECT path, value, checksum FROM leaves ORDER BY path")
      defer { rows.end() }
      while try rows.next() {
        let (location, value) = (rows.text(0), rows.text(1))
        sums.add(try LeafTable.check(location, value, rows.number(2)))
        guard try !isPriorityOfNothing(db, location) else { continue }
        guard pipe.add(location, value) else { break }
      }
    }
    // Always ends the thread. If reading failed, the builder may fail as well, but the cause is the reading error.
    let built = Result { try pipe.finish() }
    do {
      try read.get()
      let root = try built.get()
      guard sums == expected else { throw StoreError.missingRows(sums, expected) }
      return root
    } catch let error as TreeError {
      throw StoreError.damagedRow("a row of the checkpoint", error.sentence)
    }
  }

  /// Whether the location is that of a branch's priority, and the branch has no other row.
  ///
  /// A checkpoint that ended between two steps can leave such a row: it had removed the last children of the branch, but
  /// not yet inserted the next ones. The commits that it was folding contain those children and the priority (see
  /// `Commit.assignments`).
  private static func isPriorityOfNothing(
    _ db: Database, _ location: UnsafeRawBufferPointer
  ) throws -> Bool {
    // For most rows, the last byte is enough to decide.
    guard location.last == UInt8(ascii: "y"), location.suffix(9).elementsEqual(".priority".utf8)
    else { return false }
    let branch = try Location(String(decoding: location, as: UTF8.self)).path
    return try RowsBelow(branch).isEmpty(db, butPriorities: true)
  }
}
