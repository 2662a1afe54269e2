public import CanopyEngine
public import CanopyTree
internal import Foundation
internal import GRDB

extension SQLiteStore: Journal {
  /// Reads the checkpoint in one ordered scan, and applies the commits since as it reads them. O(size of
  /// the tree, and of the commits since), in the memory of the tree and one commit.
  ///
  /// - Throws: `StoreError.damaged`, naming what cannot be read.
  public func load(keeping indexes: IndexPlan) async throws -> JournalState {
    do {
      return try await pool.read { db in
        let checkpoint = try SQLiteStore.checkpointSequence(db)
        var tree = Tree(root: try SQLiteStore.readLeaves(db, keeping: indexes), indexPlan: indexes)
        var latestTime = try SQLiteStore.keyTime(db)
        let sequence = try SQLiteStore.forEachCommit(db, after: checkpoint) {
          tree.apply($0.assignments)
          latestTime = max(latestTime ?? 0, $0.time)
        }
        return JournalState(
          tree: tree, sequence: sequence, checkpoint: checkpoint,
          lastTime: latestTime,
          clientWrites: try SQLiteStore.readClientWrites(db))
      }
    } catch let error as DatabaseError {
      throw StoreError.opening(folder + "/canopy.sqlite", error)
    }
  }

  /// Appends commits in one transaction, which the disk has (`full`) when this returns.
  ///
  /// One row a commit. The order of the rows is checked, so that an append whose outcome was
  /// uncertain is found out by the next.
  ///
  /// Keeps the caller's thread until then: the engine has one for this, and handing on to another and
  /// back takes as long as a quick disk does.
  public func append(_ commits: [Commit], after last: Int64) async throws {
    try appendNow(commits, after: last)
  }

  private func appendNow(_ commits: [Commit], after last: Int64) throws {
    let missed: [Commit]? = try writeDurably { db -> [Commit]? in
      let present = try SQLiteStore.lastSequence(db)
      guard present == last else {
        return try SQLiteStore.readMissed(db, after: last)
      }
      let insert = try ByteStatement(
        db, "INSERT INTO commits(sequence, time, body, before) VALUES (?, ?, ?, ?)")
      var body = JSONOutput(capacity: 4096)
      var image = JSONOutput(capacity: 4096)
      for commit in commits {
        body.removeAll()
        AssignmentCodec.encode(commit.assignments, to: &body)
        let before = commit.beforeImage
        let hasImage =
          before.map { BeforeImageCodec.encode($0, of: commit.assignments, &image) } ?? false
        try insert.bind(commit.sequence, at: 1)
        try insert.bind(commit.time, at: 2)
        try body.withBytes { body in
          try image.withBytes { image in
            try insert.bind(body, at: 3)
            if hasImage { try insert.bind(image, at: 4) } else { try insert.bindNull(at: 4) }
            try insert.run()
          }
        }
        if let id = commit.settles { try SQLiteStore.deleteDisconnectWrite(db, id) }
        if let write = commit.clientWrite { try SQLiteStore.remember(write, db) }
        if let time = commit.keyTime { try SQLiteStore.noteKeyTime(db, time) }
      }
      return nil
    }
    if let missed { throw JournalError.conflict(missed: missed) }
  }

  /// Commits of a part of the journal: see `Journal`.
  public func commits(after first: Int64, through last: Int64) async throws -> [Commit] {
    try await pool.read { db in
      let rows = try Row.fetchCursor(
        db,
        sql: """
          SELECT sequence, time, body, before FROM commits
          WHERE sequence > ? AND sequence <= ? ORDER BY sequence
          """, arguments: [first, last])
      var commits: [Commit] = []
      while let row = try rows.next() { commits.append(try SQLiteStore.readCommitAndImage(row)) }
      return commits
    }
  }

  static func checkpointSequence(_ db: Database) throws -> Int64 {
    let sequence = try Int64.fetchOne(
      db.cachedStatement(sql: "SELECT value FROM meta WHERE name = 'checkpoint'"))
    guard let sequence else {
      throw StoreError.damaged(
        "the checkpoint's number is missing: restore the data folder from a backup")
    }
    return sequence
  }

