internal import GRDB

/// An index of a table with checksums. Its entries have none: they are compared with the rows.
struct StoredIndex {
  let table: SealedTable
  /// The name in the file: that of SQLite for a column without equal values.
  let name: String
  /// The column by which the index is ordered. Rows with the same value are ordered by the key of the table.
  let column: String
  /// The column that is true for the rows that the index has; nil if it has all.
  let condition: String?

  /// All indexes of the tables with checksums, apart from those of the keys of tables, which are the tables themselves.
  static let all: [StoredIndex] = SealedTable.allCases.flatMap(\.indexes)

  /// Returns the columns of an entry: those of the order, and the rest of the key of the table.
  func columns(_ db: Database) throws -> [String] {
    [column] + (try db.primaryKey(table.rawValue).columns.filter { $0 != column })
  }

  /// The SQL expression that is true if the index has the entry of a row of the table. O(log rows).
  func hasEntry(_ db: Database) throws -> String {
    let same = try columns(db).map { "entry.\($0) = \(table.rawValue).\($0)" }
    let exists = """
      EXISTS(SELECT 1 FROM \(table.rawValue) AS entry INDEXED BY \(name)
        WHERE \((same + conditions("entry.")).joined(separator: " AND ")))
      """
    return condition.map { "(NOT \(table.rawValue).\($0) OR \(exists))" } ?? exists
  }

  /// Returns the SQL of a query for the entries after one, in order, with the column `isSound`: whether the table has a
  /// row for the entry.
  ///
  /// - Parameter isFirst: whether it begins with the first entry. Otherwise its arguments are the columns of the entry
  ///   before it.
  func entries(_ db: Database, isFirst: Bool) throws -> String {
    let columns = try columns(db)
    let names = columns.map { "entry.\($0)" }.joined(separator: ", ")
    let keys = try db.primaryKey(table.rawValue).columns
    // SQLite finds the row by its key: it uses no index for a column with a plus.
    let same =
      keys.map { "\(table.rawValue).\($0) = entry.\($0)" }
      + columns.filter { !keys.contains($0) }.map { "+\(table.rawValue).\($0) = entry.\($0)" }
      + conditions("+\(table.rawValue).")
    let after =
      isFirst ? [] : ["(\(names)) > (\(columns.map { _ in "?" }.joined(separator: ", ")))"]
    let bounds = after + conditions("entry.")
    return """
      SELECT \(names),
        EXISTS(SELECT 1 FROM \(table.rawValue) WHERE \(same.joined(separator: " AND "))) AS isSound
      FROM \(table.rawValue) AS entry INDEXED BY \(name)
      \(bounds.isEmpty ? "" : "WHERE \(bounds.joined(separator: " AND "))") ORDER BY \(names)
      """
  }

  private func conditions(_ prefix: String) -> [String] { condition.map { [prefix + $0] } ?? [] }
}

extension SealedTable {
  /// The indexes of the table.
  fileprivate var indexes: [StoredIndex] {
    let columns: [(name: String, column: String, condition: String?)] =
      switch self {
      case .accounts:
        [
          ("sqlite_autoindex_accounts_2", "email_normalized", nil),
          ("accounts_pending", "uid", "is_pending"),
        ]
      case .tokens: [("tokens_by_uid", "uid", nil), ("tokens_by_expiry", "expires_at", nil)]
      case .accountCodes:
        [("account_codes_by_uid", "uid", nil), ("account_codes_by_expiry", "expires_at", nil)]
      case .disconnectGroups: [("disconnect_groups_by_first", "first", nil)]
      case .deletedAccounts: [("deleted_accounts_by_time", "deleted_at", nil)]
      case .disconnectWrites, .clientWrites, .rulesRecord, .accountDetails, .customSessions,
        .disconnectExceptions:
        []
      }
    return columns.map {
      StoredIndex(table: self, name: $0.name, column: $0.column, condition: $0.condition)
    }
  }
}
