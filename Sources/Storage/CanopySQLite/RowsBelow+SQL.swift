internal import CanopyRows
internal import GRDB

extension RowsBelow {
  /// The condition in SQL.
  var condition: String { to == nil ? "path >= :from" : "path >= :from AND path < :to" }

  /// The arguments of the condition.
  var arguments: StatementArguments { to.map { ["from": from, "to": $0] } ?? ["from": from] }

  /// Whether no such row exists.
  ///
  /// - Parameter butPriorities: whether to ignore rows of priorities.
  func isEmpty(_ db: Database, butPriorities: Bool = false) throws -> Bool {
    let kind = butPriorities ? "AND substr(path, -9) <> '.priority'" : ""
    let statement = try db.cachedStatement(
      sql: "SELECT 1 FROM leaves WHERE \(condition) \(kind) LIMIT 1")
    return try Int.fetchOne(statement, arguments: arguments) == nil
  }
}
