public import CanopyEngine
internal import GRDB

extension SQLiteStore: RulesRecordStore {
  /// Returns the record of the rules in force.
  public func rulesRecord() async throws -> RulesRecord? {
    try await pool.read { db in
      try Row.fetchOne(db, sql: "SELECT digest, sequence FROM rules_record")
        .map { RulesRecord(digest: $0[0], sequence: $0[1]) }
    }
  }

  /// Replaces the record of the rules in force, in one transaction.
  public func setRulesRecord(_ record: RulesRecord?) async throws {
    try await pool.write { db in
      try db.execute(sql: "DELETE FROM rules_record")
      guard let record else { return }
      try db.execute(
        sql: "INSERT INTO rules_record(digest, sequence) VALUES (?, ?)",
        arguments: [record.digest, record.sequence])
    }
  }
}
