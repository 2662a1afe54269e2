public import CanopyAccounts
internal import Foundation
internal import GRDB

extension SQLiteStore: AccountStore {
  /// Inserts one row. Returns false if the uid or the address is taken. One synchronized transaction.
  public func insert(_ account: Account) async throws -> Bool {
    try await writeCounted { db in
      try db.execute(
        sql: """
          INSERT INTO accounts VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0) ON CONFLICT DO NOTHING
          """,
        arguments: [
          account.uid, account.email, account.emailNormalized, account.username,
          account.passwordHash, account.createdAt, account.isDisabled, account.isPending,
        ])
      guard db.changesCount == 1 else { return false }
      try SealedTable.accounts.seal(db, where: "uid = ?", [account.uid])
      return true
    }
  }

  /// Returns the account with a uid, by the primary key.
  public func account(uid: String) async throws -> Account? {
    try await pool.read { db in
      try Row.fetchOne(db, sql: "SELECT * FROM accounts WHERE uid = ?", arguments: [uid])
        .map(Account.init(checking:))
    }
  }

  /// Returns the account with an address, by the unique index of addresses.
  public func account(emailNormalized: String) async throws -> Account? {
    try await pool.read { db in
      try Row.fetchOne(
        db, sql: "SELECT * FROM accounts WHERE email_normalized = ?", arguments: [emailNormalized]
      ).map(Account.init(checking:))
    }
  }

  /// Returns a page of accounts in the order of the index of addresses.
  public func accounts(after: String?, limit: Int) async throws -> [Account] {
    try await pool.read { db in
      try Row.fetchAll(
        db,
        sql: """
          SELECT * FROM accounts WHERE ? IS NULL OR email_normalized > ?
          ORDER BY email_normalized LIMIT ?
          """, arguments: [after, after, max(0, limit)]
      ).map(Account.init(checking:))
    }
  }

  /// Returns a page of pending accounts in the order of their partial index.
  public func pendingAccounts(after: String?, limit: Int) async throws -> [Account] {
    try await pool.read { db in
      try Row.fetchAll(
        db,
        sql: """
          SELECT * FROM accounts WHERE is_pending AND (? IS NULL OR uid > ?) ORDER BY uid LIMIT ?
          """, arguments: [after, after, max(0, limit)]
      ).map(Account.init(checking:))
    }
  }

  /// Activates a pending account. One synchronized transaction.
  public func activate(uid: String) async throws -> Bool {
    try await writeCounted { db in
      try db.execute(
        sql: "UPDATE accounts SET is_pending = 0 WHERE uid = ? AND is_pending", arguments: [uid])
      guard db.changesCount == 1 else { return false }
      try SealedTable.accounts.seal(db, where: "uid = ?", [uid])
      return true
    }
  }

  /// Deletes an account if it is still pending. One synchronized transaction.
  public func deletePending(uid: String) async throws -> Bool {
    try await change("DELETE FROM accounts WHERE uid = ? AND is_pending", [uid])
  }

  /// Enables or disables an account. Disabling also deletes its tokens in the same transaction.
  public func setDisabled(_ isDisabled: Bool, uid: String) async throws -> Bool {
    try await writeCounted { db in
      try db.execute(
        sql: "UPDATE accounts SET is_disabled = ? WHERE uid = ?", arguments: [isDisabled, uid])
      guard db.changesCount == 1 else { return false }
      try SealedTable.accounts.seal(db, where: "uid = ?", [uid])
      if isDisabled { try db.execute(sql: "DELETE FROM tokens WHERE uid = ?", arguments: [uid]) }
      return true
    }
  }

  /// Replaces a password hash if it is still the expected one, and deletes tokens, in one transaction.
  public func setPasswordHash(
    _ hash: String, uid: String, ifCurrent expected: String?, revokingTokens: Bool
  ) async throws -> Bool {
    try await writeCounted { db in
      try db.execute(
        sql: """
          UPDATE accounts SET password_hash = ?
          WHERE uid = ? AND (? IS NULL OR password_hash = ?)
          """, arguments: [hash, uid, expected, expected])
      guard db.changesCount == 1 else { return false }
      try SealedTable.accounts.seal(db, where: "uid = ?", [uid])
      if revokingTokens {
        try db.execute(sql: "DELETE FROM tokens WHERE uid = ?", arguments: [uid])
      }
      return true
    }
  }

  /// Inserts a token if its account still has the given password hash, in one statement.
  public func insertToken(
    _ token: TokenRecord, ifPasswordHash hash: String
  ) async throws -> Bool {
    try await writeCounted { db in
      try db.execute(
        sql: """
          INSERT INTO tokens SELECT ?, uid, ?, 0 FROM accounts
          WHERE uid = ? AND NOT is_pending AND NOT is_disabled AND password_hash = ?
          """, arguments: [Data(token.digest.bytes), token.expiresAt, token.uid, hash])
      guard db.changesCount == 1 else { return false }
      try SealedTable.tokens.seal(db, where: "hash = ?", [Data(token.digest.bytes)])
      return true
    }
  }

  /// Returns a token and its account, by the primary key.
  public func token(
    _ digest: TokenDigest
  ) async throws -> (token: TokenRecord, account: Account)? {
    try await pool.read { db in
      try Row.fetchOne(
        db,
        sql: """
          SELECT accounts.*, tokens.hash, tokens.expires_at, tokens.checksum AS token_checksum
          FROM tokens JOIN accounts USING (uid) WHERE tokens.hash = ?
          """, arguments: [Data(digest.bytes)]
      ).map { row in
        let account = try Account(checking: row)
        try SealedTable.tokens.check(row, checksum: "token_checksum")
        let token = TokenRecord(
          digest: digest, uid: account.uid, expiresAt: row["expires_at"])
        return (token, account)
      }
    }
  }

  /// Deletes a token by its primary key.
  public func deleteToken(_ digest: TokenDigest) async throws {
    _ = try await change("DELETE FROM tokens WHERE hash = ?", [Data(digest.bytes)])
  }

  /// Deletes at most `limit` expired tokens, by the index of expiry times.
  public func purgeExpired(now: Int64, limit: Int) async throws -> Int {
    try await writeCounted { db in
      try db.execute(
        sql: """
          DELETE FROM tokens WHERE hash IN (
            SELECT hash FROM tokens WHERE expires_at <= ? LIMIT ?)
          """, arguments: [now, max(0, limit)])
      return db.changesCount
    }
  }

  /// Runs one statement. Returns whether it changed a row.
  private func change(_ sql: String, _ arguments: StatementArguments) async throws -> Bool {
    try await writeCounted { db in
      try db.execute(sql: sql, arguments: arguments)
      return db.changesCount > 0
    }
  }
}

extension Account {
  /// Creates an account from a row of `accounts`.
  ///
  /// - Throws: `StoreError.damaged` if the row was altered.
  fileprivate init(checking row: Row) throws {
    try SealedTable.accounts.check(row)
    self.init(
      uid: row["uid"], email: row["email"], emailNormalized: row["email_normalized"],
      username: row["username"], passwordHash: row["password_hash"],
      createdAt: row["created_at"], isDisabled: row["is_disabled"], isPending: row["is_pending"])
  }
}
