internal import CanopyAccounts
internal import GRDB

/// The ends of the logins of deleted accounts.
extension SQLiteStore {
  /// Inserts the end of the logins of a deleted account, or moves it to a later time.
  ///
  /// - Parameters:
  ///   - end: seconds since 1970.
  ///   - now: milliseconds since 1970.
  static func noteDeletion(
    _ db: Database, of uid: String, endOfLogins end: Int64, at now: Int64
  ) throws {
    try db.execute(
      sql: """
        INSERT INTO deleted_accounts VALUES (?, ?, ?, 0) ON CONFLICT(uid) DO UPDATE SET
          end_of_logins = max(end_of_logins, excluded.end_of_logins),
          deleted_at = max(deleted_at, excluded.deleted_at)
        """, arguments: [uid, end, now])
    try SealedTable.deletedAccounts.seal(db, where: "uid = ?", [uid])
  }

  /// Returns the end of the logins of a deleted account, by the primary key.
  public func endOfLogins(uid: String) async throws -> Int64? {
    try await pool.read { db in try SQLiteStore.endOfLogins(db, uid) }
  }

  static func endOfLogins(_ db: Database, _ uid: String) throws -> Int64? {
    let ends = try Row.fetchAll(
      db, sql: "SELECT * FROM deleted_accounts WHERE uid IN (?, ?)",
      arguments: [uid, DeletedAccount.anyUID]
    ).map { row -> Int64 in
      try SealedTable.deletedAccounts.check(row)
      return row["end_of_logins"]
    }
    return ends.max()
  }

  /// Deletes at most `limit` rows of deleted accounts, by the index of their times.
  public func purgeDeleted(until time: Int64, limit: Int) async throws -> Int {
    try await purge("deleted_accounts", key: "uid", time: "deleted_at", until: time, limit: limit)
  }
}
