internal import Foundation
internal import GRDB
internal import GRDBSQLite

/// A prepared statement that passes texts to and from SQLite as bytes, without copies.
///
/// For the few statements that run for every commit or every row. GRDB converts each value (to a validated `String`, a
/// `Data`, an array of arguments), which costs as much as such a statement itself. GRDB still prepares, caches and
/// frees the statement.
///
/// Isolation: the queue of the database. One run at a time.
struct ByteStatement {
  private let database: Database
  private let statement: Statement
  private var handle: SQLiteStatement { statement.sqliteStatement }

  /// Creates a statement from SQL. The database prepares the same SQL only once.
  init(_ db: Database, _ sql: String) throws {
    database = db
    statement = try db.cachedStatement(sql: sql)
    // The last run may have left rows and bindings.
    sqlite3_reset(handle)
    sqlite3_clear_bindings(handle)
  }

  /// Binds a number to an argument. The first argument has the index 1.
  func bind(_ number: Int64, at index: Int32) throws {
    try check(sqlite3_bind_int64(handle, index, number))
  }

  /// Binds a text to an argument. Precondition: the bytes stay valid until the run has ended.
  func bind(_ utf8: UnsafeRawBufferPointer, at index: Int32) throws {
    let base = utf8.baseAddress ?? UnsafeRawPointer(nowhere)
    try check(
      sqlite3_bind_text64(
        handle, index, base.assumingMemoryBound(to: CChar.self), UInt64(utf8.count), nil,
        UInt8(SQLITE_UTF8)))
  }

  /// Binds null to an argument.
  func bindNull(at index: Int32) throws {
    try check(sqlite3_bind_null(handle, index))
  }

  /// Binds the value that a column of another statement's row has.
  func bind(_ column: Int32, of row: ByteStatement, at index: Int32) throws {
    try check(sqlite3_bind_value(handle, index, sqlite3_column_value(row.handle, column)))
  }

  /// Binds a part of a key. SQLite copies its bytes.
  func bind(_ part: SalvageKeyPart, at index: Int32) throws {
    switch part {
    case .number(let number): try bind(number, at: index)
    case .text(let bytes):
      try check(
        bytes.withUnsafeBytes {
          sqlite3_bind_text64(
            handle, index, $0.baseAddress?.assumingMemoryBound(to: CChar.self) ?? nowhere,
            UInt64($0.count), ByteStatement.copied, UInt8(SQLITE_UTF8))
        })
    case .blob(let bytes):
      try check(
        bytes.withUnsafeBytes {
          sqlite3_bind_blob64(
            handle, index, $0.baseAddress ?? UnsafeRawPointer(nowhere), UInt64($0.count),
            ByteStatement.copied)
        })
    }
  }

  /// The value `SQLITE_TRANSIENT`, with which SQLite copies the bytes.
  private static var copied: sqlite3_destructor_type {
    unsafeBitCast(-1, to: sqlite3_destructor_type.self)
  }

  /// The address of an empty text: SQLite takes a text without an address for null.
  private var nowhere: UnsafePointer<CChar> {
    let text: StaticString = ""
    return UnsafeRawPointer(text.utf8Start).assumingMemoryBound(to: CChar.self)
  }

  /// Returns the first columns of the row as a key; nil if one is neither a number, a text nor a blob.
  func key(_ count: Int32) -> SalvageKey? {
    var key: SalvageKey = []
    for column in 0..<count {
      switch sqlite3_column_type(handle, column) {
      case SQLITE_INTEGER: key.append(.number(number(column)))
      case SQLITE_TEXT: key.append(.text(Array(text(column))))
      case SQLITE_BLOB:
        let base = sqlite3_column_blob(handle, column)
        let count = Int(sqlite3_column_bytes(handle, column))
        key.append(.blob(Array(UnsafeRawBufferPointer(start: base, count: count))))
      default: return nil
      }
    }
    return key
  }

  /// Runs a statement that returns no rows.
  func run() throws {
    while try next() {}
  }

  /// Advances to the next row. Returns false after the last row; then the statement can run again.
  func next() throws -> Bool {
    let code = sqlite3_step(handle)
    if code == SQLITE_ROW { return true }
    // After an error, this returns the same error again.
    sqlite3_reset(handle)
    guard code == SQLITE_DONE else { throw error(code) }
    return false
  }

  /// Ends the run before its last row.
  func end() {
    sqlite3_reset(handle)
  }

  /// Returns the number in a column of the row. The first column has the index 0.
  func number(_ column: Int32) -> Int64 {
    sqlite3_column_int64(handle, column)
  }

  /// Returns the text in a column of the row; empty for null. It is valid until the next call of `next` or `end`.
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
