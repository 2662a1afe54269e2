internal import GRDB

/// The tables of `client.sqlite`, by version.
///
/// - `writes`, `write_items`: the unconfirmed writes; `value` in the form in which a client sends
///   it.
/// - `progress`: one row; `last_write` is the highest id of a write that was recorded, -1 if there was none.
/// - `queries`: the queries listened to; `options` as in the line protocol. `sequence` is the
///   commit of the leaves, null before the first data. `used` ascends with use. `bytes` is the size
///   of the query's leaves.
/// - `leaves`: the received data of each query, relative to its location: a row for each leaf, with
///   its priority. A branch has its priority at `path/.priority`.
enum PersistenceSchema {
  static let applicationID: Int32 = 0x4341_4E43  // "CANC"

  static var migrator: DatabaseMigrator {
    var migrator = DatabaseMigrator()
    migrator.registerMigration("1") { db in
      try db.execute(
        sql: """
          CREATE TABLE writes(
            id INTEGER PRIMARY KEY, milliseconds INTEGER NOT NULL) STRICT;
          CREATE TABLE write_items(
            write INTEGER NOT NULL, position INTEGER NOT NULL, location TEXT NOT NULL,
            value TEXT NOT NULL, PRIMARY KEY(write, position)) STRICT, WITHOUT ROWID;
          CREATE TABLE queries(
            id INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL, options TEXT NOT NULL,
            sequence INTEGER, used INTEGER NOT NULL, is_kept INTEGER NOT NULL,
            bytes INTEGER NOT NULL, UNIQUE(path, options)) STRICT;
          CREATE INDEX queries_by_use ON queries(used);
          CREATE TABLE leaves(
            query INTEGER NOT NULL, path TEXT NOT NULL, value TEXT NOT NULL,
            PRIMARY KEY(query, path)) STRICT, WITHOUT ROWID;
          """)
      try db.execute(sql: "PRAGMA application_id = \(applicationID)")
    }
    migrator.registerMigration("2") { db in
      try db.execute(
        sql: """
          CREATE TABLE progress(last_write INTEGER NOT NULL) STRICT;
          INSERT INTO progress SELECT coalesce(max(id), -1) FROM writes;
          """)
    }
    return migrator
  }
}
