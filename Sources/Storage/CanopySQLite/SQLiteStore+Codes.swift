public import CanopyAccounts
internal import Foundation
internal import GRDB

/// Codes of e-mails.
extension SQLiteStore {
  /// Inserts a code and deletes the oldest ones of its account, in one transaction.
  public func insertCode(_ code: CodeRecord, countMax: Int) async throws -> Bool {
    try await writeAccounts { db in
      let digest = Data(code.digest.bytes)
      try db.execute(
        sql: "INSERT INTO account_codes SELECT ?, uid, ?, ?, ?, 0 FROM accounts WHERE uid = ?",
        arguments: [digest, code.purpose.rawValue, code.email, code.expiresAt, code.uid])
      guard db.changesCount == 1 else { return false }
      try SealedTable.accountCodes.seal(db, where: "hash = ?", [digest])
      try db.execute(
        sql: """
          DELETE FROM account_codes WHERE hash IN (
            SELECT hash FROM account_codes WHERE uid = ?
            ORDER BY hash = ? DESC, expires_at DESC LIMIT -1 OFFSET ?)
          """, arguments: [code.uid, digest, max(1, countMax)])
      return true
    }
  }

  /// Returns a code by the primary key.
  public func code(_ digest: TokenDigest) async throws -> CodeRecord? {
    try await pool.read { db in
      try Row.fetchOne(
        db, sql: "SELECT * FROM account_codes WHERE hash = ?", arguments: [Data(digest.bytes)]
      ).map { row in
        try SealedTable.accountCodes.check(row)
        guard let purpose = CodePurpose(rawValue: row["purpose"]) else {
          throw StoreError.altered("a code of an e-mail")
        }
        return CodeRecord(
          digest: digest, uid: row["uid"], purpose: purpose, email: row["email"],
          expiresAt: row["expires_at"])
      }
    }
  }

  /// Deletes a code by the primary key.
  public func deleteCode(_ digest: TokenDigest) async throws -> Bool {
    try await writeAccounts { db in
      try db.execute(
        sql: "DELETE FROM account_codes WHERE hash = ?", arguments: [Data(digest.bytes)])
      return db.changesCount > 0
    }
  }

  /// Deletes at most `limit` expired codes, by the index of expiry times.
  public func purgeExpiredCodes(now: Int64, limit: Int) async throws -> Int {
    try await writeAccounts { db in
      try db.execute(
        sql: """
          DELETE FROM account_codes WHERE hash IN (
            SELECT hash FROM account_codes WHERE expires_at <= ? LIMIT ?)
          """, arguments: [now, max(0, limit)])
      return db.changesCount
    }
  }
}
