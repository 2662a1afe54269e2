#if PostgreSQL
  public import CanopyAccounts

  /// The failures of logins that all nodes count together.
  ///
  /// A crash of the database may lose the last ones, because their transactions do not wait for the disk.
  extension PostgresStore: LoginAttempts {
    /// The milliseconds after which a key is forgotten if it is not used: a day.
    private static let forgottenAfter: Int64 = 86_400_000

    /// The count of failures in memory is not used.
    public var loginAttempts: (any LoginAttempts)? { self }

    /// Begins an attempt by the clock of the database, and forgets two keys that were not used for a day. One round trip.
    public func begin(_ key: [UInt8], _ waits: LoginWaits) async throws -> Int64? {
      try await lanes.run { [namespace] link in
        let now = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
        func end(afterFailures failures: String) -> String {
          """
          CASE WHEN \(failures) < $3::bigint THEN 0
            ELSE least(9223372036854775807, \(now) + least($5::bigint::numeric,
              $4::bigint::numeric * 2::numeric ^ least(\(failures) - $3::bigint, 62)))::bigint END
          """
        }
        let rows = try link.commit([
          Query("SET LOCAL synchronous_commit = off"),
          // The condition is checked under the lock of the row, so two attempts take effect one after the other.
          Query(
            """
            INSERT INTO canopy.login_failures AS failed(namespace, key, failures, wait_end, used_at)
            VALUES ($1, $2, 1, \(end(afterFailures: "1")), \(now))
            ON CONFLICT (namespace, key) DO UPDATE SET failures = failed.failures + 1,
              wait_end = \(end(afterFailures: "failed.failures + 1")), used_at = \(now)
            WHERE failed.wait_end <= \(now) OR failed.used_at > \(now)
            RETURNING failures
            """, .bytes(namespace), .bytes(key), .int(Int64(waits.failuresMax)), .int(waits.first),
            .int(waits.max)),
          Query(
            """
            SELECT wait_end - \(now) FROM canopy.login_failures WHERE namespace = $1 AND key = $2
            """, .bytes(namespace), .bytes(key)),
          Query(
            """
            DELETE FROM canopy.login_failures WHERE namespace = $1 AND key IN (
              SELECT key FROM canopy.login_failures WHERE namespace = $1 AND used_at < \(now) - $2
              ORDER BY used_at LIMIT 2 FOR UPDATE SKIP LOCKED)
            """, .bytes(namespace), .int(Self.forgottenAfter)),
        ])
        guard rows[1].isEmpty else { return nil }
        return rows[2].isEmpty ? 1 : max(1, try rows[2].int(0, 0))
      }
    }

    /// Removes the failure and the wait of an attempt.
    public func withdraw(_ key: [UInt8]) async throws {
      _ = try await change(
        """
        UPDATE canopy.login_failures SET failures = greatest(failures - 1, 0), wait_end = 0
        WHERE namespace = $1 AND key = $2
        """, .bytes(key))
    }

    /// Deletes the row of a key.
    public func forget(_ key: [UInt8]) async throws {
      _ = try await change(
        "DELETE FROM canopy.login_failures WHERE namespace = $1 AND key = $2", .bytes(key))
    }

    /// Deletes the rows of the keys that begin with a prefix, which are neighbours in the index of the table.
    public func forget(startingWith prefix: [UInt8]) async throws {
      // The first key behind them: bytes of 255 at the end have no successor.
      var end = prefix
      while end.last == 255 { end.removeLast() }
      guard let last = end.popLast() else { return }
      end.append(last + 1)
      _ = try await change(
        "DELETE FROM canopy.login_failures WHERE namespace = $1 AND key >= $2 AND key < $3",
        .bytes(prefix), .bytes(end))
    }
  }
#endif
