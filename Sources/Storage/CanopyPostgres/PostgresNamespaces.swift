#if PostgreSQL
  /// The list of the namespaces of a database, and their creation and removal.
  ///
  /// A namespace that nodes serve without such a row, as the default one, is not in the list.
  public final class PostgresNamespaces: Sendable {
    let lane: Lane

    /// Connects, and makes the tables if they are missing.
    ///
    /// - Throws: `PostgresError`.
    public init(_ configuration: PostgresStore.Configuration) async throws {
      lane = try Lane(
        Link.Settings(
          url: configuration.url, replySeconds: configuration.replySeconds,
          uptime: configuration.uptime)
      ) { try PostgresSchema.prepare($0) }
      try await lane.run { _ in }
    }

    /// Closes the connection.
    public func close() async { await lane.close() }

    /// Returns the names, in the order of their bytes.
    public func names() async throws -> [String] {
      try await lane.run(attempts: 2) { link in
        let rows = try link.run([Query("SELECT namespace FROM canopy.namespaces ORDER BY 1")])[0]
        return try (0..<rows.count).map { row in try rows.text(row, 0) }
      }
    }

    /// Creates a namespace. Returns false if it exists.
    public func create(_ name: String) async throws -> Bool {
      try await lane.run { link in
        try link.commit([
          Query(
            "INSERT INTO canopy.namespaces(namespace) VALUES ($1) ON CONFLICT DO NOTHING",
            .text(name))
        ])[0].changed == 1
      }
    }

    /// The outcome of a removal.
    public enum Removal: Sendable, Equatable {
      case removed
      /// There is no such namespace.
      case missing
      /// A node has it open.
      case inUse
    }

    /// Removes a namespace with all its rows, in one transaction, unless a node has it open.
    public func remove(_ name: String) async throws -> Removal {
      try await lane.run { link in
        // A node that registers needs its row in `namespaces`, and waits for this transaction.
        let begun = try link.begin([
          Query("SET LOCAL statement_timeout = 0", isPrepared: false),
          Query("SELECT 1 FROM canopy.namespaces WHERE namespace = $1 FOR UPDATE", .text(name)),
          Query(
            """
            SELECT 1 FROM canopy.nodes
            WHERE namespace = $1 AND expires >= clock_timestamp() LIMIT 1
            """, .text(name)),
        ])
        guard !begun[1].isEmpty else {
          try link.rollBack()
          return .missing
        }
        guard begun[2].isEmpty else {
          try link.rollBack()
          return .inUse
        }
        _ = try link.finish(
          PostgresSchema.namespaceTables.map { table in
            Query(
              "DELETE FROM canopy.\(table) WHERE namespace = $1", isPrepared: false, .text(name))
          })
        return .removed
      }
    }
  }
#endif
