public import CanopyEngine
internal import CanopyTree
internal import Foundation
internal import GRDB

extension SQLiteStore {
  /// Reads a page of the history backwards. See `Journal`.
  ///
  /// - Throws: `StoreError.damaged` at the first commit that was altered.
  public func history(
    after first: Int64, through last: Int64, where isAsked: @escaping HistoryFilter
  ) async throws -> HistoryPage {
    try await pool.read { db in
      let rows = try Row.fetchCursor(
        db.cachedStatement(
          sql: """
            SELECT \(CommitRow.columns) FROM commits
            WHERE sequence > ? AND sequence <= ? ORDER BY sequence DESC
            """), arguments: [first, last])
      var page = HistoryPage()
      while !page.isFull, let row = try rows.next() {
        let sequence: Int64 = row[0]
        _ = try CommitRow.check(row, after: CommitRow.chain(db, after: sequence - 1))
        var bytes = try row.withUnsafeData(atIndex: 2) { $0?.count ?? 0 }
        var commit: Commit?
        if isAsked(try SQLiteStore.readLocations(row)) {
          commit = try CommitRow.commitAndImage(row)
          bytes += try row.withUnsafeData(atIndex: 3) { $0?.count ?? 0 }
        }
        guard page.add(sequence, bytes: bytes, commit) else { break }
      }
      return page
    }
  }

  private static func readLocations(_ row: Row) throws -> [Location] {
    do {
      return try row.withUnsafeData(atIndex: 2) { data in
        try (data ?? Data()).withUnsafeBytes { try AssignmentCodec.decodeLocations($0) }
      }
    } catch {
      throw StoreError.damagedRow("commit \(row[0] as Int64)", error)
    }
  }
}

extension SQLiteStore: RulesRecordStore {
  /// Returns the record of the rules in force: since which commit they hold.
  ///
  /// - Throws: `StoreError.damaged` if it was altered.
  public func rulesRecord() async throws -> RulesRecord? {
    try await pool.read { db in
      guard
        let row = try Row.fetchOne(db, sql: "SELECT digest, sequence, checksum FROM rules_record")
      else { return nil }
      try SealedTable.rulesRecord.check(row)
      return RulesRecord(digest: row[0], sequence: row[1])
    }
  }

  /// Replaces the record of the rules in force, in one transaction.
  public func setRulesRecord(_ record: RulesRecord?) async throws {
    try await writeCounted { db in
      try db.execute(sql: "DELETE FROM rules_record")
      guard let record else { return }
      try db.execute(
        sql: "INSERT INTO rules_record(digest, sequence) VALUES (?, ?)",
        arguments: [record.digest, record.sequence])
      try SealedTable.rulesRecord.seal(db, where: "TRUE", [])
    }
  }
}
