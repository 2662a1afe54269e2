#if PostgreSQL
  internal import CanopyAccounts

  /// Rows of `accounts`, `tokens` and `account_codes`.
  enum AccountRows {
    /// The columns of an account in the order that `account` expects.
    static let columns = """
      accounts.uid, accounts.email, accounts.email_normalized, accounts.username,
      accounts.password_hash, accounts.created_at, accounts.is_disabled, accounts.is_pending,
      accounts.display_name, accounts.photo_url, accounts.claims, accounts.is_email_verified,
      accounts.is_custom, accounts.valid_since, accounts.last_login_at, accounts.last_refresh_at
      """

    /// The number of those columns.
    static let columnCount = 16

    /// Decodes an account.
    static func account(_ rows: Rows, _ row: Int, from first: Int = 0) throws(PostgresError)
      -> Account
    {
      Account(
        uid: try rows.text(row, first), email: try rows.text(row, first + 1),
        emailNormalized: try rows.text(row, first + 2), username: try rows.text(row, first + 3),
        passwordHash: try rows.text(row, first + 4), createdAt: try rows.int(row, first + 5),
        isDisabled: try rows.bool(row, first + 6), isPending: try rows.bool(row, first + 7),
        details: AccountDetails(
          displayName: rows.optionalText(row, first + 8),
          photoURL: rows.optionalText(row, first + 9),
          claims: rows.optionalText(row, first + 10),
          isEmailVerified: try rows.bool(row, first + 11),
          isCustom: try rows.bool(row, first + 12), validSince: try rows.int(row, first + 13),
          lastLoginAt: try rows.optionalInt(row, first + 14),
          lastRefreshAt: try rows.optionalInt(row, first + 15)))
    }

    /// Returns the parameters of an account in the order of the columns.
    static func parameters(_ account: Account) -> [Parameter] {
      let details = account.details
      return [
        .text(account.uid), .text(account.email), .text(account.emailNormalized),
        .text(account.username), .text(account.passwordHash), .int(account.createdAt),
        .bool(account.isDisabled), .bool(account.isPending), .text(details.displayName),
        .text(details.photoURL), .text(details.claims), .bool(details.isEmailVerified),
        .bool(details.isCustom), .int(details.validSince), .int(details.lastLoginAt),
        .int(details.lastRefreshAt),
      ]
    }

    /// Decodes a token with the columns hash, uid, expires_at and claims.
    static func token(_ rows: Rows, _ row: Int) throws(PostgresError) -> TokenRecord {
      TokenRecord(
        digest: TokenDigest(bytes: Array(rows.bytes(row, 0) ?? .init(start: nil, count: 0))),
        uid: try rows.text(row, 1), expiresAt: try rows.int(row, 2),
        customClaims: rows.optionalText(row, 3))
    }
  }
#endif
