public import CanopyAccounts
internal import Foundation
internal import GRDB

extension SQLiteStore {
  /// Returns the tokens of an account by the index of uids. O(tokens of the account).
  public func tokens(uid: String, limit: Int) async throws -> [TokenRecord] {
    try await pool.read { db in
      let rows = try Row.fetchAll(
        db, sql: "SELECT * FROM tokens WHERE uid = ? ORDER BY expires_at DESC, hash LIMIT ?",
        arguments: [uid, max(0, limit)])
      return try rows.map { row in
        try SealedTable.tokens.check(row)
        let hash: Data = row["hash"]
        let claims = try Row.fetchOne(
          db, sql: "SELECT * FROM custom_sessions WHERE hash = ?", arguments: [hash]
        ).map { row -> String in
          try SealedTable.customSessions.check(row)
          return row["claims"]
        }
        return TokenRecord(
          digest: TokenDigest(bytes: Array(hash)), uid: row["uid"], expiresAt: row["expires_at"],
          customClaims: claims)
      }
    }
  }
}
