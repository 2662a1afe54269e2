#if PostgreSQL
  public import CanopyEngine

  extension PostgresStore: RulesRecordStore {
    /// Returns the record of the rules in force: since which commit they hold.
    public func rulesRecord() async throws -> RulesRecord? {
      try await lanes.run { [namespace] link in
        let rows = try link.run([
          Query(
            "SELECT digest, sequence FROM canopy.rules_records WHERE namespace = $1",
            .bytes(namespace))
        ])[0]
        if rows.isEmpty { return nil }
        return RulesRecord(digest: try rows.text(0, 0), sequence: try rows.int(0, 1))
      }
    }

    /// Replaces the record of the rules in force, in one transaction.
    public func setRulesRecord(_ record: RulesRecord?) async throws {
      guard let record else {
        _ = try await change("DELETE FROM canopy.rules_records WHERE namespace = $1")
        return
      }
      _ = try await change(
        """
        INSERT INTO canopy.rules_records(namespace, digest, sequence) VALUES ($1, $2, $3)
        ON CONFLICT (namespace) DO UPDATE
          SET digest = excluded.digest, sequence = excluded.sequence
        """, .text(record.digest), .int(record.sequence))
    }
  }
#endif
