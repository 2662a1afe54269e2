#if PostgreSQL

  /// The row of a node in `nodes`: its run, its fence, and the end of its lease by the database's clock.
  struct Registration: Sendable {
    let namespace: [UInt8]
    let node: [UInt8]
    let run: Int64
    let leaseSeconds: Double
    /// Whether the namespace must be in the table `namespaces`.
    var isListed = false

    /// The outcome of a renewal.
    enum Renewal {
      case renewed
      /// The lease had run out before. Other nodes may have taken over writes then.
      case late
      /// Another process has registered under the name of the node.
      case replaced
    }

    private var leaseMilliseconds: Int64 { Int64(max(1, min(leaseSeconds * 1_000, 1e12))) }

    /// Creates the rows of the namespace if they are missing, and registers this run of the node. Appends of an earlier run
    /// are refused from now on.
    ///
    /// - Returns: the fence of the run.
    /// - Throws: `PostgresError.unsuitable` if the namespace is not listed, and must be.
    func register(_ link: Link) throws(PostgresError) -> Int64 {
      if isListed {
        // The lock makes a removal of the namespace wait for this node, or this node for the removal.
        let listed = try link.begin([
          Query(
            "SELECT 1 FROM canopy.namespaces WHERE namespace = $1 FOR SHARE", .bytes(namespace))
        ])[0]
        guard !listed.isEmpty else {
          try link.rollBack()
          throw .unsuitable("the database has no such namespace; it may have been removed")
        }
      }
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

    /// Extends the lease, unless this run has ended it.
    func renew(_ link: Link) throws(PostgresError) -> Renewal {
      let rows = try link.commit([
        Query(
          """
          UPDATE canopy.nodes AS node
          SET expires = clock_timestamp() + $4::bigint * interval '1 millisecond'
          FROM (
            SELECT expires < clock_timestamp() AS is_late FROM canopy.nodes
            WHERE namespace = $1 AND node = $2 AND run = $3 AND expires > '-infinity'
            FOR UPDATE) AS old
          WHERE node.namespace = $1 AND node.node = $2 AND node.run = $3
          RETURNING old.is_late
          """, .bytes(namespace), .bytes(node), .int(run), .int(leaseMilliseconds))
      ])[0]
      guard !rows.isEmpty else { return .replaced }
      return try rows.bool(0, 0) ? .late : .renewed
    }

    /// Ends the lease now, for good: a renewal that is under way does not extend it again.
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
