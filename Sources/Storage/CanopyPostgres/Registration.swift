#if PostgreSQL

  /// The row of a node in `nodes`: its run, its fence, and the end of its lease by the database's clock.
  struct Registration: Sendable {
    let namespace: [UInt8]
    let node: [UInt8]
    let run: Int64
    let leaseSeconds: Double

    private var leaseMilliseconds: Int64 { Int64(max(1, min(leaseSeconds * 1_000, 1e12))) }

    /// Creates the rows of the namespace if they are missing, and registers this run of the node. Appends of an earlier run
    /// are refused from now on.
    ///
    /// - Returns: the fence of the run.
    func register(_ link: Link) throws(PostgresError) -> Int64 {
      let rows = try link.commit([
        Query(
          """
          INSERT INTO canopy.heads(namespace, last, checksum) VALUES ($1, 0, 0)
          ON CONFLICT DO NOTHING
          """, .bytes(namespace)),
        Query(
          """
          INSERT INTO canopy.checkpoints(
            namespace, checkpoint, base, base_checksum, leaf_count, leaf_sum, root_sequence)
          VALUES ($1, 0, 0, 0, 0, 0, 0) ON CONFLICT DO NOTHING
          """, .bytes(namespace)),
        Query(
          """
          INSERT INTO canopy.nodes(namespace, node, run, fence, expires)
          VALUES ($1, $2, $3, 1, clock_timestamp() + $4::bigint * interval '1 millisecond')
          ON CONFLICT (namespace, node) DO UPDATE
            SET run = excluded.run, fence = nodes.fence + 1, expires = excluded.expires
          RETURNING fence
          """, .bytes(namespace), .bytes(node), .int(run), .int(leaseMilliseconds)),
      ])
      return try rows[2].int(0, 0)
    }

    /// Extends the lease. Returns false if another process has registered under the name of the node.
    func renew(_ link: Link) throws(PostgresError) -> Bool {
      let rows = try link.commit([
        Query(
          """
          UPDATE canopy.nodes SET expires = clock_timestamp() + $4::bigint * interval '1 millisecond'
          WHERE namespace = $1 AND node = $2 AND run = $3
          """, .bytes(namespace), .bytes(node), .int(run), .int(leaseMilliseconds))
      ])
      return rows[0].changed == 1
    }

    /// Ends the lease now.
    func endLease(_ link: Link) throws(PostgresError) {
      _ = try link.commit([
        Query(
          """
          UPDATE canopy.nodes SET expires = '-infinity', fence = fence + 1
          WHERE namespace = $1 AND node = $2 AND run = $3
          """, .bytes(namespace), .bytes(node), .int(run))
      ])
    }
  }
#endif
