#if PostgreSQL
  public import CanopyAccounts

  /// Codes of e-mails.
  extension PostgresStore {
    /// Inserts a code, unless its account has as many for the purpose as it may, in one transaction of two round trips.
    public func insertCode(
      _ code: CodeRecord, countMax: Int, keepingEnds ends: ClosedRange<Int64>
    ) async throws -> Bool {
      try await lanes.run { [namespace] link in
        let purpose = Parameter.text(code.purpose.rawValue)
        // The lock of the account makes insertions for one account take turns.
        let rows = try link.begin([
          Query(
            "SELECT 1 FROM canopy.accounts WHERE namespace = $1 AND uid = $2 FOR UPDATE",
            .bytes(namespace), .text(code.uid)),
          Query(
            """
            DELETE FROM canopy.account_codes WHERE namespace = $1 AND uid = $2 AND purpose = $3
              AND expires_at NOT BETWEEN $4 AND $5
            """, .bytes(namespace), .text(code.uid), purpose, .int(ends.lowerBound),
            .int(ends.upperBound)),
          Query(
            """
            SELECT count(*) FROM canopy.account_codes
            WHERE namespace = $1 AND uid = $2 AND purpose = $3
            """, .bytes(namespace), .text(code.uid), purpose),
        ])
        let count = try rows[2].int(0, 0)
        guard !rows[0].isEmpty, count < Int64(clamping: countMax) else {
          // The removal of the others stays.
          _ = try link.finish([])
          return false
        }
        _ = try link.finish([
          Query(
            """
            INSERT INTO canopy.account_codes(namespace, hash, uid, purpose, email, expires_at)
            VALUES ($1, $2, $3, $4, $5, $6)
            """, .bytes(namespace), .bytes(code.digest.bytes), .text(code.uid), purpose,
            .text(code.email), .int(code.expiresAt))
        ])
        return true
      }
    }

    /// Returns a code by the primary key.
    public func code(_ digest: TokenDigest) async throws -> CodeRecord? {
      try await lanes.run { [namespace] link in
        let rows = try link.run([
          Query(
            """
            SELECT uid, purpose, email, expires_at FROM canopy.account_codes
            WHERE namespace = $1 AND hash = $2
            """, .bytes(namespace), .bytes(digest.bytes))
        ])[0]
        if rows.isEmpty { return nil }
        guard let purpose = CodePurpose(rawValue: try rows.text(0, 1)) else {
          throw PostgresError.altered("a code of an e-mail")
        }
        return CodeRecord(
          digest: digest, uid: try rows.text(0, 0), purpose: purpose, email: try rows.text(0, 2),
          expiresAt: try rows.int(0, 3))
      }
    }

    /// Deletes a code by the primary key.
    public func deleteCode(_ digest: TokenDigest) async throws -> Bool {
      try await change(
        "DELETE FROM canopy.account_codes WHERE namespace = $1 AND hash = $2", .bytes(digest.bytes))
        > 0
    }

    /// Deletes at most `limit` expired codes, by the index of expiry times.
    public func purgeExpiredCodes(now: Int64, limit: Int) async throws -> Int {
      try await change(
        """
        DELETE FROM canopy.account_codes WHERE namespace = $1 AND hash IN (
          SELECT hash FROM canopy.account_codes WHERE namespace = $1 AND expires_at <= $2
          ORDER BY expires_at LIMIT $3)
        """, .int(now), .int(Int64(max(0, limit))))
    }
  }
#endif