  /// Returns the greatest time of any commit in the checkpoint and in any key that sorts after those of its
  /// commit's time, in milliseconds since 1970; nil if there is none.
  static func keyTime(_ db: Database) throws -> Int64? {
    try Int64.fetchOne(
      db.cachedStatement(sql: "SELECT value FROM meta WHERE name = 'key_time'"))
  }

  /// Keeps a time as the greatest one in any key, if it is.
  static func noteKeyTime(_ db: Database, _ time: Int64) throws {
    try db.cachedStatement(
      sql: """
        INSERT INTO meta VALUES ('key_time', ?) ON CONFLICT DO UPDATE SET value = excluded.value
        WHERE excluded.value > value
        """
    ).execute(arguments: [time])
  }

  static func lastSequence(_ db: Database) throws -> Int64 {
    if let last = try Int64.fetchOne(
      db.cachedStatement(sql: "SELECT max(sequence) FROM commits"))
    {
      return last
    }
    return try checkpointSequence(db)
  }

  /// Commits that another writer appended, with their origins.
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

  /// Reads the commits after one, in order, without their origins and before-images; each is handed on
  /// before the next one is read.
  ///
  /// - Returns: the number of the last.
  /// - Throws: `StoreError.damaged` at the first that is missing or cannot be read.
  @discardableResult
  static func forEachCommit(
    _ db: Database, after sequence: Int64, _ body: (Commit) throws -> Void
  ) throws -> Int64 {
    var last = sequence
    let rows = try Row.fetchCursor(
      db, sql: "SELECT sequence, time, body FROM commits WHERE sequence > ? ORDER BY sequence",
      arguments: [sequence])
    while let row = try rows.next() {
      let commit = try readCommit(row)
      guard commit.sequence == last + 1 else { throw StoreError.missing(commit: last + 1) }
      last = commit.sequence
      try body(commit)
    }
    return last
  }

  static func readCommit(_ row: Row) throws -> Commit {
    let sequence: Int64 = row[0]
    do {
      let assignments = try row.withUnsafeData(atIndex: 2) { data in
        try (data ?? Data()).withUnsafeBytes { try AssignmentCodec.decode($0) }
      }
      return Commit(sequence: sequence, time: row[1], assignments: assignments)
    } catch {
      throw StoreError.damagedRow("commit \(sequence)", error)
    }
  }

  /// A commit with its before-image, which stands behind the other columns.
  static func readCommitAndImage(_ row: Row) throws -> Commit {
    var commit = try readCommit(row)
    do {
      commit.beforeImage = try row.withUnsafeData(atIndex: 3) { data in
        try data.map { data in
          try data.withUnsafeBytes { try BeforeImageCodec.decode($0, of: commit.assignments) }
        }
      }
    } catch {
      throw StoreError.damagedRow("the before-image of commit \(commit.sequence)", error)
    }
    return commit
  }

  static func readLeaves(
    _ db: Database, keeping indexes: IndexPlan = IndexPlan()
  ) throws -> Node {
    let pipe = RowPipe(indexes: indexes)
    let read = Result {
      let rows = try ByteStatement(db, "SELECT path, value FROM leaves ORDER BY path")
      defer { rows.end() }
      while try rows.next() {
        let location = rows.text(0)
        guard try !isPriorityOfNothing(db, location) else { continue }
        guard pipe.add(location, rows.text(1)) else { break }
      }
    }
    // Ended in any case. Of rows that were read in part it may complain, which is not what went wrong.
    let built = Result { try pipe.finish() }
    do {
      try read.get()
      return try built.get()
    } catch let error as TreeError {
      throw StoreError.damagedRow("a row of the checkpoint", error.sentence)
    }
  }

  /// Whether this is the location of a branch's priority and the branch has no other row.
  ///
  /// A checkpoint that ended between two steps can leave that: it had removed the branch's last
  /// children and not yet written the next ones. Those are in commits that it was folding, and the
  /// priority is with them (see `Commit.assignments`).
  private static func isPriorityOfNothing(
    _ db: Database, _ location: UnsafeRawBufferPointer
  ) throws -> Bool {
    // Of most rows the last byte says that they are none.
    guard location.last == UInt8(ascii: "y"), location.suffix(9).elementsEqual(".priority".utf8)
    else { return false }
    let branch = try Location(String(decoding: location, as: UTF8.self)).path
    return try RowsBelow(branch).isEmpty(db, butPriorities: true)
  }
}
