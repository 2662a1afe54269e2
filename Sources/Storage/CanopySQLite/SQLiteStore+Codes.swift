public import CanopyAccounts
internal import Foundation
internal import GRDB

/// Codes of e-mails.
extension SQLiteStore {
  /// Inserts a code, unless its account has as many for the purpose as it may, in one transaction.
  public func insertCode(
    _ code: CodeRecord, countMax: Int, keepingEnds ends: ClosedRange<Int64>
  ) async throws -> Bool {
    try await writeAccounts { db in
      let digest = Data(code.digest.bytes)
      try db.execute(
        sql: """
          DELETE FROM account_codes WHERE uid = ? AND purpose = ?
            AND expires_at NOT BETWEEN ? AND ?
          """,
        arguments: [code.uid, code.purpose.rawValue, ends.lowerBound, ends.upperBound])
      let count = try Int.fetchOne(
        db, sql: "SELECT COUNT(*) FROM account_codes WHERE uid = ? AND purpose = ?",
        arguments: [code.uid, code.purpose.rawValue])
      guard count ?? 0 < countMax else { return false }
      try db.execute(
        sql: "INSERT INTO account_codes SELECT ?, uid, ?, ?, ?, 0 FROM accounts WHERE uid = ?",
        arguments: [digest, code.purpose.rawValue, code.email, code.expiresAt, code.uid])
      guard db.changesCount == 1 else { return false }
      try SealedTable.accountCodes.seal(db, where: "hash = ?", [digest])
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
    try await purge("account_codes", key: "hash", time: "expires_at", until: now, limit: limit)
  }
}
