#if PostgreSQL
  internal import CanopyEngine
  internal import CanopyRows
  internal import CanopyTree

  /// The reading of a namespace in one snapshot of the database.
  struct Loading {
    private let namespace: [UInt8]
    private let clientWritesMax: Int

    init(_ namespace: [UInt8], _ clientWritesMax: Int) {
      self.namespace = namespace
      self.clientWritesMax = clientWritesMax
    }

    /// The order of the index of `leaves`, which is that of the paths.
    static let pathOrder =
      "substring(path FROM 1 FOR \(PostgresSchema.pathIndexBytes)), path"

    /// Reads the tree and all that an engine begins with.
    ///
    /// - Throws: `PostgresError.damaged`.
    func load(_ link: Link, _ indexes: IndexPlan) throws -> (JournalState, PostgresStore.Tail) {
      let first = try link.run([
        PostgresStore.headQuery(namespace), CheckpointRow.query(namespace, locking: false),
        Query(
          "SELECT text, sequence FROM canopy.journaled_rules WHERE namespace = $1",
          .bytes(namespace)
        ),
      ])
      guard !first[0].isEmpty, !first[1].isEmpty else {
        throw PostgresError.damaged(
          "the row of the namespace in heads or checkpoints is missing: \(PostgresError.waysOut)")
      }
      let checkpoint = try CheckpointRow(first[1])
      let root = try readLeaves(link, keeping: indexes, expected: checkpoint.leaves)
      var tree = Tree(root: root, indexPlan: indexes)
      let end = try forEachCommit(link, after: checkpoint.sequence) { tree.apply($0.assignments) }
      guard try end.sequence == first[0].int(0, 0), try end.checksum.stored == first[0].int(0, 1)
      else { throw PostgresError.missing(commit: end.sequence + 1) }
      let state = JournalState(
        tree: tree, sequence: end.sequence, checkpoint: checkpoint.sequence,
        lastTime: try first[0].optionalInt(0, 2),
        clientWrites: try ClientWriteRows(namespace).read(link, rowsMax: clientWritesMax),
        rules: first[2].isEmpty
          ? nil
          : JournaledRules(text: first[2].optionalText(0, 0), sequence: try first[2].int(0, 1)))
      return (state, end)
    }

    /// Reads the commits after `sequence` in order. Passes each to `body` before it reads the next one.
    ///
    /// - Returns: the end of the journal.
    func forEachCommit(
      _ link: Link, after sequence: Int64, hasImages: Bool = false,
      _ body: (Commit) throws -> Void
    ) throws -> PostgresStore.Tail {
      guard let checksum = try PostgresStore.chain(link, namespace, after: sequence) else {
        throw PostgresError.missing(commit: sequence)
      }
      var end = PostgresStore.Tail(sequence: sequence, checksum: checksum)
      try link.forEachRow(
        Query(
          """
          SELECT \(CommitRow.columns) FROM canopy.commits
          WHERE namespace = $1 AND sequence > $2 ORDER BY sequence
          """, .bytes(namespace), .int(sequence))
      ) { rows in
        guard try rows.int(0, 0) == end.sequence + 1 else {
          throw PostgresError.missing(commit: end.sequence + 1)
        }
        end = try CommitRow.check(rows, 0, after: end.checksum)
        try body(try CommitRow.commit(rows, 0, hasImage: hasImages))
      }
      return end
    }

    /// Reads the checkpoint in one ordered scan.
    ///
    /// - Throws: `PostgresError.damaged` if a row was altered or is missing.
    func readLeaves(
      _ link: Link, keeping indexes: IndexPlan = IndexPlan(), expected: LeafSums
    ) throws -> Node {
      var sums = LeafSums()
      let pipe = RowPipe(indexes: indexes)
      // A row of a priority waits until the next row shows whether its branch has another row.
      var waiting = PriorityRows()
      let read = Result {
        try link.forEachRow(
          Query(
            """
            SELECT path, value, checksum FROM canopy.leaves WHERE namespace = $1
            ORDER BY namespace, \(Loading.pathOrder)
            """, .bytes(namespace))
        ) { rows in
          guard let path = rows.bytes(0, 0), let value = rows.bytes(0, 1) else {
            throw PostgresError.altered("a row of the checkpoint")
          }
          let checksum = Checksum.leaf(path, value)
          guard checksum.stored == (try rows.int(0, 2)) else {
            throw PostgresError.altered(
              "the row /\(String(decoding: path, as: UTF8.self)) of the checkpoint")
          }
          sums.add(checksum)
          if !waiting.add(path, value, to: pipe) { throw Stopped() }
        }
      }
      if case .success = read { _ = waiting.finish(to: pipe) }
      let built = Result { try pipe.finish() }
      do {
        do { try read.get() } catch is Stopped {}
        let root = try built.get()
        guard sums == expected else {
          throw PostgresError.damaged(
            "the checkpoint has \(sums.count) rows, and \(expected.count) were written"
              + (sums.count == expected.count ? ", but some of them differ" : "")
              + ": \(PostgresError.waysOut)")
        }
        return root
      } catch let error as TreeError {
        throw PostgresError.unreadable("a row of the checkpoint", error.sentence)
      }
    }

    /// The builder takes no more rows.
    private struct Stopped: Error {}
  }
#endif
