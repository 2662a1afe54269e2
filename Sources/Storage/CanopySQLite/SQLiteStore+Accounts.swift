public import CanopyAccounts
internal import Foundation
internal import GRDB

extension SQLiteStore: AccountStore {
  /// Inserts an account and its first token. Returns false if the uid or the address is taken, or if a deletion has ended
  /// the login. One synchronized transaction.
  public func insert(
    _ account: Account, token: TokenRecord?, loginTime: Int64?
  ) async throws -> Bool {
    try await writeAccounts { db in
      let end = try SQLiteStore.endOfLogins(db, account.uid)
      if let loginTime, let end, loginTime < end { return false }
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
      var details = account.details
      if details.validSince > 0 {
        let meta = try Meta.read(db)
        // A time in the future would refuse logins of the account until then. `end` protects the uid for a day without it.
        if let deleted = meta.deletedLogin, !meta.hasFutureLogin(at: details.validSince) {
          details.validSince = max(details.validSince, deleted + 1)
        }
      }
      if details.validSince > 0 { details.validSince = max(details.validSince, end ?? 0) }
      try details.write(db, of: account.uid)
      if let token {
        let digest = Data(token.digest.bytes)
        try db.execute(
          sql: "INSERT INTO tokens VALUES (?, ?, ?, 0)",
          arguments: [digest, account.uid, token.expiresAt])
        try SQLiteStore.completeToken(token, digest, db)
      }
      return true
    }
  }

  /// Returns the account with a uid, by the primary key.
  public func account(uid: String) async throws -> Account? {
    try await pool.read { db in
      try Account.fetchOne(db, uid: uid)
    }
  }

  /// Returns the account with an address, by the unique index of addresses.
  public func account(emailNormalized: String) async throws -> Account? {
    try await pool.read { db in
      try Row.fetchOne(
        db, sql: "\(Account.selection) WHERE accounts.email_normalized = ?",
        arguments: [emailNormalized]
      ).map(Account.init(checking:))
    }
  }

  /// Returns a page of accounts in the order of the index of addresses.
  public func accounts(after: String?, limit: Int) async throws -> [Account] {
    try await pool.read { db in
      try Row.fetchAll(
        db,
        sql: """
          \(Account.selection) WHERE ? IS NULL OR accounts.email_normalized > ?
          ORDER BY accounts.email_normalized LIMIT ?
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
          \(Account.selection) WHERE accounts.is_pending AND (? IS NULL OR accounts.uid > ?)
          ORDER BY accounts.uid LIMIT ?
          """, arguments: [after, after, max(0, limit)]
      ).map(Account.init(checking:))
    }
  }

  /// Activates a pending account. One synchronized transaction.
  public func activate(uid: String) async throws -> Bool {
    try await writeAccounts { db in
      try db.execute(
        sql: "UPDATE accounts SET is_pending = 0 WHERE uid = ? AND is_pending", arguments: [uid])
      guard db.changesCount == 1 else { return false }
      try SealedTable.accounts.seal(db, where: "uid = ?", [uid])
      return true
    }
  }

  /// Deletes an account if it is still pending. One synchronized transaction.
  public func deletePending(uid: String) async throws -> Bool {
    try await writeAccounts { db in
      try db.execute(
        sql: "DELETE FROM accounts WHERE uid = ? AND is_pending", arguments: [uid])
      guard db.changesCount == 1 else { return false }
      try AccountDetails().write(db, of: uid)
      return true
    }
  }

  /// Changes an account, and deletes its tokens and codes, in one transaction.
  public func change(
    uid: String, revokingTokens: Bool,
    _ body: @escaping @Sendable (inout Account) throws -> Bool
  ) async throws -> AccountChange {
    try await writeAccounts { db in
      guard let account = try Account.fetchOne(db, uid: uid) else { return .missing }
      var changed = account
      guard try body(&changed) else { return .unchanged }
      try db.execute(
        sql: """
          UPDATE OR IGNORE accounts SET email = ?, email_normalized = ?, password_hash = ?,
            is_disabled = ?, is_pending = ? WHERE uid = ?
          """,
        arguments: [
          changed.email, changed.emailNormalized, changed.passwordHash, changed.isDisabled,
          changed.isPending, uid,
        ])
      // Another account has the address.
      guard db.changesCount == 1 else { return .taken }
      try SealedTable.accounts.seal(db, where: "uid = ?", [uid])
      if changed.details != account.details { try changed.details.write(db, of: uid) }
      if revokingTokens { try SQLiteStore.revoke(db, uid) }
      return .changed(changed)
    }
  }

