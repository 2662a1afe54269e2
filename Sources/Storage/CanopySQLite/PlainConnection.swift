internal import GRDB
internal import GRDBSQLite

/// A connection that copies the log into a database file of which SQLite cannot read the definitions.
///
/// GRDB opens no such file, because it reads the first definition.
final class PlainConnection {
  private let handle: OpaquePointer

  /// Opens a database, and reads its log.
  init(_ path: String) throws {
    var handle: OpaquePointer?
    let code = sqlite3_open_v2(path, &handle, SQLITE_OPEN_READWRITE, nil)
    guard code == SQLITE_OK, let handle else {
      sqlite3_close_v2(handle)
      throw DatabaseError(resultCode: ResultCode(rawValue: code))
    }
    self.handle = handle
    sqlite3_extended_result_codes(handle, 1)
    sqlite3_busy_timeout(handle, 5_000)
    // See `Opening.tolerateDefinitions`.
    try execute("PRAGMA writable_schema = ON")
    sqlite3_exec(handle, "SELECT 1 FROM sqlite_schema", nil, nil, nil)
  }

  deinit { sqlite3_close_v2(handle) }

  /// Runs a statement that returns no rows.
  func execute(_ sql: String) throws { try check(sqlite3_exec(handle, sql, nil, nil, nil)) }

  /// Returns the number of pages of the database with its log.
  func pageCount() throws -> Int {
    var statement: OpaquePointer?
    defer { sqlite3_finalize(statement) }
    try check(sqlite3_prepare_v2(handle, "PRAGMA page_count", -1, &statement, nil))
    guard sqlite3_step(statement) == SQLITE_ROW else { throw error(sqlite3_errcode(handle)) }
    return Int(sqlite3_column_int64(statement, 0))
  }

  /// Copies all frames of the log into the database file, and cuts the log to no bytes.
  func emptyLog() throws {
    try check(
      sqlite3_wal_checkpoint_v2(handle, "main", SQLITE_CHECKPOINT_TRUNCATE, nil, nil))
  }

  private func check(_ code: CInt) throws {
    guard code == SQLITE_OK else { throw error(code) }
  }

  private func error(_ code: CInt) -> DatabaseError {
    DatabaseError(
      resultCode: ResultCode(rawValue: code), message: String(cString: sqlite3_errmsg(handle)))
  }
}
