#if PostgreSQL

  /// A statement with its parameters, in the binary format.
  struct Query: Sendable {
    /// The text of the statement.
    let sql: String
    /// Whether the server keeps the prepared statement for the next time.
    let isPrepared: Bool
    private(set) var parameters = Parameters()

    /// Creates a query.
    ///
    /// - Parameter isPrepared: false for a statement that runs once, such as the definition of a table.
    init(_ sql: String, isPrepared: Bool = true, _ values: Parameter...) {
      self.sql = sql
      self.isPrepared = isPrepared
      for value in values { parameters.append(value) }
    }

    /// Adds parameters.
    mutating func append(_ values: [Parameter]) {
      for value in values { parameters.append(value) }
    }

    static let begin = Query("BEGIN ISOLATION LEVEL READ COMMITTED")
    static let beginSnapshot = Query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    static let commit = Query("COMMIT")
    static let rollBack = Query("ROLLBACK")

    /// Whether the statement ends a transaction, and so makes its changes.
    var isCommit: Bool { sql.utf8.elementsEqual(Query.commit.sql.utf8) }
  }

  /// A value of a parameter. Texts are bytes, because PostgreSQL compares texts by a collation and refuses U+0000.
  enum Parameter: Sendable {
    case int(Int64?)
    case bool(Bool)
    case bytes([UInt8])
    case text(String?)
    case ints([Int64?])
    case byteArrays([[UInt8]?])
  }

  /// The bytes of parameters, one after the other.
  struct Parameters: Sendable {
    private(set) var bytes: [UInt8] = []
    /// The range of each parameter; nil for null.
    private(set) var ranges: [Range<Int>?] = []

    mutating func append(_ parameter: Parameter) {
      let start = bytes.count
      switch parameter {
      case .int(nil), .text(nil):
        ranges.append(nil)
        return
      case .int(let number?): append(number)
      case .bool(let value): bytes.append(value ? 1 : 0)
      case .bytes(let value): bytes += value
      case .text(let text?): bytes += text.utf8
      case .ints(let values):
        beginArray(values.count, hasNull: values.contains(nil), elements: Parameters.int8)
        for value in values {
          append32(value == nil ? -1 : 8)
          if let value { append(value) }
        }
      case .byteArrays(let values):
        beginArray(values.count, hasNull: values.contains(nil), elements: Parameters.bytea)
        for value in values {
          append32(value.map { Int32(clamping: $0.count) } ?? -1)
          if let value { bytes += value }
        }
      }
      ranges.append(start..<bytes.count)
    }

    /// The numbers of types, which are the same in every database.
    private static let int8: Int32 = 20
    private static let bytea: Int32 = 17

    private mutating func beginArray(_ count: Int, hasNull: Bool, elements: Int32) {
      append32(count == 0 ? 0 : 1)
      append32(hasNull ? 1 : 0)
      append32(elements)
      guard count > 0 else { return }
      append32(Int32(clamping: count))
      append32(1)
    }

    private mutating func append(_ number: Int64) {
      withUnsafeBytes(of: number.bigEndian) { bytes += $0 }
    }

    private mutating func append32(_ number: Int32) {
      withUnsafeBytes(of: number.bigEndian) { bytes += $0 }
    }
  }

  extension Parameters {
    /// Calls `body` with the arrays that libpq takes.
    func withPointers<R>(
      _ body: (Int32, [UnsafePointer<CChar>?], [Int32], [Int32]) -> R
    ) -> R {
      // The buffer is not empty, so that it has an address: a value without an address counts as null.
      (bytes + [0]).withUnsafeBufferPointer { buffer in
        buffer.withMemoryRebound(to: CChar.self) { buffer in
          body(
            Int32(clamping: ranges.count),
            ranges.map { range in
              range.flatMap { r in buffer.baseAddress.map { $0 + r.lowerBound } }
            },
            ranges.map { Int32(clamping: $0?.count ?? 0) }, ranges.map { _ in 1 })
        }
      }
    }
  }
#endif
