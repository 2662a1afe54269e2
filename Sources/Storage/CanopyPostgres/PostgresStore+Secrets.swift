#if PostgreSQL
  public import CanopyAccounts

  /// Secrets that all nodes need.
  extension PostgresStore: SecretStore {
    /// Returns a secret, by the primary key.
    public func secret(_ name: String) async throws -> [UInt8]? {
      try await lanes.run { [namespace] link in
        let rows = try link.run([PostgresStore.secretQuery(namespace, name)])[0]
        return rows.isEmpty ? nil : rows.bytes(0, 0).map { Array($0) }
      }
    }

    /// Stores a secret unless there is one, and returns the stored one, in one transaction.
    public func insertSecret(_ name: String, _ secret: [UInt8]) async throws -> [UInt8] {
      try await lanes.run { [namespace] link in
        let rows = try link.commit([
          // Waits for another node that inserts the same one.
          Query(
            """
            INSERT INTO canopy.secrets(namespace, name, value) VALUES ($1, $2, $3)
            ON CONFLICT DO NOTHING
            """, .bytes(namespace), .text(name), .bytes(secret)),
          PostgresStore.secretQuery(namespace, name),
        ])[1]
        guard !rows.isEmpty, let stored = rows.bytes(0, 0) else {
          throw PostgresError.damaged("a secret is missing: \(PostgresError.waysOut)")
        }
        return Array(stored)
      }
    }

    private static func secretQuery(_ namespace: [UInt8], _ name: String) -> Query {
      Query(
        "SELECT value FROM canopy.secrets WHERE namespace = $1 AND name = $2", .bytes(namespace),
        .text(name))
    }
  }
#endif
