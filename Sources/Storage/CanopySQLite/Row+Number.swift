internal import GRDB

extension Row {
  /// Returns the number in a column; nil for any other value.
  ///
  /// In a damaged page, a column can be null, a text or a blob, in spite of the definition. GRDB's subscript would end the
  /// process.
  func number(_ index: Int) -> Int64? { Int64.fromDatabaseValue(self[index] as DatabaseValue) }

  /// Returns the number in the column with a name; nil for any other value.
  func number(_ name: String) -> Int64? { Int64.fromDatabaseValue(self[name] as DatabaseValue) }
}
