internal import CanopyEngine
internal import GRDB

/// The removal of the altered rows of tables with checksums.
struct TableRepair {
  let db: Database
  /// The tables from which altered rows were removed.
  private(set) var altered: Set<SealedTable> = []
  /// The tables of which other rows are missing or older than the last change.
  private(set) var stale: Set<SealedTable> = []

  init(db: Database) {
    self.db = db
  }

  /// Removes the altered rows of a table, and corrects its sum. Returns a description of each loss. O(size).
  mutating func repair(_ table: SealedTable) throws -> [String] {
    let problems = try table.problems(db)
    guard !problems.isEmpty else { return [] }
    try db.execute(
      sql: "DELETE FROM \(table.rawValue) WHERE checksum IS NOT \(table.expression)")
    let count = db.changesCount
    let isStale = try !table.hasSumOfRows(db)
    if table == .rulesRecord, try Int.fetchOne(db, sql: "SELECT 1 FROM rules_record") == nil {
      // It is not known whether there was a file of rules. If it is missing, nothing must be open.
      try SQLiteStore.setRulesRecord(RulesRecord(.file, sequence: 0), db)
    }
    try table.writeSum(db)
    var notes: [String] = []
    if count > 0 {
      altered.insert(table)
      notes.append("\(count) altered rows of the table \(table.rawValue)")
    }
    guard isStale else { return notes }
    stale.insert(table)
    let doubt =
      switch table {
      case .accounts: "; passwords may be older ones, and disabled accounts may be enabled"
      case .accountDetails: "; claims and names may be older ones"
      default: ""
      }
    return notes + ["rows of the table \(table.rawValue) that are missing or older" + doubt]
  }
}