  /// Deletes an account with its further data, tokens and codes, and inserts the end of its logins, in one transaction.
  public func delete(uid: String, at now: Int64) async throws -> Bool {
    try await writeAccounts { db in
      guard var account = try Account.fetchOne(db, uid: uid) else { return false }
      try db.execute(sql: "DELETE FROM accounts WHERE uid = ?", arguments: [uid])
      var meta = try Meta.read(db)
      meta.noteDeletedLogin(account.latestLogin)
      try meta.write(db)
      account.endLogins(at: now)
      try SQLiteStore.noteDeletion(
        db, of: uid, endOfLogins: account.details.validSince, at: now)
      try AccountDetails().write(db, of: uid)
      try SQLiteStore.revoke(db, uid)
      return true
    }
  }

  /// Ends all logins of all accounts: deletes the sessions and the codes, and raises the time from which logins count.
  /// O(accounts).
  ///
  /// - Parameter now: milliseconds since 1970.
  static func endAllLogins(_ db: Database, at now: Int64) throws {
    let emptied: [SealedTable] = [.tokens, .customSessions, .accountCodes]
    for table in emptied { try db.execute(sql: "DELETE FROM \(table.rawValue)") }
    let uids = try String.fetchCursor(db, sql: "SELECT uid FROM accounts")
    while let uid = try uids.next() {
      guard var account = try Account.fetchOne(db, uid: uid) else { continue }
      account.endLogins(at: now)
      try account.details.write(db, of: uid)
    }
    for table in emptied + [.accountDetails] { try table.writeSum(db) }
  }

  /// The maximum number of old tokens that one new token removes, so that no transaction is long.
  private static let endedTokensMax = 1_000

  private static func revoke(_ db: Database, _ uid: String) throws {
    try db.execute(sql: "DELETE FROM tokens WHERE uid = ?", arguments: [uid])
    try db.execute(sql: "DELETE FROM account_codes WHERE uid = ?", arguments: [uid])
  }

  /// Inserts a token if its account still has the given password hash, and deletes the oldest ones of the account, in
  /// one transaction. O(tokens of the account).
  public func insertToken(
    _ token: TokenRecord, ifPasswordHash hash: String, loginAt time: Int64?, countMax: Int
  ) async throws -> [TokenDigest]? {
    try await writeAccounts { db in
      let digest = Data(token.digest.bytes)
      try db.execute(
        sql: """
          INSERT INTO tokens SELECT ?, uid, ?, 0 FROM accounts
          WHERE uid = ? AND NOT is_pending AND NOT is_disabled AND password_hash = ?
          """, arguments: [digest, token.expiresAt, token.uid, hash])
      guard db.changesCount == 1 else { return nil }
      try SQLiteStore.completeToken(token, digest, db)
      if let time, var details = try Account.fetchOne(db, uid: token.uid)?.details {
        details.lastLoginAt = max(time, details.lastLoginAt ?? time)
        try details.write(db, of: token.uid)
      }
      let ended = try Data.fetchAll(
        db,
        sql: """
          SELECT hash FROM tokens WHERE uid = ?
          ORDER BY hash = ? DESC, expires_at DESC LIMIT \(SQLiteStore.endedTokensMax) OFFSET ?
          """, arguments: [token.uid, digest, max(1, countMax)])
      let delete = try db.cachedStatement(sql: "DELETE FROM tokens WHERE hash = ?")
      for hash in ended { try delete.execute(arguments: [hash]) }
      return ended.map { TokenDigest(bytes: Array($0)) }
    }
  }

  /// Seals the row of a new token, and inserts its claims.
  private static func completeToken(
    _ token: TokenRecord, _ digest: Data, _ db: Database
  ) throws {
    try SealedTable.tokens.seal(db, where: "hash = ?", [digest])
    guard let claims = token.customClaims else { return }
    try db.execute(
      sql: "INSERT INTO custom_sessions VALUES (?, ?, 0)", arguments: [digest, claims])
    try SealedTable.customSessions.seal(db, where: "hash = ?", [digest])
  }

