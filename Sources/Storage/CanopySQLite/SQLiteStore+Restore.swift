internal import CanopyEngine
internal import CanopyRows
internal import CanopyTree
internal import Foundation
internal import GRDB

/// The commit up to which a database is restored.
public enum RestorePoint: Equatable, Sendable {
  /// The last commit of the database.
  case last
  /// The commit with a sequence number.
  case sequence(Int64)
  /// The last commit up to a time, in milliseconds since 1970.
  case time(Int64)
}

/// The restoring of the copy of a database, which no server has used yet.
extension SQLiteStore {
  /// Replaces the journal by an empty one that starts from the tree after a commit. New commits get higher numbers.
  ///
  /// Without an older database, undoes the later commits by their before-images. With one, makes the commits of this
  /// journal again on the tree of the older database, which must be of the same history.
  ///
  /// The accounts, the sessions, the rules and the on-disconnect writes stay as they are: they have no history. Writes
  /// with `ONCE` are forgotten if their commit is undone. O(size).
  ///
  /// - Parameters:
  ///   - point: the last commit to keep.
  ///   - older: an earlier copy of the same database, which begins the tree; nil for none.
  ///   - copyTime: the time of the copy in milliseconds since 1970.
  ///   - now: the present time in milliseconds since 1970, which determines the new sequence numbers.
  /// - Returns: the number of the last commit that was kept.
  /// - Throws: `StoreError.unreachable` if the commits do not lead to the point; then nothing is changed.
  public func restore(
    to point: RestorePoint, from older: SQLiteStore? = nil, copyTime: Int64, at now: Int64
  ) async throws -> Int64 {
    var state = try await load(keeping: IndexPlan())
    let begin = try await older?.load(keeping: IndexPlan())
    let last = state.sequence
    let range = RestoreRange(
      begin: begin?.sequence, beginTime: try await (older ?? self).beginTime(isEnd: older != nil),
      copyTime: copyTime)
    let sequence = try await pool.read { try range.sequence(of: point, last: last, $0) }
    var replaced = LocationSet()
    if let begin, let older {
      let checksum = try await older.pool.read { try CommitRow.last($0).checksum }
      let root = try await pool.read { db in
        guard try CommitRow.chain(db, after: begin.sequence) == checksum else {
          throw StoreError.unreachable(
            "the older backup is of another history: its commit \(begin.sequence) is not the same")
        }
        var tree = begin.tree
        try SQLiteStore.forEachCommit(db, after: begin.sequence) { commit in
          if commit.sequence <= sequence { tree.apply(commit.assignments) }
        }
        return tree.root
      }
      state.tree = Tree(root: root)
      replaced.insert(Location(.root))
    } else if sequence < last {
      let tree = state.tree
      state.tree = try await pool.read { try SQLiteStore.undo($0, tree, after: sequence) }
      replaced.insert(Location(.root))
    }
    _ = try await writeDurably { db, _ in
      try SQLiteStore.removeClientWrites(db, after: sequence)
    }
    let root = state.tree.root
    // The commits that are removed have numbers up to `last`, which may be greater than the number of the point.
    try await beginNewNumbers(state, root, replacing: replaced, after: last, at: now)
    _ = try await writeDurably { db, _ in
      var meta = try Meta.read(db)
      meta.noteBaseTime(now)
      try meta.write(db)
    }
    return sequence
  }

  /// Returns the time of a point in milliseconds since 1970. An account that was opened later did not exist then.
  ///
  /// For the number of a commit, it is the greatest time of the commits up to it, because the clock may have been set
  /// back. If the journal has none of them, it is the time of the next commit. Call it before `restore`, which removes the
  /// commits.
  ///
  /// - Parameter older: the earlier copy that begins the tree; nil for none.
  public func time(of point: RestorePoint, from older: SQLiteStore? = nil) async throws -> Int64 {
    switch point {
    case .last: return .max
    case .time(let time): return time
    case .sequence(let sequence):
      let begin = try await older?.lastCommitTime()
      return try await pool.read { db in
        let kept = try Int64.fetchOne(
          db, sql: "SELECT MAX(time) FROM commits WHERE sequence <= ?", arguments: [sequence])
        let next = try Int64.fetchOne(
          db, sql: "SELECT time FROM commits WHERE sequence > ? ORDER BY sequence",
          arguments: [sequence])
        return [begin, kept].compactMap { $0 }.max() ?? next ?? .max
      }
    }
  }

  /// Whether the latest login of a deleted account is more than a day in the future. Then the clock was wrong when the
  /// account was deleted, or is wrong now, or the number was altered.
  ///
  /// - Parameter now: the present time in milliseconds since 1970.
  public func hasFutureLogin(at now: Int64) async throws -> Bool {
    try await pool.read { try Meta.read($0).hasFutureLogin(at: now / 1_000) }
  }

  /// Lowers the latest login of a deleted account to the present time if it is in the future, as a repair does.
  ///
  /// - Parameter now: the present time in milliseconds since 1970.
  /// - Returns: whether it was in the future.
  public func correctFutureLogin(at now: Int64) async throws -> Bool {
    guard try await hasFutureLogin(at: now) else { return false }
    try await writeAccounts { db in
      var meta = try Meta.read(db)
      meta.correctDeletedLogin(to: now / 1_000)
      try meta.write(db)
    }
    return true
  }

