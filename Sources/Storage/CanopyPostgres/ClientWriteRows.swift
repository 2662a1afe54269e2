#if PostgreSQL
  internal import CanopyEngine
  internal import CanopyRows
  internal import CanopyTree

  /// The rows of `client_writes` of a namespace.
  struct ClientWriteRows: Sendable {
    /// The time, in milliseconds, that a client may be away. A write that it sends again later could be made twice.
    static let clientMilliseconds: Int64 = 30 * 24 * 3_600_000

    private let namespace: [UInt8]

    init(_ namespace: [UInt8]) {
      self.namespace = namespace
    }

    /// Returns the writes that the engine begins with, the oldest first: at most `rowsMax`, as `ClientWriteBound` selects
    /// them.
    func read(_ link: Link, rowsMax: Int) throws -> [ClientWrite] {
      let bound = try bound(link, rowsMax: rowsMax)
      var writes: [ClientWrite] = []
      try link.forEachRow(
        Query(
          """
          SELECT client, number, sequence, time, seen FROM canopy.client_writes
          WHERE namespace = $1 ORDER BY sequence
          """, .bytes(namespace))
      ) { rows in
        guard let client = rows.bytes(0, 0) else { return }
        let sequence = try rows.int(0, 2)
        guard !bound.excludes(ClientWriteBound.owner(of: client), sequence) else { return }
        let (number, seen) = (try rows.int(0, 1), try rows.int(0, 4))
        do throws(TreeError) {
          let origin = try WriteOrigin(
            storedClient: String(decoding: client, as: UTF8.self), number: number, seen: seen)
          writes.append(ClientWrite(origin: origin, sequence: sequence, time: 0))
        } catch {
          throw PostgresError.unreadable("a write of a client", error.sentence)
        }
        writes[writes.count - 1].time = try rows.int(0, 3)
      }
      return writes
    }

    /// Selects the rows to keep.
    func bound(_ link: Link, rowsMax: Int) throws -> ClientWriteBound {
      let count = try link.run([
        Query(
          "SELECT count(*) FROM canopy.client_writes WHERE namespace = $1", .bytes(namespace))
      ])[0].int(0, 0)
      guard count > Int64(clamping: rowsMax) else { return ClientWriteBound() }
      let rows = try link.run([
        Query(
          """
          SELECT CASE WHEN position('\\x2f'::bytea IN client) > 0
              THEN substring(client FROM 1 FOR position('\\x2f'::bytea IN client)) ELSE client END,
            count(*), max(sequence)
          FROM canopy.client_writes WHERE namespace = $1 GROUP BY 1
          """, .bytes(namespace))
      ])[0]
      let owners = try (0..<rows.count).map { row in
        ClientWriteBound.Owner(
          name: rows.bytes(row, 0).map { Array($0) } ?? [],
          count: Int(clamping: try rows.int(row, 1)), last: try rows.int(row, 2))
      }
      return try ClientWriteBound(owners, rowsMax: rowsMax) { owner, number in
        let rows = try link.run([
          Query(
            """
            SELECT sequence FROM canopy.client_writes
            WHERE namespace = $1 AND client >= $2 AND client < $3
            ORDER BY sequence DESC LIMIT 1 OFFSET $4
            """, .bytes(namespace), .bytes(owner), .bytes(ClientWriteBound.end(of: owner)),
            .int(Int64(max(0, number - 1))))
        ])[0]
        return rows.isEmpty ? .min : try rows.int(0, 0)
      }
    }

    /// Removes the next rows that are too old or too many, in the order of their keys.
    ///
    /// - Returns: the key of the last row that was looked at; nil after the last row.
    func forget(
      _ link: Link, before end: Int64, _ bound: ClientWriteBound,
      after last: ClientWriteBound.RowKey, limit: Int
    ) throws -> ClientWriteBound.RowKey? {
      let rows = try link.run([
        Query(
          """
          SELECT client, number, sequence, time FROM canopy.client_writes
          WHERE namespace = $1 AND (client, number) > ($2, $3) ORDER BY client, number LIMIT $4
          """, .bytes(namespace), .text(last.client), .int(last.number), .int(Int64(limit)))
      ])[0]
      var clients: [[UInt8]?] = []
      var numbers: [Int64?] = []
      var sequences: [Int64?] = []
      for row in 0..<rows.count {
        guard let client = rows.bytes(row, 0) else { continue }
        let sequence = try rows.int(row, 2)
        guard
          try rows.int(row, 3) < end
            || bound.excludes(ClientWriteBound.owner(of: client), sequence)
        else { continue }
        clients.append(Array(client))
        numbers.append(try rows.int(row, 1))
        sequences.append(sequence)
      }
      if !clients.isEmpty {
        // A row that was written again meanwhile has another sequence number, and stays.
        _ = try link.run([
          Query(
            """
            DELETE FROM canopy.client_writes AS stored
            USING unnest($2::bytea[], $3::bigint[], $4::bigint[]) AS old(client, number, sequence)
            WHERE stored.namespace = $1 AND stored.client = old.client
              AND stored.number = old.number AND stored.sequence = old.sequence
            """, .bytes(namespace), .byteArrays(clients), .ints(numbers), .ints(sequences))
        ])
      }
      guard rows.count == limit else { return nil }
      return (try rows.text(limit - 1, 0), try rows.int(limit - 1, 1))
    }
  }
#endif
