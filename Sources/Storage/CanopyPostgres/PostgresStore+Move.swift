#if PostgreSQL
  public import CanopyAccounts
  public import CanopyEngine
  internal import CanopyRows
  internal import CanopyTree
  internal import Synchronization

  /// Moves from and to another store.
  extension PostgresStore: MovableJournal, MovableAccountStore {
    /// Writes the leaves in steps, then the numbers of the journal in one transaction.
    public func begin(with state: JournalState) async throws {
      let (sequence, time, rules) = (state.sequence, state.lastTime, state.rules)
      guard try await beginFolding(through: sequence) != nil else {
        throw PostgresError.unsuitable("another node writes the checkpoint; stop all nodes first")
      }
      try await write(Fold(root: state.tree.root, locations: [Location(.root)]), resting: {})
      var writes = ClientWriteChanges()
      for write in state.clientWrites { writes.add(write) }
      let writeQueries = writes.queries(
        [.bytes(namespace), .int(0), .int(0)], "$2::bigint = $3::bigint")
      try await step { [namespace] row, _, link in
        row.sequence = sequence
        row.base = sequence
        row.baseChecksum = Checksum()
        row.folder = nil
        var queries = [
          Query(
            """
            UPDATE canopy.heads SET last = $2, checksum = $3, key_time = $4 WHERE namespace = $1
            """, .bytes(namespace), .int(sequence), .int(Checksum().stored), .int(time))
        ]
        if let rules {
          queries.append(
            Query(
              """
              INSERT INTO canopy.journaled_rules(namespace, text, sequence) VALUES ($1, $2, $3)
              """, .bytes(namespace), .text(rules.text), .int(rules.sequence)))
        }
        _ = try link.run(queries + writeQueries)
      }
      tail.withLock { $0 = nil }
    }

    /// Returns the codes of an account, by the index of uids.
    public func codes(uid: String) async throws -> [CodeRecord] {
      try await lanes.run { [namespace] link in
        let rows = try link.run([
          Query(
            """
            SELECT hash, purpose, email, expires_at FROM canopy.account_codes
            WHERE namespace = $1 AND uid = $2
            """, .bytes(namespace), .text(uid))
        ])[0]
        return try (0..<rows.count).map { row in
          guard let hash = rows.bytes(row, 0),
            let purpose = CodePurpose(rawValue: try rows.text(row, 1))
          else { throw PostgresError.altered("a code of an e-mail") }
          return CodeRecord(
            digest: TokenDigest(bytes: Array(hash)), uid: uid, purpose: purpose,
            email: try rows.text(row, 2), expiresAt: try rows.int(row, 3))
        }
      }
    }

    /// Returns a page of deleted accounts, by the primary key.
    public func deletedAccounts(after: String?, limit: Int) async throws -> [DeletedAccount] {
      try await lanes.run { [namespace] link in
        let rows = try link.run([
          Query(
            """
            SELECT uid, end_of_logins, deleted_at FROM canopy.deleted_accounts
            WHERE namespace = $1 AND ($2::bytea IS NULL OR uid > $2) ORDER BY uid LIMIT $3
            """, .bytes(namespace), .text(after), .int(Int64(max(0, limit))))
        ])[0]
        return try (0..<rows.count).map { row in
          DeletedAccount(
            uid: try rows.text(row, 0), endOfLogins: try rows.int(row, 1),
            deletedAt: try rows.int(row, 2))
        }
      }
    }

    /// Returns the latest login of deleted accounts.
    public func latestDeletedLogin() async throws -> Int64? {
      try await lanes.run { [namespace] link in
        let rows = try link.run([
          Query(
            "SELECT deleted_login FROM canopy.account_states WHERE namespace = $1",
            .bytes(namespace))
        ])[0]
        return rows.isEmpty ? nil : try rows.int(0, 0)
      }
    }

    /// Adds deleted accounts in one transaction.
    public func insertDeleted(
      _ accounts: [DeletedAccount], latestLogin login: Int64?
    ) async throws {
      var queries = [
        Query(
          """
          INSERT INTO canopy.deleted_accounts(namespace, uid, end_of_logins, deleted_at)
          SELECT $1, rows.* FROM unnest($2::bytea[], $3::bigint[], $4::bigint[]) AS rows
          """, .bytes(namespace), .byteArrays(accounts.map { Array($0.uid.utf8) }),
          .ints(accounts.map(\.endOfLogins)), .ints(accounts.map(\.deletedAt)))
      ]
      if let login {
        queries.append(
          Query(
            """
            INSERT INTO canopy.account_states(namespace, deleted_login) VALUES ($1, $2)
            ON CONFLICT (namespace) DO UPDATE
              SET deleted_login = greatest(account_states.deleted_login, excluded.deleted_login)
            """, .bytes(namespace), .int(login)))
      }
      try await lanes.run { [queries] link in _ = try link.commit(queries) }
    }
  }
#endif
