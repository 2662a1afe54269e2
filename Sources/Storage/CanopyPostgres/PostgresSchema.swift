#if PostgreSQL

  /// The tables in the schema `canopy`, by version.
  ///
  /// The first column of every key is the namespace. Texts are bytes (bytea): PostgreSQL compares texts by a collation and
  /// refuses U+0000, and keys are compared by their bytes.
  ///
  /// - `heads`: the last commit of each namespace. An append changes this row, so only one of two appends can win.
  /// - `nodes`: the running nodes, with the end of their lease by the database's clock. An append names `run` and `fence`.
  /// - `barriers`: a row that a node changes to wait until all that it can read is on the standby.
  /// - `commits`: the journal, one row for each commit. `client`, `number` and `seen` are its origin.
  /// - `journaled_rules`: the rules of the last commit with such a mark.
  /// - `checkpoints`: the numbers of the checkpoint, and the node that folds.
  /// - `leaves`: the checkpoint, one row for each leaf or small branch. Paths can be longer than an index allows, so its index
  ///   has their first bytes.
  /// - `client_writes`: the writes that clients may send again.
  /// - `rules_records`: the digest of the rules in force.
  /// - `disconnect_writes`, `disconnect_exceptions`: the writes to make when connections end. `owner` is a node. `first` is
  ///   the first write of the same connection.
  /// - `accounts`, `tokens`, `account_codes`, `account_states`: identities.
  /// - `login_failures`: the failures of logins by address or session, and the ends of their waits.
  /// - `deleted_accounts`: the ends of the logins of accounts that were deleted within a day. The row with the uid
  ///   `DeletedAccount.anyUID` counts for each account.
  /// - `namespaces`: the namespaces besides the default one.
  /// - `secrets`: the keys of identity tokens and the administrator's token.
  enum PostgresSchema {
    /// The version of the tables that this program makes.
    static let version: Int64 = 4

    /// The number of the lock under which tables are made: "CANOPY".
    private static let lock: Int64 = 0x43_41_4E_4F_50_59

    /// The bytes of a path that the index of `leaves` has.
    static let pathIndexBytes = 1_000

    /// The tables with rows of namespaces.
    static let namespaceTables = [
      "namespaces", "heads", "nodes", "barriers", "commits", "journaled_rules", "checkpoints",
      "leaves", "client_writes", "rules_records", "disconnect_writes", "disconnect_exceptions",
      "accounts", "account_states", "tokens", "account_codes", "deleted_accounts",
      "login_failures", "secrets",
    ]

    /// Makes the tables, or updates those of an older version, in one transaction.
    ///
    /// - Throws: `PostgresError.newerSchema`.
    static func prepare(_ link: Link) throws(PostgresError) {
      if try check(storedVersion(link)) { return }
      _ = try link.begin([
        Query("SELECT pg_advisory_xact_lock($1)", isPrepared: false, .int(lock))
      ])
      // Another node may have made them meanwhile.
      let stored = try storedVersion(link)
      if try check(stored) { return try link.rollBack() }
      var statements: [Query] = []
      for (index, migration) in migrations.enumerated() where Int64(index) >= stored {
        statements += migration.map { Query($0, isPrepared: false) }
      }
      statements.append(Query("DELETE FROM canopy.schema_version", isPrepared: false))
      statements.append(
        Query(
          "INSERT INTO canopy.schema_version(version) VALUES ($1)", isPrepared: false, .int(version)
        ))
      _ = try link.finish(statements)
    }

    /// Whether the stored version is this one.
    private static func check(_ stored: Int64) throws(PostgresError) -> Bool {
      guard stored <= version else {
        throw .newerSchema(
          "the tables in the database have version \(stored), and this program knows \(version): update Canopy on this "
            + "node")
      }
      return stored == version
    }

    /// Returns the version of the stored tables; 0 if there are none.
    private static func storedVersion(_ link: Link) throws(PostgresError) -> Int64 {
      let exists = try link.run([
        // `to_regclass` may not see tables that another session has just made.
        Query(
          """
          SELECT EXISTS (
            SELECT FROM pg_catalog.pg_tables
            WHERE schemaname = 'canopy' AND tablename = 'schema_version')
          """, isPrepared: false)
      ])
      guard try exists[0].bool(0, 0) else { return 0 }
      let rows = try link.run([
        Query("SELECT max(version) FROM canopy.schema_version", isPrepared: false)
      ])
      return try rows[0].optionalInt(0, 0) ?? 0
    }

    /// The statements that lead from each version to the next.
    private static let migrations: [[String]] = [
      [
        "CREATE SCHEMA IF NOT EXISTS canopy",
        "CREATE TABLE canopy.schema_version(version bigint NOT NULL)",
        """
        CREATE TABLE canopy.heads(
          namespace bytea PRIMARY KEY, last bigint NOT NULL, checksum bigint NOT NULL,
          key_time bigint) WITH (fillfactor = 50)
        """,
        """
        CREATE TABLE canopy.nodes(
          namespace bytea, node bytea, run bigint NOT NULL, fence bigint NOT NULL,
          expires timestamptz NOT NULL, PRIMARY KEY(namespace, node)) WITH (fillfactor = 50)
        """,
        """
        CREATE TABLE canopy.barriers(
          namespace bytea, node bytea, number bigint NOT NULL, PRIMARY KEY(namespace, node)
          ) WITH (fillfactor = 50)
        """,
        """
        CREATE TABLE canopy.commits(
          namespace bytea, sequence bigint, time bigint NOT NULL, body bytea NOT NULL, before bytea,
          client bytea, number bigint, seen bigint, note bytea, checksum bigint NOT NULL,
          PRIMARY KEY(namespace, sequence))
        """,
        """
        CREATE TABLE canopy.journaled_rules(
          namespace bytea PRIMARY KEY, text bytea, sequence bigint NOT NULL)
        """,
        """
        CREATE TABLE canopy.checkpoints(
          namespace bytea PRIMARY KEY, checkpoint bigint NOT NULL, base bigint NOT NULL,
          base_checksum bigint NOT NULL, leaf_count bigint NOT NULL, leaf_sum bigint NOT NULL,
          root_sequence bigint NOT NULL, folder bytea, folder_run bigint, folder_expires timestamptz
          ) WITH (fillfactor = 50)
        """,
        """
        CREATE TABLE canopy.leaves(
          namespace bytea NOT NULL, path bytea NOT NULL, value bytea NOT NULL,
          checksum bigint NOT NULL)
        """,
        """
        CREATE INDEX leaves_by_path ON canopy.leaves(
          namespace, substring(path FROM 1 FOR \(pathIndexBytes)))
        """,
        """
        CREATE TABLE canopy.client_writes(
          namespace bytea, client bytea, number bigint, sequence bigint NOT NULL,
          time bigint NOT NULL, seen bigint NOT NULL, PRIMARY KEY(namespace, client, number))
        """,
        """
        CREATE TABLE canopy.rules_records(
          namespace bytea PRIMARY KEY, digest bytea NOT NULL, sequence bigint NOT NULL)
        """,
        "CREATE SEQUENCE canopy.disconnect_ids",
        """
        CREATE TABLE canopy.disconnect_writes(
          namespace bytea, id bigint, first bigint NOT NULL, owner bytea NOT NULL,
          identity bytea NOT NULL, request bytea NOT NULL, PRIMARY KEY(namespace, id))
        """,
        """
        CREATE INDEX disconnect_writes_by_owner ON canopy.disconnect_writes(
          namespace, owner, first, id)
        """,
        """
        CREATE TABLE canopy.disconnect_exceptions(
          namespace bytea NOT NULL, write bigint NOT NULL, path bytea NOT NULL)
        """,
        """
        CREATE INDEX disconnect_exceptions_by_write ON canopy.disconnect_exceptions(namespace, write)
        """,
        """
        CREATE TABLE canopy.accounts(
          namespace bytea, uid bytea, email bytea NOT NULL, email_normalized bytea NOT NULL,
          username bytea NOT NULL, password_hash bytea NOT NULL, created_at bigint NOT NULL,
          is_disabled boolean NOT NULL, is_pending boolean NOT NULL, display_name bytea,
          photo_url bytea, claims bytea, is_email_verified boolean NOT NULL,
          is_custom boolean NOT NULL, valid_since bigint NOT NULL, last_login_at bigint,
          last_refresh_at bigint, PRIMARY KEY(namespace, uid), UNIQUE(namespace, email_normalized))
        """,
        "CREATE INDEX accounts_pending ON canopy.accounts(namespace, uid) WHERE is_pending",
        """
        CREATE TABLE canopy.account_states(
          namespace bytea PRIMARY KEY, deleted_login bigint NOT NULL)
        """,
        """
        CREATE TABLE canopy.tokens(
          namespace bytea, hash bytea, uid bytea NOT NULL, expires_at bigint NOT NULL, claims bytea,
          PRIMARY KEY(namespace, hash))
        """,
        "CREATE INDEX tokens_by_uid ON canopy.tokens(namespace, uid, expires_at)",
        "CREATE INDEX tokens_by_expiry ON canopy.tokens(namespace, expires_at)",
        """
        CREATE TABLE canopy.account_codes(
          namespace bytea, hash bytea, uid bytea NOT NULL, purpose bytea NOT NULL,
          email bytea NOT NULL, expires_at bigint NOT NULL, PRIMARY KEY(namespace, hash))
        """,
        "CREATE INDEX account_codes_by_uid ON canopy.account_codes(namespace, uid)",
        "CREATE INDEX account_codes_by_expiry ON canopy.account_codes(namespace, expires_at)",
      ],
      [
        """
        CREATE TABLE canopy.deleted_accounts(
          namespace bytea, uid bytea, end_of_logins bigint NOT NULL, deleted_at bigint NOT NULL,
          PRIMARY KEY(namespace, uid))
        """,
        "CREATE INDEX deleted_accounts_by_time ON canopy.deleted_accounts(namespace, deleted_at)",
      ],
      [
        "CREATE TABLE canopy.namespaces(namespace bytea PRIMARY KEY)",
        """
        CREATE TABLE canopy.secrets(
          namespace bytea, name bytea, value bytea NOT NULL, PRIMARY KEY(namespace, name))
        """,
      ],
      [
        """
        CREATE TABLE canopy.login_failures(
          namespace bytea, key bytea, failures bigint NOT NULL, wait_end bigint NOT NULL,
          used_at bigint NOT NULL, PRIMARY KEY(namespace, key))
        """,
        "CREATE INDEX login_failures_by_use ON canopy.login_failures(namespace, used_at)",
      ],
    ]
  }
#endif
