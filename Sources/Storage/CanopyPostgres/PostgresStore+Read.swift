#if PostgreSQL
  public import CanopyEngine
  internal import CanopyRows
  public import CanopyTree
  internal import Logging
  internal import Synchronization

  /// Reading commits.
  extension PostgresStore: SharedJournal {
    /// Reads the next commits by number. See `SharedJournal`.
    ///
    /// - Throws: `JournalError.forgotten`; `PostgresError.damaged` if the journal ends before `sequence`.
    public func commits(after sequence: Int64, bytesMax: Int) async throws -> [Commit] {
      try await writer.run(attempts: 2) { [self] link in
        try page(after: sequence, bytesMax: bytesMax, link).commits
      }
    }

    /// Waits for a message about commits of other nodes. See `SharedJournal`.
    public func waitForCommits(after sequence: Int64, atMost duration: Duration) async {
      await bell.wait(for: sequence, atMost: duration)
    }

    /// Waits for the turn: the lock of the row in `heads`, which each append needs. See `SharedJournal`.
    ///
    /// The lock is that of a transaction that stays open until the next append, `endTurn`, or an error. If the node is gone,
    /// the server ends the transaction.
    ///
    /// - Returns: true.
    public func takeTurn() async throws -> Bool {
      try await writer.beginTransaction([
        Query("SELECT 1 FROM canopy.heads WHERE namespace = $1 FOR UPDATE", .bytes(namespace))
      ])
      return true
    }

    /// Ends the turn. See `SharedJournal`.
    public func endTurn() async {
      do {
        try await writer.endTransaction()
      } catch {
        configuration.logger.debug("the turn ended with an error", metadata: ["error": "\(error)"])
      }
    }

    /// Returns the first commits after a number.
    func missed(after sequence: Int64, countMin: Int = 0, _ link: Link) throws -> [Commit] {
      var commits: [Commit] = []
      while true {
        let page = try page(
          after: commits.last?.sequence ?? sequence, bytesMax: configuration.missedBytesMax,
          link, isEndAllowed: true)
        commits += page.commits
        if page.isLast || commits.count >= countMin { return commits }
      }
    }

    /// Reads a page of commits, checks the chain, and keeps the end of the page as the end of the journal that this node
    /// knows.
    ///
    /// - Parameter isEndAllowed: whether the journal may end before `sequence`.
    private func page(
      after sequence: Int64, bytesMax: Int, _ link: Link, isEndAllowed: Bool = false
    ) throws -> (commits: [Commit], isLast: Bool) {
      let results = try link.run([
        PostgresStore.headQuery(namespace),
        Query(
          "SELECT base FROM canopy.checkpoints WHERE namespace = $1", .bytes(namespace)),
        Query(
          """
          SELECT \(CommitRow.columns) FROM canopy.commits WHERE namespace = $1 AND sequence IN (
            SELECT sequence FROM (
              SELECT sequence, sum(octet_length(body)) OVER (ORDER BY sequence)
                - octet_length(body) AS before
              FROM (
                SELECT sequence, body FROM canopy.commits
                WHERE namespace = $1 AND sequence > $2 ORDER BY sequence LIMIT 1000) AS next
            ) AS sizes WHERE before < $3)
          ORDER BY sequence
          """, .bytes(namespace), .int(sequence), .int(Int64(clamping: max(1, bytesMax)))),
      ])
      let (head, base, rows) = (results[0], results[1], results[2])
      guard rows.count > 0 else {
        guard try isEndAllowed || head.isEmpty || head.int(0, 0) >= sequence else {
          throw PostgresError.damaged(
            "the journal in the database ends before commit \(sequence), which this node knows, perhaps because a server "
              + "without the last commits was made the primary: stop all nodes, compare the databases, and start the "
              + "nodes again")
        }
        return ([], true)
      }
      if try !base.isEmpty && base.int(0, 0) > sequence { throw JournalError.forgotten }
      let known = tail.withLock { $0 }
      var end = known
      if known?.sequence != sequence {
        guard let checksum = try PostgresStore.chain(link, namespace, after: sequence) else {
          // The commit was removed between the two queries, or is missing.
          let base = try link.run([
            Query("SELECT base FROM canopy.checkpoints WHERE namespace = $1", .bytes(namespace))
          ])[0]
          if try !base.isEmpty && base.int(0, 0) > sequence { throw JournalError.forgotten }
          throw PostgresError.missing(commit: sequence)
        }
        end = Tail(sequence: sequence, checksum: checksum)
      }
      var commits: [Commit] = []
      for row in 0..<rows.count {
        let last = end?.sequence ?? sequence
        guard try rows.int(row, 0) == last + 1 else {
          throw PostgresError.missing(commit: last + 1)
        }
        end = try CommitRow.check(rows, row, after: end?.checksum ?? Checksum())
        commits.append(try CommitRow.commit(rows, row))
      }
      let found = end
      tail.withLock { tail in
        if let found, tail.map({ $0.sequence < found.sequence }) ?? true { tail = found }
      }
      return (commits, try !head.isEmpty && head.int(0, 0) <= (found?.sequence ?? 0))
    }

    /// Reads the checkpoint in one ordered scan, then reads and applies the later commits one by one, all in one snapshot of
    /// the database. So another node may fold meanwhile.
    ///
    /// - Complexity: O(size of the tree and of the later commits). The memory is that of the tree and a few rows.
    /// - Throws: `PostgresError.damaged`, whose sentence names the unreadable row.
    public func load(keeping indexes: IndexPlan) async throws -> JournalState {
      let (state, end) = try await lanes.run { [self] link in
        _ = try link.run([
          .beginSnapshot, Query("SET LOCAL statement_timeout = 0", isPrepared: false),
        ])
        let loaded = try Loading(namespace, configuration.clientWritesMax).load(link, indexes)
        try link.rollBack()
        return loaded
      }
      tail.withLock { tail in
        if tail.map({ $0.sequence < end.sequence }) ?? true { tail = end }
      }
      return state
    }

    /// Reads a page of the history backwards. See `Journal`.
    ///
    /// Ends before a commit that was altered or whose predecessor is missing. Logs a warning then.
    public func history(
      after first: Int64, through last: Int64, where isAsked: @escaping HistoryFilter
    ) async throws -> HistoryPage {
      try await lanes.run { [namespace, configuration] link in
        // The checksum of the predecessor is in the last column.
        let rows = try link.run([
          Query(
            """
            SELECT \(CommitRow.columns),
              coalesce(
                (SELECT checksum FROM canopy.commits AS previous
                  WHERE previous.namespace = $1 AND previous.sequence = commits.sequence - 1),
                (SELECT base_checksum FROM canopy.checkpoints
                  WHERE checkpoints.namespace = $1 AND base = commits.sequence - 1))
            FROM canopy.commits WHERE namespace = $1 AND sequence IN (
              SELECT sequence FROM (
                SELECT sequence, sum(octet_length(body)) OVER (ORDER BY sequence DESC)
                  - octet_length(body) AS before
                FROM (
                  SELECT sequence, body FROM canopy.commits
                  WHERE namespace = $1 AND sequence > $2 AND sequence <= $3
                  ORDER BY sequence DESC LIMIT \(HistoryPage.commitsMax)) AS next
              ) AS sizes WHERE before < \(HistoryPage.bytesMax))
            ORDER BY sequence DESC
            """, .bytes(namespace), .int(first), .int(last))
        ])[0]
        var page = HistoryPage()
        do {
          for row in 0..<rows.count where !page.isFull {
            guard try PostgresStore.add(rows, row, to: &page, where: isAsked) else { break }
          }
        } catch let error as PostgresError {
          configuration.logger.warning(
            "the history ends at a damaged commit, so clients that resume from before it get the present state",
            metadata: ["error": "\(error.sentence)"])
        }
        return page
      }
    }

    private static func add(
      _ rows: Rows, _ row: Int, to page: inout HistoryPage, where isAsked: HistoryFilter
    ) throws -> Bool {
      let sequence = try rows.int(row, 0)
      guard let previous = try rows.optionalInt(row, 9), let body = rows.bytes(row, 2) else {
        throw PostgresError.missing(commit: sequence - 1)
      }
      _ = try CommitRow.check(rows, row, after: Checksum(stored: previous))
      var bytes = body.count
      var commit: Commit?
      let locations: [Location]
      do throws(TreeError) {
        locations = try AssignmentCodec.decodeLocations(body)
      } catch {
        throw PostgresError.unreadable("commit \(sequence)", error.sentence)
      }
      if isAsked(locations) {
        commit = try CommitRow.commit(rows, row, hasImage: true)
        bytes += rows.bytes(row, 3)?.count ?? 0
      }
      return page.add(sequence, bytes: bytes, commit)
    }
  }
#endif
