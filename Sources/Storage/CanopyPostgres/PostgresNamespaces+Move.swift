#if PostgreSQL
  /// Moves of whole servers into the database and out of it.
  extension PostgresNamespaces {
    /// The beginning of the names under which a move fills namespaces. The name of a namespace has no slash.
    public static let movingPrefix = "moving/"

    /// Whether a namespace has data, or had a node.
    public func exists(_ name: String) async throws -> Bool {
      try await lane.run(attempts: 2) { link in
        try !link.run([
          Query("SELECT 1 FROM canopy.heads WHERE namespace = $1", .text(name))
        ])[0].isEmpty
      }
    }

    /// Whether a node other than `node` has a namespace open.
    public func isServed(butBy node: String) async throws -> Bool {
      try await lane.run(attempts: 2) { link in
        try !link.run([
          Query(
            """
            SELECT 1 FROM canopy.nodes
            WHERE node <> $1 AND expires >= clock_timestamp() LIMIT 1
            """, .text(node))
        ])[0].isEmpty
      }
    }

    /// Removes the rows of moves that did not reach their end.
    public func removeRests() async throws {
      let names = try await lane.run(attempts: 2) { link in
        let rows = try link.run([
          Query(
            """
            SELECT namespace FROM canopy.heads AS head
            WHERE substring(namespace FROM 1 FOR $2::bigint::int) = $1 AND NOT EXISTS (
              SELECT FROM canopy.nodes AS node
              WHERE node.namespace = head.namespace AND expires >= clock_timestamp())
            """, .text(Self.movingPrefix), .int(Int64(Self.movingPrefix.utf8.count)))
        ])[0]
        return try (0..<rows.count).map { row in try rows.text(row, 0) }
      }
      try await discard(names)
    }

    /// Removes all rows of namespaces in one transaction.
    public func discard(_ names: [String]) async throws {
      guard !names.isEmpty else { return }
      try await lane.run { link in
        _ = try link.begin([Query("SET LOCAL statement_timeout = 0", isPrepared: false)])
        _ = try link.finish(
          PostgresSchema.namespaceTables.map { table in
            Query(
              "DELETE FROM canopy.\(table) WHERE namespace = ANY($1::bytea[])", isPrepared: false,
              .byteArrays(names.map { Array($0.utf8) }))
          })
      }
    }

    /// Gives namespaces their final names, in one transaction.
    ///
    /// - Parameters:
    ///   - names: the present and the final name of each.
    ///   - listed: the final names to add to the list.
    /// - Returns: false, without a change, if one of the final names exists.
    public func publish(
      _ names: [(present: String, final: String)], listing listed: [String]
    ) async throws -> Bool {
      try await lane.run { link in
        let finals = Parameter.byteArrays(names.map { Array($0.final.utf8) })
        // The lock keeps nodes from registering meanwhile.
        let begun = try link.begin([
          Query("SET LOCAL statement_timeout = 0", isPrepared: false),
          Query("LOCK TABLE canopy.heads IN EXCLUSIVE MODE", isPrepared: false),
          Query("SELECT 1 FROM canopy.heads WHERE namespace = ANY($1::bytea[])", finals),
        ])
        guard begun[2].isEmpty else {
          try link.rollBack()
          return false
        }
        var queries: [Query] = []
        for table in PostgresSchema.namespaceTables {
          for (present, final) in names {
            queries.append(
              Query(
                "UPDATE canopy.\(table) SET namespace = $2 WHERE namespace = $1",
                isPrepared: false, .text(present), .text(final)))
          }
        }
        queries.append(
          Query(
            """
            INSERT INTO canopy.namespaces(namespace) SELECT unnest($1::bytea[])
            ON CONFLICT DO NOTHING
            """, .byteArrays(listed.map { Array($0.utf8) })))
        _ = try link.finish(queries)
        return true
      }
    }
  }
#endif
