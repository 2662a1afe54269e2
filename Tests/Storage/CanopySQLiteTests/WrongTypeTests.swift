import CanopyRows
import GRDB
import Testing

@testable import CanopySQLite

/// Columns with values of other types than their definitions, as damaged pages have them.
struct WrongTypeTests {
  private static let wrong: [DatabaseValue] = [.null, "text".databaseValue, 1.5.databaseValue]

  @Test(arguments: wrong)
  func `a checksum that is not a number is damage`(value: DatabaseValue) {
    let row: Row = ["digest": "file:x", "sequence": 1, "checksum": value]
    #expect(throws: StoreError.self) { try SealedTable.rulesRecord.check(row) }
  }

  @Test(arguments: wrong)
  func `a commit with a text in place of a number is damage`(value: DatabaseValue) {
    // The columns are found by their places.
    let rows: [Row] = [
      ["sequence": value, "time": 2, "body": "{}", "before": nil, "checksum": 3],
      ["sequence": 1, "time": value, "body": "{}", "before": nil, "checksum": 3],
      ["sequence": 1, "time": 2, "body": "{}", "before": nil, "checksum": value],
    ]
    for row in rows {
      #expect(throws: StoreError.self) { try CommitRow.check(row, after: Checksum()) }
    }
  }
}
