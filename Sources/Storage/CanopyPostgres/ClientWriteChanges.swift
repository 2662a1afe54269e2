#if PostgreSQL
  internal import CanopyEngine
  internal import CanopyTree

  /// The changes that the commits of one append make to `client_writes`, as if each commit made its own in turn: it removes
  /// the writes of its client up to the number seen, then adds its own.
  struct ClientWriteChanges {
    private struct Client {
      /// The number up to which stored rows are removed.
      var seen: Int64 = 0
      /// The rows to add, by their numbers.
      var rows: [Int64: ClientWrite] = [:]
    }

    private var clients: [ByteString: Client] = [:]

    /// Adds the write of the next commit. O(rows of its client).
    mutating func add(_ write: ClientWrite) {
      let origin = write.origin
      let name = ByteString(origin.storedClient)
      var client = clients.removeValue(forKey: name) ?? Client()
      client.seen = max(client.seen, origin.seen)
      client.rows = client.rows.filter { $0.key > origin.seen }
      client.rows[origin.number] = write
      clients[name] = client
    }

    /// Returns the queries that make the changes if a condition holds.
    func queries(_ parameters: [Parameter], _ condition: String) -> [Query] {
      guard !clients.isEmpty else { return [] }
      let ordered = clients.sorted { $0.key < $1.key }
      let rows = ordered.flatMap { client in
        client.value.rows.values.sorted { $0.origin.number < $1.origin.number }
      }
      let seen = ordered.filter { $0.value.seen > 0 }
      var queries: [Query] = []
      if !seen.isEmpty {
        queries.append(
          Query(
            """
            DELETE FROM canopy.client_writes AS stored
            USING unnest($4::bytea[], $5::bigint[]) AS client(name, seen)
            WHERE stored.namespace = $1 AND stored.client = client.name
              AND stored.number <= client.seen AND \(condition)
            """,
            parameters + [
              .byteArrays(seen.map { Array($0.key.text.utf8) }), .ints(seen.map(\.value.seen)),
            ]))
      }
      queries.append(
        Query(
          """
          INSERT INTO canopy.client_writes(namespace, client, number, sequence, time, seen)
          SELECT $1, rows.* FROM unnest(
            $4::bytea[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[]) AS rows
          WHERE \(condition)
          ON CONFLICT (namespace, client, number) DO UPDATE
            SET sequence = excluded.sequence, time = excluded.time, seen = excluded.seen
          """,
          parameters + [
            .byteArrays(rows.map { Array($0.origin.storedClient.utf8) }),
            .ints(rows.map(\.origin.number)), .ints(rows.map(\.sequence)), .ints(rows.map(\.time)),
            .ints(rows.map(\.origin.seen)),
          ]))
      return queries
    }
  }
#endif
