internal import GRDB

/// The tables of `client.sqlite`, by version.
///
/// - `writes`, `write_items`: what the server has not confirmed; `value` as a client sends it.
/// - `queries`: what the server was asked for; `options` as the line protocol has them. `sequence` is
///   the commit as of which the leaves are, null before anything was told. `used` ascends with use.
///   `bytes` is what the query's leaves take up.
/// - `leaves`: what it told of each, relative to the query's location: a row for each leaf, with its
///   priority. A branch has its priority at `path/.priority`.
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
    return migrator
  }
}
