public import CanopyAccounts
public import CanopyEngine
internal import CanopyRows
internal import CanopyTree
internal import Foundation
internal import GRDB

/// Moves from and to another store.
extension SQLiteStore: MovableJournal, MovableAccountStore {
  /// Writes the leaves in steps, then the numbers of the journal in one transaction. The rules are in a file of the folder.
  public func begin(with state: JournalState) async throws {
    // No appends wait between the steps: the store is not in use yet.
    try await write(Fold(root: state.tree.root, locations: [Location(.root)]), resting: {})
    let (sequence, time, writes) = (state.sequence, state.lastTime, state.clientWrites)
    try await writeDurably { [now = configuration.currentTime] db, tail in
      var meta = try Meta.read(db)
      var checksum = Checksum()
      // The chain of a journal without any commit begins as in a new folder.
      if sequence > 0 { checksum.add(sequence, meta.leaves) }
      meta[.checkpoint] = sequence
      meta[.base] = sequence
      meta.baseChecksum = checksum
      if let now { meta.noteBaseTime(now) }
      if let time { meta.noteKeyTime(time) }
      try meta.write(db)
      for write in writes { try SQLiteStore.remember(write, db) }
      tail.sequence = sequence
      tail.checksum = checksum
      tail.time = max(tail.time, time ?? 0)
    }
  }

  /// Returns the codes of an account, by the index of uids.
  public func codes(uid: String) async throws -> [CodeRecord] {
    try await pool.read { db in
      try Row.fetchAll(db, sql: "SELECT * FROM account_codes WHERE uid = ?", arguments: [uid])
        .map { row in
          try SealedTable.accountCodes.check(row)
          guard let purpose = CodePurpose(rawValue: row["purpose"]) else {
            throw StoreError.altered("a code of an e-mail")
          }
          let hash: Data = row["hash"]
          return CodeRecord(
            digest: TokenDigest(bytes: Array(hash)), uid: uid, purpose: purpose,
            email: row["email"], expiresAt: row["expires_at"])
        }
    }
  }

  /// Returns a page of deleted accounts, by the primary key.
  public func deletedAccounts(after: String?, limit: Int) async throws -> [DeletedAccount] {
    try await pool.read { db in
      try Row.fetchAll(
        db,
        sql: """
          SELECT * FROM deleted_accounts WHERE ?1 IS NULL OR uid > ?1 ORDER BY uid LIMIT ?2
          """, arguments: [after, max(0, limit)]
      ).map { row in
        try SealedTable.deletedAccounts.check(row)
        return DeletedAccount(
          uid: row["uid"], endOfLogins: row["end_of_logins"], deletedAt: row["deleted_at"])
      }
    }
  }

  /// Returns the latest login of deleted accounts.
  public func latestDeletedLogin() async throws -> Int64? {
    try await pool.read { db in try Meta.read(db).deletedLogin }
  }

  /// Adds deleted accounts in one transaction.
  public func insertDeleted(
    _ accounts: [DeletedAccount], latestLogin login: Int64?
  ) async throws {
    try await writeAccounts { db in
      if let login {
        var meta = try Meta.read(db)
        meta.noteDeletedLogin(login)
        try meta.write(db)
      }
      for account in accounts {
        try db.execute(
          sql: "INSERT INTO deleted_accounts VALUES (?, ?, ?, 0)",
          arguments: [account.uid, account.endOfLogins, account.deletedAt])
        try SealedTable.deletedAccounts.seal(db, where: "uid = ?", [account.uid])
      }
    }
  }
}
