internal import CanopyRows
internal import CanopyTree
internal import GRDB

/// The tables of `canopy.sqlite`, by version.
///
/// - `commits`: the journal, one row for each commit. `AssignmentCodec` writes `body`. `before` is the before-image,
///   written by `BeforeImageCodec`; null if it is unknown or large.
/// - `disconnect_writes`: the writes that the server makes when connections end. `exceptions` is an array of paths in rows of
///   earlier versions, and empty in others.
/// - `disconnect_exceptions`: the locations at which such a write no longer applies, one row each. So a cancellation
///   writes one row, however large the request is and however many were cancelled before.
/// - `disconnect_groups`: the first write of the same connection, for each later one. The writes of a group are made in
///   one commit. A write without a row is the first of its group; in rows of earlier versions it is the only one.
/// - `leaves`: the checkpoint, one row for each leaf or small branch. No row is at or below another. A branch that is
///   spread over rows has its priority at `path/.priority`.
/// - `client_writes`: the writes that clients may send again, until the client says that it has seen the reply. `seen` is
///   the number that the client had seen at the time. `client` is `owner/name`, or the name alone in rows of earlier
///   versions (`WriteOrigin.storedClient`).
/// - `rules_record`: at most one row, with the digest of the rules in force and the last commit before them.
/// - `meta`: the numbers of `Meta`, and the sums of `SealedTable`, which triggers update.
/// - `accounts`, `tokens`: identities, with passwords only as argon2id hashes and tokens only as SHA-256.
/// - `account_details`: the further data of an account. An account without a row has the defaults of `AccountDetails`.
/// - `custom_sessions`: the claims of the sessions that began with a custom token. A trigger removes them with the token.
/// - `account_codes`: the codes of e-mails, only as SHA-256.
/// - `deleted_accounts`: the ends of the logins of accounts that were deleted within a day, so that no custom token that is
///   older creates them again. The row with the uid `DeletedAccount.anyUID` counts for each account.
///
/// Every row has a checksum (see `Checksum` and `SealedTable`), because SQLite has none. `Sealing` computes them for a
/// file of an older version.
enum Schema {
  static let applicationID: Int32 = 0x4341_4E50  // "CANP"

  static var migrator: DatabaseMigrator { migrator { _ in true } }

