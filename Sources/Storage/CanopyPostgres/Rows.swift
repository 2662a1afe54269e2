#if PostgreSQL
  internal import CLibpq

  /// The rows of a result, in the binary format. Belongs to the thread of its connection.
  final class Rows {
    private let result: OpaquePointer

    /// Takes the ownership of a result.
    init(_ result: OpaquePointer) {
      self.result = result
    }

    deinit {
      PQclear(result)
    }

    /// The number of rows.
    var count: Int { Int(PQntuples(result)) }

    /// Whether there are no rows.
    var isEmpty: Bool { count == 0 }

    /// The number of rows that the statement inserted, changed or deleted.
    var changed: Int { PQcmdTuples(result).flatMap { Int(String(cString: $0)) } ?? 0 }

    /// Returns the bytes of a column; nil for null. They are valid as long as the rows are.
    func bytes(_ row: Int, _ column: Int) -> UnsafeRawBufferPointer? {
      guard 0..<count ~= row, 0..<Int(PQnfields(result)) ~= column else { return nil }
      let (row, column) = (Int32(row), Int32(column))
      guard PQgetisnull(result, row, column) == 0, let value = PQgetvalue(result, row, column)
      else {
        return nil
      }
      return UnsafeRawBufferPointer(start: value, count: Int(PQgetlength(result, row, column)))
    }

    /// Returns the number in a column of the type bigint; nil for null.
    ///
    /// - Throws: `PostgresError.damaged` if the column has another type.
    func optionalInt(_ row: Int, _ column: Int) throws(PostgresError) -> Int64? {
      guard let bytes = bytes(row, column) else { return nil }
      guard bytes.count == 8 else { throw Rows.wrongType(column) }
      return Int64(bigEndian: bytes.loadUnaligned(as: Int64.self))
    }

    /// Returns the number in a column of the type bigint.
    func int(_ row: Int, _ column: Int) throws(PostgresError) -> Int64 {
      guard let number = try optionalInt(row, column) else { throw Rows.wrongType(column) }
      return number
    }

    /// Returns the value of a column of the type boolean.
    func bool(_ row: Int, _ column: Int) throws(PostgresError) -> Bool {
      guard let bytes = bytes(row, column), bytes.count == 1 else { throw Rows.wrongType(column) }
      return bytes[0] != 0
    }

    /// Returns the text of a column; nil for null.
    func optionalText(_ row: Int, _ column: Int) -> String? {
      bytes(row, column).map { String(decoding: $0, as: UTF8.self) }
    }

    /// Returns the text of a column.
    func text(_ row: Int, _ column: Int) throws(PostgresError) -> String {
      guard let text = optionalText(row, column) else { throw Rows.wrongType(column) }
      return text
    }

    private static func wrongType(_ column: Int) -> PostgresError {
      .damaged(
        "a table in the schema canopy is not as expected (column \(column) of a result): "
          + PostgresError.waysOut)
    }
  }
#endif
