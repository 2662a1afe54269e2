public import CanopyEngine
internal import GRDB

extension SQLiteStore: RulesRecordStore {
  /// Returns the record of the rules in force.
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
