internal import Foundation
internal import GRDB
internal import GRDBSQLite

/// A statement whose texts go to SQLite and come from it as the bytes that they are, where they lie.
///
/// For the few statements that run with every commit and for every row. What GRDB otherwise makes of a value
/// on its way (a `String` that is validated, a `Data`, an array of arguments) costs as much there as the
/// statement itself. All others are GRDB's, and this one is prepared, kept and freed by it.
///
/// Used where the database is, and for one run at a time.
struct ByteStatement {
  private let database: Database
  private let statement: Statement
  private var handle: SQLiteStatement { statement.sqliteStatement }

  /// The statement of some text, which is prepared once.
  init(_ db: Database, _ sql: String) throws {
    database = db
    statement = try db.cachedStatement(sql: sql)
    // Whatever its last run left.
    sqlite3_reset(handle)
    sqlite3_clear_bindings(handle)
  }

  /// Gives an argument a number; the first argument is 1.
  func bind(_ number: Int64, at index: Int32) throws {
    try check(sqlite3_bind_int64(handle, index, number))
  }

  /// Gives an argument a text, which must stay where it is until the run has ended.
  func bind(_ utf8: UnsafeRawBufferPointer, at index: Int32) throws {
    // Without an address it would be null.
    let nowhere: StaticString = ""
    let base = utf8.baseAddress ?? UnsafeRawPointer(nowhere.utf8Start)
    try check(
      sqlite3_bind_text64(
        handle, index, base.assumingMemoryBound(to: CChar.self), UInt64(utf8.count), nil,
        UInt8(SQLITE_UTF8)))
  }

  /// Gives an argument no value.
  func bindNull(at index: Int32) throws {
    try check(sqlite3_bind_null(handle, index))
  }

  /// Runs a statement that has no rows.
  func run() throws {
    while try next() {}
  }

  /// Goes to the next row; false after the last, when the statement can be run again.
  func next() throws -> Bool {
    let code = sqlite3_step(handle)
    if code == SQLITE_ROW { return true }
    // Says the same once more if it was an error.
    sqlite3_reset(handle)
    guard code == SQLITE_DONE else { throw error(code) }
    return false
  }

  /// Ends the run before the last row.
  func end() {
    sqlite3_reset(handle)
  }

  /// The number in a column of the row; the first column is 0.
  func number(_ column: Int32) -> Int64 {
    sqlite3_column_int64(handle, column)
  }

  /// The text in a column of the row, until the next step; empty for null.
  func text(_ column: Int32) -> UnsafeRawBufferPointer {
    let base = sqlite3_column_text(handle, column)
    return UnsafeRawBufferPointer(start: base, count: Int(sqlite3_column_bytes(handle, column)))
  }

  private func check(_ code: CInt) throws {
    guard code == SQLITE_OK else { throw error(code) }
  }

  private func error(_ code: CInt) -> DatabaseError {
    DatabaseError(
      resultCode: ResultCode(rawValue: code), message: database.lastErrorMessage,
      sql: statement.sql)
  }
}
