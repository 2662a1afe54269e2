#if PostgreSQL
  internal import CanopyRows

  /// The row of a namespace in `checkpoints`.
  struct CheckpointRow: Sendable {
    /// The sequence number up to which all commits are in `leaves`.
    var sequence: Int64
    /// The last commit that was removed, and its checksum.
    var base: Int64
    var baseChecksum: Checksum
    /// The number and the sum of the rows of `leaves`.
    var leaves: LeafSums
    /// The greatest number of a tree from which rows of `leaves` were written.
    var rootSequence: Int64
    /// The node that folds, and its run; nil if no node folds.
    var folder: (node: [UInt8], run: Int64)?
    /// Whether the lease of that node has run out, by the database's clock.
    var isFree: Bool

    /// Returns the query for the row.
    static func query(_ namespace: [UInt8], locking: Bool) -> Query {
      Query(
        """
        SELECT checkpoint, base, base_checksum, leaf_count, leaf_sum, root_sequence, folder,
          folder_run, folder_expires IS NULL OR folder_expires < clock_timestamp()
        FROM canopy.checkpoints WHERE namespace = $1 \(locking ? "FOR UPDATE" : "")
        """, .bytes(namespace))
    }

    /// Reads the row.
    ///
    /// - Throws: `PostgresError.damaged` if it is missing.
    init(_ rows: Rows) throws(PostgresError) {
      guard !rows.isEmpty else {
        throw .damaged(
          "the row of the namespace in checkpoints is missing: \(PostgresError.waysOut)")
      }
      sequence = try rows.int(0, 0)
      base = try rows.int(0, 1)
      baseChecksum = Checksum(stored: try rows.int(0, 2))
      leaves = LeafSums(
        count: try rows.int(0, 3), sum: UInt64(bitPattern: try rows.int(0, 4)))
      rootSequence = try rows.int(0, 5)
      if let node = rows.bytes(0, 6), let run = try rows.optionalInt(0, 7) {
        folder = (Array(node), run)
      }
      isFree = try rows.bool(0, 8)
    }

    /// Returns the query that stores the row, and extends the lease of the node that folds.
    func update(_ namespace: [UInt8], leaseMilliseconds: Int64) -> Query {
      Query(
        """
        UPDATE canopy.checkpoints SET checkpoint = $2, base = $3, base_checksum = $4,
          leaf_count = $5, leaf_sum = $6, root_sequence = $7, folder = $8, folder_run = $9,
          folder_expires = CASE WHEN $9::bigint IS NULL THEN NULL
            ELSE clock_timestamp() + $10::bigint * interval '1 millisecond' END
        WHERE namespace = $1
        """, .bytes(namespace), .int(sequence), .int(base), .int(baseChecksum.stored),
        .int(leaves.count), .int(Int64(bitPattern: leaves.sum)), .int(rootSequence),
        folder.map { .bytes($0.node) } ?? .text(nil), .int(folder?.run), .int(leaseMilliseconds))
    }
  }
#endif