  /// Returns a token and its account, by the primary key.
  public func token(
    _ digest: TokenDigest
  ) async throws -> (token: TokenRecord, account: Account)? {
    try await pool.read { db in
      try Row.fetchOne(
        db,
        sql: "SELECT * FROM tokens WHERE hash = ?", arguments: [Data(digest.bytes)]
      ).flatMap { row in
        try SealedTable.tokens.check(row)
        guard let account = try Account.fetchOne(db, uid: row["uid"]) else { return nil }
        let claims = try Row.fetchOne(
          db, sql: "SELECT * FROM custom_sessions WHERE hash = ?", arguments: [Data(digest.bytes)]
        ).map { row -> String in
          try SealedTable.customSessions.check(row)
          return row["claims"]
        }
        let token = TokenRecord(
          digest: digest, uid: account.uid, expiresAt: row["expires_at"], customClaims: claims)
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
    try await purge("tokens", key: "hash", time: "expires_at", until: now, limit: limit)
  }

  /// Deletes at most `limit` rows of a table whose time is at or before another. Returns their number.
  func purge(
    _ table: String, key: String, time: String, until end: Int64, limit: Int
  ) async throws -> Int {
    try await writeAccounts { db in
      try db.execute(
        sql: """
          DELETE FROM \(table) WHERE \(key) IN (SELECT \(key) FROM \(table) WHERE \(time) <= ? LIMIT ?)
          """, arguments: [end, max(0, limit)])
      return db.changesCount
    }
  }

  /// Runs one statement. Returns whether it changed a row.
  private func change(_ sql: String, _ arguments: StatementArguments) async throws -> Bool {
    try await writeAccounts { db in
      try db.execute(sql: sql, arguments: arguments)
      return db.changesCount > 0
    }
  }
}

extension Account {
  /// The statement that selects accounts with their further data, whose columns have ``AccountDetails/prefix``.
  fileprivate static let selection =
    "SELECT accounts.*, "
    + (SealedTable.accountDetails.columns + ["checksum"])
    .map { "account_details.\($0) AS \(AccountDetails.prefix)\($0)" }.joined(separator: ", ")
    + " FROM accounts LEFT JOIN account_details ON account_details.uid = accounts.uid"

  /// Returns the account with a uid; nil if it does not exist.
  fileprivate static func fetchOne(_ db: Database, uid: String) throws -> Account? {
    try Row.fetchOne(db, sql: "\(selection) WHERE accounts.uid = ?", arguments: [uid])
      .map(Account.init(checking:))
  }

  /// Creates an account from a row of ``selection``.
  ///
  /// - Throws: `StoreError.damaged` if a row was altered.
  fileprivate init(checking row: Row) throws {
    try SealedTable.accounts.check(row)
    let hasDetails = row[AccountDetails.prefix + "uid"] as DatabaseValue != .null
    self.init(
      uid: row["uid"], email: row["email"], emailNormalized: row["email_normalized"],
      username: row["username"], passwordHash: row["password_hash"],
      createdAt: row["created_at"], isDisabled: row["is_disabled"], isPending: row["is_pending"],
      details: hasDetails ? try AccountDetails(checking: row) : AccountDetails())
  }
}

extension AccountDetails {
  /// The beginning of the names of the columns in `Account.selection`.
  fileprivate static let prefix = "details_"

  /// Creates details from a row of `Account.selection`.
  ///
  /// - Throws: `StoreError.damaged` if the row was altered.
  fileprivate init(checking row: Row) throws {
    let prefix = AccountDetails.prefix
    try SealedTable.accountDetails.check(row, prefix: prefix)
    self.init(
      displayName: row[prefix + "display_name"], photoURL: row[prefix + "photo_url"],
      claims: row[prefix + "claims"], isEmailVerified: row[prefix + "is_email_verified"],
      isCustom: row[prefix + "is_custom"], validSince: row[prefix + "valid_since"],
      lastLoginAt: row[prefix + "last_login_at"], lastRefreshAt: row[prefix + "last_refresh_at"])
  }

  /// Writes the row of an account, or deletes it if it would have only defaults.
  fileprivate func write(_ db: Database, of uid: String) throws {
    guard self != AccountDetails() else {
      return try db.execute(sql: "DELETE FROM account_details WHERE uid = ?", arguments: [uid])
    }
    // Not REPLACE: that would delete the row without the trigger that keeps the sum.
    try db.execute(
      sql: """
        INSERT INTO account_details VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0)
        ON CONFLICT(uid) DO UPDATE SET display_name = excluded.display_name,
          photo_url = excluded.photo_url, claims = excluded.claims,
          is_email_verified = excluded.is_email_verified, is_custom = excluded.is_custom,
          valid_since = excluded.valid_since, last_login_at = excluded.last_login_at,
          last_refresh_at = excluded.last_refresh_at
        """,
      arguments: [
        uid, displayName, photoURL, claims, isEmailVerified, isCustom, validSince, lastLoginAt,
        lastRefreshAt,
      ])
    try SealedTable.accountDetails.seal(db, where: "uid = ?", [uid])
  }
}

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