  /// Returns the migrations whose names are chosen.
  static func migrator(where isChosen: (String) -> Bool) -> DatabaseMigrator {
    var migrator = DatabaseMigrator()
    func register(_ name: String, _ migration: @escaping @Sendable (Database) throws -> Void) {
      if isChosen(name) { migrator.registerMigration(name, migrate: migration) }
    }
    register("1") { db in
      try db.execute(
        sql: """
          CREATE TABLE commits(
            sequence INTEGER PRIMARY KEY, time INTEGER NOT NULL, body TEXT NOT NULL) STRICT;
          CREATE TABLE leaves(
            path TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
          CREATE TABLE meta(
            name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
          INSERT INTO meta VALUES('checkpoint', 0);
          CREATE TABLE accounts(
            uid TEXT PRIMARY KEY, email TEXT NOT NULL, email_normalized TEXT NOT NULL UNIQUE,
            username TEXT NOT NULL, password_hash TEXT NOT NULL, created_at INTEGER NOT NULL,
            is_disabled INTEGER NOT NULL, is_pending INTEGER NOT NULL) STRICT, WITHOUT ROWID;
          CREATE INDEX accounts_pending ON accounts(uid) WHERE is_pending;
          CREATE TABLE tokens(
            hash BLOB PRIMARY KEY, uid TEXT NOT NULL, expires_at INTEGER NOT NULL
            ) STRICT, WITHOUT ROWID;
          CREATE INDEX tokens_by_uid ON tokens(uid);
          CREATE INDEX tokens_by_expiry ON tokens(expires_at);
          """)
      try db.execute(sql: "PRAGMA application_id = \(applicationID)")
    }
    register("2") { db in
      try db.execute(
        sql: """
          ALTER TABLE commits ADD COLUMN before TEXT;
          CREATE TABLE disconnect_writes(
            id INTEGER PRIMARY KEY AUTOINCREMENT, identity TEXT NOT NULL, request TEXT NOT NULL,
            exceptions TEXT NOT NULL) STRICT;
          """)
    }
    register("3") { db in
      try db.execute(
        sql: """
          CREATE TABLE client_writes(
            client TEXT NOT NULL, number INTEGER NOT NULL, sequence INTEGER NOT NULL,
            time INTEGER NOT NULL, PRIMARY KEY(client, number)) STRICT, WITHOUT ROWID;
          """)
    }
    // Has a name instead of a number, so that it cannot be confused with another change of the same number.
    register("client-seen") { db in
      try db.execute(
        sql: "ALTER TABLE client_writes ADD COLUMN seen INTEGER NOT NULL DEFAULT 0")
    }
    register("rules-record") { db in
      try db.execute(
        sql: """
          CREATE TABLE rules_record(digest TEXT NOT NULL, sequence INTEGER NOT NULL) STRICT;
          """)
    }
    register("4") { db in
      for table in ["commits", "leaves"] + SealedTable.first.map(\.rawValue) {
        try db.execute(
          sql: "ALTER TABLE \(table) ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0")
      }
      try db.execute(
        sql: """
          INSERT INTO meta SELECT 'key_time', latest FROM (SELECT max(time) AS latest FROM commits)
            WHERE latest IS NOT NULL;
          """)
    }
    register("sealed-sums") { db in
      for table in SealedTable.first { try table.beginSum(db) }
      try updateChecksum(db)
    }
    // New tables instead of new columns of `accounts`, so that the checksums of the accounts are kept.
    register("identity") { db in
      try db.execute(
        sql: """
          CREATE TABLE account_details(
            uid TEXT PRIMARY KEY, display_name TEXT, photo_url TEXT, claims TEXT,
            is_email_verified INTEGER NOT NULL, is_custom INTEGER NOT NULL,
            valid_since INTEGER NOT NULL, last_login_at INTEGER, last_refresh_at INTEGER,
            checksum INTEGER NOT NULL) STRICT, WITHOUT ROWID;
          CREATE TABLE custom_sessions(
            hash BLOB PRIMARY KEY, claims TEXT NOT NULL, checksum INTEGER NOT NULL
            ) STRICT, WITHOUT ROWID;
          CREATE TRIGGER tokens_delete_claims AFTER DELETE ON tokens BEGIN
            DELETE FROM custom_sessions WHERE hash = old.hash;
          END;
          CREATE TABLE account_codes(
            hash BLOB PRIMARY KEY, uid TEXT NOT NULL, purpose TEXT NOT NULL, email TEXT NOT NULL,
            expires_at INTEGER NOT NULL, checksum INTEGER NOT NULL) STRICT, WITHOUT ROWID;
          CREATE INDEX account_codes_by_uid ON account_codes(uid);
          CREATE INDEX account_codes_by_expiry ON account_codes(expires_at);
          """)
      for table in [SealedTable.accountDetails, .customSessions, .accountCodes] {
        try table.beginSum(db)
      }
      try updateChecksum(db)
    }
    register("disconnect-exceptions") { db in
      try db.execute(
        sql: """
          CREATE TABLE disconnect_exceptions(
            write INTEGER NOT NULL, path TEXT NOT NULL, checksum INTEGER NOT NULL DEFAULT 0,
            PRIMARY KEY(write, path)) STRICT, WITHOUT ROWID;
          """)
      try SealedTable.disconnectExceptions.beginSum(db)
      try updateChecksum(db)
    }
    register("disconnect-groups") { db in
      try db.execute(
        sql: """
          CREATE TABLE disconnect_groups(
            write INTEGER PRIMARY KEY, first INTEGER NOT NULL, checksum INTEGER NOT NULL) STRICT;
          CREATE INDEX disconnect_groups_by_first ON disconnect_groups(first);
          """)
      try SealedTable.disconnectGroups.beginSum(db)
      try updateChecksum(db)
    }
    register("deleted-accounts") { db in
      try db.execute(
        sql: """
          CREATE TABLE deleted_accounts(
            uid TEXT PRIMARY KEY, end_of_logins INTEGER NOT NULL, deleted_at INTEGER NOT NULL,
            checksum INTEGER NOT NULL) STRICT, WITHOUT ROWID;
          CREATE INDEX deleted_accounts_by_time ON deleted_accounts(deleted_at);
          """)
      try SealedTable.deletedAccounts.beginSum(db)
      try updateChecksum(db)
    }
    return migrator
  }

