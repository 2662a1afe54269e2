#if PostgreSQL
  public import CanopyAccounts

  /// Accounts and tokens. A change locks the row of its account, so changes of one account take effect one at a time.
  extension PostgresStore: AccountStore {
    /// Inserts an account and its first token. Returns false if the uid or the address is taken, or if a deletion has ended
    /// the login. Two round trips.
    public func insert(
      _ account: Account, token: TokenRecord?, loginTime: Int64?
    ) async throws -> Bool {
      try await lanes.run { [namespace] link in
        // The insertion waits for a deletion of the same uid, so the later queries see the login of that account.
        let begun = try link.begin([
          Query(
            """
            INSERT INTO canopy.accounts(
              namespace, uid, email, email_normalized, username, password_hash, created_at,
              is_disabled, is_pending, display_name, photo_url, claims, is_email_verified, is_custom,
              valid_since, last_login_at, last_refresh_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
            ON CONFLICT DO NOTHING
            """, [.bytes(namespace)] + AccountRows.parameters(account)),
          PostgresStore.endOfLogins(namespace, account.uid),
        ])
        let end = begun[1].isEmpty ? nil : try begun[1].int(0, 0)
        let isEnded = if let loginTime, let end { loginTime < end } else { false }
        guard begun[0].changed == 1, !isEnded else {
          try link.rollBack()
          return false
        }
        var queries: [Query] = []
        if account.details.validSince > 0 {
          queries.append(
            Query(
              """
              UPDATE canopy.accounts SET valid_since = greatest(valid_since, deleted_login + 1)
              FROM canopy.account_states
              WHERE accounts.namespace = $1 AND uid = $2 AND account_states.namespace = $1
                AND deleted_login < 9223372036854775807
              """, .bytes(namespace), .text(account.uid)))
          queries.append(
            Query(
              """
              UPDATE canopy.accounts SET valid_since = greatest(valid_since, $3)
              WHERE namespace = $1 AND uid = $2
              """, .bytes(namespace), .text(account.uid), .int(end ?? 0)))
        }
        if let token { queries.append(PostgresStore.insertion(of: token, namespace)) }
        _ = try link.finish(queries)
        return true
      }
    }

    private static func insertion(of token: TokenRecord, _ namespace: [UInt8]) -> Query {
      Query(
        """
        INSERT INTO canopy.tokens(namespace, hash, uid, expires_at, claims)
        VALUES ($1, $2, $3, $4, $5)
        """, .bytes(namespace), .bytes(token.digest.bytes), .text(token.uid), .int(token.expiresAt),
        .text(token.customClaims))
    }

    /// Returns the account with a uid, by the primary key.
    public func account(uid: String) async throws -> Account? {
      try await accounts("uid = $2", [.text(uid)]).first
    }

    /// Returns the account with an address, by the unique index of addresses.
    public func account(emailNormalized: String) async throws -> Account? {
      try await accounts("email_normalized = $2", [.text(emailNormalized)]).first
    }

    /// Returns a page of accounts in the order of the index of addresses.
    public func accounts(after: String?, limit: Int) async throws -> [Account] {
      try await accounts(
        """
        ($2::bytea IS NULL OR email_normalized > $2) ORDER BY email_normalized LIMIT $3
        """, [.text(after), .int(Int64(max(0, limit)))])
    }

    /// Returns a page of pending accounts in the order of their partial index.
    public func pendingAccounts(after: String?, limit: Int) async throws -> [Account] {
      try await accounts(
        "is_pending AND ($2::bytea IS NULL OR uid > $2) ORDER BY uid LIMIT $3",
        [.text(after), .int(Int64(max(0, limit)))])
    }

    private func accounts(_ condition: String, _ parameters: [Parameter]) async throws -> [Account]
    {
      try await lanes.run { [namespace] link in
        let rows = try link.run([
          Query(
            """
            SELECT \(AccountRows.columns) FROM canopy.accounts
            WHERE namespace = $1 AND \(condition)
            """, [.bytes(namespace)] + parameters)
        ])[0]
        return try (0..<rows.count).map { row in try AccountRows.account(rows, row) }
      }
    }

    /// Activates a pending account.
    public func activate(uid: String) async throws -> Bool {
      try await change(
        """
        UPDATE canopy.accounts SET is_pending = false WHERE namespace = $1 AND uid = $2 AND is_pending
        """, .text(uid)) == 1
    }

    /// Deletes an account if it is still pending.
    public func deletePending(uid: String) async throws -> Bool {
      try await change(
        "DELETE FROM canopy.accounts WHERE namespace = $1 AND uid = $2 AND is_pending", .text(uid))
        == 1
    }

    /// Changes an account, and deletes its tokens and codes, in one transaction of two round trips.
    public func change(
      uid: String, revokingTokens: Bool,
      _ body: @escaping @Sendable (inout Account) throws -> Bool
    ) async throws -> AccountChange {
      // One attempt, because `body` must be called once.
      try await lanes.run(attempts: 1) { [namespace] link in
        let found = try link.begin([PostgresStore.lockedAccount(namespace, uid)])[0]
        guard !found.isEmpty else {
          try link.rollBack()
          return .missing
        }
        let account = try AccountRows.account(found, 0)
        var changed = account
        guard try body(&changed) else {
          try link.rollBack()
          return .unchanged
        }
        let (details, values) = (changed.details, AccountRows.parameters(changed))
        var queries = [
          Query(
            """
            UPDATE canopy.accounts SET email = $3, email_normalized = $4, password_hash = $5,
              is_disabled = $6, is_pending = $7, display_name = $8, photo_url = $9, claims = $10,
              is_email_verified = $11, is_custom = $12, valid_since = $13, last_login_at = $14,
              last_refresh_at = $15
            WHERE namespace = $1 AND uid = $2
            """,
            [
              .bytes(namespace), .text(uid), values[1], values[2], values[4], values[6], values[7],
              .text(details.displayName), .text(details.photoURL), .text(details.claims),
              .bool(details.isEmailVerified), .bool(details.isCustom), .int(details.validSince),
              .int(details.lastLoginAt), .int(details.lastRefreshAt),
            ])
        ]
        if revokingTokens { queries += PostgresStore.revocation(namespace, uid) }
        return try PostgresStore.isTaken(link, queries) ? .taken : .changed(changed)
      }
    }

    /// Makes a change, unless another account has the new address. Returns whether another account has it.
    private static func isTaken(_ link: Link, _ queries: [Query]) throws -> Bool {
      do {
        _ = try link.finish(queries)
        return false
      } catch PostgresError.refused(let state, _)
        where state.utf8.elementsEqual(PostgresError.uniqueViolation.utf8)
      {
        return true
      }
    }

    private static func lockedAccount(_ namespace: [UInt8], _ uid: String) -> Query {
      Query(
        """
        SELECT \(AccountRows.columns) FROM canopy.accounts WHERE namespace = $1 AND uid = $2
        FOR UPDATE
        """, .bytes(namespace), .text(uid))
    }

    private static func revocation(_ namespace: [UInt8], _ uid: String) -> [Query] {
      [
        Query(
          "DELETE FROM canopy.tokens WHERE namespace = $1 AND uid = $2", .bytes(namespace),
          .text(uid)),
        Query(
          "DELETE FROM canopy.account_codes WHERE namespace = $1 AND uid = $2", .bytes(namespace),
          .text(uid)),
      ]
    }

    private static func endOfLogins(_ namespace: [UInt8], _ uid: String) -> Query {
      Query(
        """
        SELECT end_of_logins FROM canopy.deleted_accounts
        WHERE namespace = $1 AND uid IN ($2::bytea, $3::bytea) ORDER BY end_of_logins DESC LIMIT 1
        """, .bytes(namespace), .text(uid), .text(DeletedAccount.anyUID))
    }

    /// Returns the end of the logins of a deleted account, by the primary key.
    public func endOfLogins(uid: String) async throws -> Int64? {
      try await lanes.run { [namespace] link in
        let rows = try link.run([PostgresStore.endOfLogins(namespace, uid)])[0]
        return rows.isEmpty ? nil : try rows.int(0, 0)
      }
    }

    /// Deletes at most `limit` rows of deleted accounts, by the index of their times.
    public func purgeDeleted(until time: Int64, limit: Int) async throws -> Int {
      try await change(
        """
        DELETE FROM canopy.deleted_accounts WHERE namespace = $1 AND uid IN (
          SELECT uid FROM canopy.deleted_accounts WHERE namespace = $1 AND deleted_at <= $2
          ORDER BY deleted_at LIMIT $3)
        """, .int(time), .int(Int64(max(0, limit))))
    }

    /// Deletes an account with its tokens and codes, and inserts the end of its logins, in one transaction of two round
    /// trips.
    public func delete(uid: String, at now: Int64) async throws -> Bool {
      try await lanes.run { [namespace] link in
        let found = try link.begin([PostgresStore.lockedAccount(namespace, uid)])[0]
        guard !found.isEmpty else {
          try link.rollBack()
          return false
        }
        let account = try AccountRows.account(found, 0)
        var ended = account
        ended.endLogins(at: now)
        let queries = [
          Query(
            "DELETE FROM canopy.accounts WHERE namespace = $1 AND uid = $2", .bytes(namespace),
            .text(uid)),
          Query(
            """
            INSERT INTO canopy.account_states(namespace, deleted_login) VALUES ($1, $2)
            ON CONFLICT (namespace) DO UPDATE
              SET deleted_login = greatest(account_states.deleted_login, excluded.deleted_login)
            """, .bytes(namespace), .int(account.latestLogin)),
          Query(
            """
            INSERT INTO canopy.deleted_accounts(namespace, uid, end_of_logins, deleted_at)
            VALUES ($1, $2, $3, $4) ON CONFLICT (namespace, uid) DO UPDATE
              SET end_of_logins = greatest(deleted_accounts.end_of_logins, excluded.end_of_logins),
                deleted_at = greatest(deleted_accounts.deleted_at, excluded.deleted_at)
            """, .bytes(namespace), .text(uid), .int(ended.details.validSince), .int(now)),
        ]
        _ = try link.finish(queries + PostgresStore.revocation(namespace, uid))
        return true
      }
    }

    /// The maximum number of old tokens that one new token removes, so that no transaction is long.
    private static let endedTokensMax = 1_000

    /// Inserts a token if its account still has the given password hash, and deletes the oldest ones of the account, in
    /// one transaction of two round trips.
    public func insertToken(
      _ token: TokenRecord, ifPasswordHash hash: String, loginAt time: Int64?, countMax: Int
    ) async throws -> [TokenDigest]? {
      try await lanes.run { [namespace] link in
        let found = try link.begin([PostgresStore.lockedAccount(namespace, token.uid)])[0]
        let account = found.isEmpty ? nil : try AccountRows.account(found, 0)
        guard let account, !account.isPending, !account.isDisabled,
          account.passwordHash.utf8.elementsEqual(hash.utf8)
        else {
          try link.rollBack()
          return nil
        }
        var queries = [PostgresStore.insertion(of: token, namespace)]
        if let time {
          queries.append(
            Query(
              """
              UPDATE canopy.accounts SET last_login_at = greatest(last_login_at, $3)
              WHERE namespace = $1 AND uid = $2
              """, .bytes(namespace), .text(token.uid), .int(time)))
        }
        queries.append(
          Query(
            """
            DELETE FROM canopy.tokens WHERE namespace = $1 AND hash IN (
              SELECT hash FROM canopy.tokens WHERE namespace = $1 AND uid = $2
              ORDER BY hash = $3 DESC, expires_at DESC
              LIMIT \(PostgresStore.endedTokensMax) OFFSET $4)
            RETURNING hash
            """, .bytes(namespace), .text(token.uid), .bytes(token.digest.bytes),
            .int(Int64(max(1, countMax)))))
        let ended = try link.finish(queries)[queries.count - 1]
        return (0..<ended.count).compactMap { row in
          ended.bytes(row, 0).map { TokenDigest(bytes: Array($0)) }
        }
      }
    }

    /// Returns a token and its account, by the primary key.
    public func token(
      _ digest: TokenDigest
    ) async throws -> (token: TokenRecord, account: Account)? {
      try await lanes.run { [namespace] link in
        let rows = try link.run([
          Query(
            """
            SELECT tokens.hash, tokens.uid, tokens.expires_at, tokens.claims, \(AccountRows.columns)
            FROM canopy.tokens JOIN canopy.accounts USING (namespace, uid)
            WHERE tokens.namespace = $1 AND tokens.hash = $2
            """, .bytes(namespace), .bytes(digest.bytes))
        ])[0]
        if rows.isEmpty { return nil }
        return (try AccountRows.token(rows, 0), try AccountRows.account(rows, 0, from: 4))
      }
    }

    /// Returns the tokens of an account by the index of uids.
    public func tokens(uid: String, limit: Int) async throws -> [TokenRecord] {
      try await lanes.run { [namespace] link in
        let rows = try link.run([
          Query(
            """
            SELECT hash, uid, expires_at, claims FROM canopy.tokens
            WHERE namespace = $1 AND uid = $2 ORDER BY expires_at DESC, hash LIMIT $3
            """, .bytes(namespace), .text(uid), .int(Int64(max(0, limit))))
        ])[0]
        return try (0..<rows.count).map { row in try AccountRows.token(rows, row) }
      }
    }

    /// Deletes a token by its primary key.
    public func deleteToken(_ digest: TokenDigest) async throws {
      _ = try await change(
        "DELETE FROM canopy.tokens WHERE namespace = $1 AND hash = $2", .bytes(digest.bytes))
    }

    /// Deletes at most `limit` expired tokens, by the index of expiry times.
    public func purgeExpired(now: Int64, limit: Int) async throws -> Int {
      try await change(
        """
        DELETE FROM canopy.tokens WHERE namespace = $1 AND hash IN (
          SELECT hash FROM canopy.tokens WHERE namespace = $1 AND expires_at <= $2
          ORDER BY expires_at LIMIT $3)
        """, .int(now), .int(Int64(max(0, limit))))
    }

    /// Runs one statement as a transaction. Returns the number of rows that it changed.
    func change(_ sql: String, _ parameters: Parameter...) async throws -> Int {
      try await lanes.run { [namespace] link in
        try link.commit([Query(sql, [.bytes(namespace)] + parameters)])[0].changed
      }
    }
  }
#endif