  /// Returns the time of the tree with which a restore begins, in milliseconds since 1970; nil if it is unknown.
  ///
  /// - Parameter isEnd: whether a restore begins with the last commit, as that of an older copy.
  private func beginTime(isEnd: Bool) async throws -> Int64? {
    if isEnd, let time = try await lastCommitTime() { return time }
    return try await pool.read { try Meta.read($0).baseTime }
  }

  private func lastCommitTime() async throws -> Int64? {
    try await pool.read { db in
      try Int64.fetchOne(db, sql: "SELECT time FROM commits ORDER BY sequence DESC LIMIT 1")
    }
  }

  /// Returns the tree before the commits after `sequence`.
  private static func undo(_ db: Database, _ tree: Tree, after sequence: Int64) throws -> Tree {
    var tree = tree
    let rows = try Row.fetchCursor(
      db,
      sql: "SELECT \(CommitRow.columns) FROM commits WHERE sequence > ? ORDER BY sequence DESC",
      arguments: [sequence])
    while let row = try rows.next() {
      _ = try CommitRow.check(row, after: CommitRow.chain(db, after: (row[0] as Int64) - 1))
      let commit = try CommitRow.commitAndImage(row)
      guard let image = commit.beforeImage else {
        throw StoreError.unreachable(
          "commit \(commit.sequence) replaced more than 64 KiB, so the backup does not have the values before it: "
            + "choose commit \(commit.sequence) or a later one, or name a backup from before it with --older"
        )
      }
      tree.apply(image)
    }
    return tree
  }
}

/// The commits to which a database can be restored.
private struct RestoreRange: Sendable {
  /// The last commit of the older database; nil without one.
  let begin: Int64?
  /// The time of that commit, or of the tree with which the journal begins; nil if it is not known.
  let beginTime: Int64?
  /// The time of the copy in milliseconds since 1970.
  let copyTime: Int64

  /// Returns the number of the last commit to keep.
  ///
  /// - Throws: `StoreError.unreachable`.
  func sequence(of point: RestorePoint, last: Int64, _ db: Database) throws -> Int64 {
    let base = try Meta.read(db)[.base]
    let first = begin ?? base
    guard first >= base, first <= last else {
      throw StoreError.unreachable(
        "the older backup ends with commit \(first), and the newer one has the commits from \(base + 1) to \(last): "
          + "name an older backup that ends with one of them or the one before")
    }
    switch point {
    case .last: return last
    case .sequence(let sequence):
      guard first...last ~= sequence else {
        throw StoreError.unreachable(
          "commit \(sequence) cannot be reached: choose a number from \(first) to \(last), or another backup"
        )
      }
      return sequence
    case .time(let time):
      guard time <= copyTime else {
        throw StoreError.unreachable(
          "the backup was made before this time: choose a time up to \(RestoreRange.text(copyTime)), or a later "
            + "backup")
      }
      let next = try Row.fetchOne(
        db,
        sql: "SELECT sequence, time FROM commits WHERE sequence > ? AND time > ? ORDER BY sequence",
        arguments: [first, time])
      let end = next.map { ($0[0] as Int64) - 1 } ?? last
      try checkBegin(isUpTo: time, first, end, nextTime: next.map { $0[1] })
      return end
    }
  }

  /// Returns advice. A time after that of the backup, of a clock that was ahead, would be refused.
  private func choice(from time: Int64, _ first: Int64) -> String {
    time <= copyTime
      ? "choose a time from \(RestoreRange.text(time)) on"
      : "the clock was ahead, so choose a commit from \(first) on with --up-to-sequence in place of a time"
  }

  /// Checks that the tree after the commit `first` is not later than a time.
  ///
  /// If its own time is not known, a commit after it that is not later proves it.
  ///
  /// - Parameters:
  ///   - end: the last commit up to the time.
  ///   - nextTime: the time of the commit after `end`; nil without such a commit.
  private func checkBegin(
    isUpTo time: Int64, _ first: Int64, _ end: Int64, nextTime: Int64?
  ) throws(StoreError) {
    if let beginTime, beginTime > time {
      let text = RestoreRange.text(beginTime)
      throw .unreachable(
        begin == nil
          ? "the tree with which the backup begins is of \(text), which is later than this time: "
            + "\(choice(from: beginTime, first)), or an older backup"
          : "the older backup ends at \(text), which is later than this time: "
            + "\(choice(from: beginTime, first)), or another older backup")
    }
    guard beginTime == nil, end == first else { return }
    switch (first, nextTime) {
    // The tree is empty before the first commit of all. A time before it is probably a mistake.
    case (0, nil): return
    case (0, let next?):
      throw .unreachable(
        "the first commit is of \(RestoreRange.text(next)), which is later than this time: "
          + choice(from: next, first))
    case (_, let next?):
      throw .unreachable(
        "the backup has no commit up to this time: \(choice(from: next, first)), or name a backup from before it with "
          + "--older")
    case (_, nil):
      throw .unreachable(
        "the backup has no commit after number \(first), whose time is not known: choose commit \(first) in place of a "
          + "time, or an older backup")
    }
  }

  private static func text(_ milliseconds: Int64) -> String {
    // The format cuts the digits after the milliseconds, and 1.002 as a binary number is less.
    Date(timeIntervalSince1970: (Double(milliseconds) + 0.25) / 1_000).formatted(
      Date.ISO8601FormatStyle(includingFractionalSeconds: true))
  }
}