  /// Stores the checksum of the definitions after a migration, if the file has checksums. Existing checksums of rows are
  /// kept. Computing them again would make damaged rows valid.
  private static func updateChecksum(_ db: Database) throws {
    guard try Meta.readUnchecked(db).isSealed else { return }
    var meta: Meta
    // Damaged numbers are refused before, or repaired after. With a new checksum they would count as proven.
    do { meta = try Meta.read(db) } catch is StoreError { return }
    meta[.schema] = try checksum(db).stored
    try meta.write(db)
  }

  /// A version of the definitions, compared with this program's.
  enum Version {
    /// There are no tables yet.
    case empty
    /// An older version of Canopy wrote the file, or its update has not ended.
    case older
    /// This version wrote the file.
    case current
    /// A newer version of Canopy wrote the file.
    case newer
    /// The record of the version was altered.
    case damaged
  }

  /// Returns the version of a file by its record of migrations.
  ///
  /// A newer version keeps the names of all migrations. So an unknown name in place of a known one is damage. So is a
  /// name that is missing if the tables are those of this version.
  static func version(_ db: Database) throws -> Version {
    guard let stored = try record(db) else { return try tableCount(db) == 0 ? .empty : .damaged }
    let known = Set(migrator.migrations.map { ByteString($0) })
    if stored == known { return .current }
    if stored.isSuperset(of: known) { return .newer }
    // The first start may end before the first migration.
    if stored.isEmpty, try tableCount(db) == 0 { return .empty }
    guard stored.isSubset(of: known), stored.isSuperset(of: ["1"]) else { return .damaged }
    return try hasDefinitionsOfThisVersion(db) ? .damaged : .older
  }

  /// Returns the names of the migrations of a file; nil if there is no table with them. A view in its place, whose query
  /// may never end, is not read.
  static func record(_ db: Database) throws -> Set<ByteString>? {
    let tables = try Row.fetchAll(db, sql: "PRAGMA table_list(grdb_migrations)")
    let columns = try Row.fetchAll(db, sql: "PRAGMA table_xinfo(grdb_migrations)")
    guard tables.count == 1, tables[0]["type"] as String? == "table",
      columns.contains(where: {
        $0["name"] as String? == "identifier" && $0["hidden"] as Int? == 0
      })
    else { return nil }
    let names = try DatabaseValue.fetchAll(db, sql: "SELECT identifier FROM grdb_migrations")
    return Set(names.map { ByteString(String.fromDatabaseValue($0) ?? "") })
  }

  /// Returns the number of tables, indexes and triggers without the record of migrations.
  static func tableCount(_ db: Database) throws -> Int {
    try Int.fetchOne(
      db, sql: "SELECT count(*) FROM sqlite_schema WHERE tbl_name <> 'grdb_migrations'") ?? 0
  }

  /// Whether all tables and indexes are defined as in a new file.
  static func hasDefinitionsOfThisVersion(_ db: Database) throws -> Bool {
    let new = try inMemory()
    try migrator.migrate(new)
    return try checksum(db) == new.read { try checksum($0) }
  }

  /// Writes the record of migrations again. Precondition: the definitions are those of this version.
  static func repairVersion(_ db: Database) throws {
    try db.execute(sql: "DELETE FROM grdb_migrations")
    for name in migrator.migrations {
      try db.execute(sql: "INSERT INTO grdb_migrations VALUES (?)", arguments: [name])
    }
  }

  /// Returns the checksum of the definitions of all tables and indexes.
  static func checksum(_ db: Database) throws -> Checksum {
    let rows = try Row.fetchCursor(
      db,
      sql: """
        SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema ORDER BY type, name
        """)
    var checksum = Checksum(seed: 5)
    while let row = try rows.next() {
      for column in 0..<4 { checksum.add(row[column] as String? ?? "") }
    }
    return checksum
  }
}
