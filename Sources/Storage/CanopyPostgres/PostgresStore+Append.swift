#if PostgreSQL
  public import CanopyEngine
  internal import CanopyRows
  internal import CanopyTree
  internal import Synchronization

  /// Appends.
  extension PostgresStore {
    /// Appends commits in one transaction and one round trip. See `Journal`.
    ///
    /// The transaction changes the row of the namespace in `heads` only if that row has the number and the checksum of the
    /// commit before, and if the fence of the node is still valid. All its other statements have an effect only if the row
    /// was changed. So of two nodes that append after the same commit, one changes nothing.
    ///
    /// - Throws: `JournalError.conflict` with the first commits that were missed; `JournalError.disconnectWritesTaken`;
    ///   `PostgresError`.
    public func append(_ commits: [Commit], after last: Int64) async throws {
      doubtful.withLock { $0 = commits.count }
      let tail = try await tail(at: last)
      let fence = fence.withLock { $0 }
      let append = try Append(commits, after: tail, namespace, node, run: run, fence: fence)
      try await writer.run { [self] link in
        do {
          try make(append, link)
        } catch PostgresError.refused(let state, _)
          where state.utf8.elementsEqual(PostgresError.uniqueViolation.utf8)
        {
          // Another commit has the number.
          try link.rollBack()
          throw JournalError.conflict(missed: try missed(after: last, link))
        }
      }
      self.tail.withLock { $0 = append.end }
      doubtful.withLock { $0 = 0 }
    }

    private func make(_ append: Append, _ link: Link) throws {
      let rows = try link.commit(append.queries)
      if rows[1].changed == 1 { return }
      let last = append.start.sequence
      guard rows[0].count == 1 else {
        throw PostgresError.replaced(
          "another process has registered under the name of this node, or the node was stopped: stop one of them, or give "
            + "them different names")
      }
      let ids = append.completed
      if !ids.isEmpty {
        let own = try link.run([
          Query(
            """
            SELECT id FROM canopy.disconnect_writes
            WHERE namespace = $1 AND owner = $2 AND id = ANY($3::bigint[])
            """, .bytes(namespace), .bytes(node), .ints(ids))
        ])[0]
        let kept = Set(try (0..<own.count).map { try own.int($0, 0) })
        let taken = ids.filter { !kept.contains($0) }
        if !taken.isEmpty { throw JournalError.disconnectWritesTaken(taken) }
      }
      let head = try link.run([PostgresStore.headQuery(namespace)])[0]
      guard try head.int(0, 0) != last else {
        throw PostgresError.damaged(
          "commit \(last) in the database is not the commit that this node knows, perhaps because a server without the last "
            + "commits was made the primary: stop all nodes, compare the databases, and start the nodes again"
        )
      }
      throw JournalError.conflict(missed: try missed(after: last, link))
    }

    /// Returns the number and the checksum of the last commit.
    static func headQuery(_ namespace: [UInt8]) -> Query {
      Query(
        "SELECT last, checksum, key_time FROM canopy.heads WHERE namespace = $1", .bytes(namespace))
    }

    /// Returns the end of the journal at a commit that this node knows.
    private func tail(at sequence: Int64) async throws -> Tail {
      if let tail = tail.withLock({ $0 }), tail.sequence == sequence { return tail }
      return try await writer.run(attempts: 2) { [namespace] link in
        // If there is no such commit, the append fails later, and its error says why.
        Tail(
          sequence: sequence,
          checksum: try PostgresStore.chain(link, namespace, after: sequence) ?? Checksum())
      }
    }

    /// Returns the checksum of the commit `sequence`, on which the checksum of the next commit depends; nil if the journal has
    /// no such commit.
    static func chain(
      _ link: Link, _ namespace: [UInt8], after sequence: Int64
    ) throws(PostgresError) -> Checksum? {
      let rows = try link.run([
        Query(
          """
          SELECT checksum FROM canopy.commits WHERE namespace = $1 AND sequence = $2
          UNION ALL
          SELECT base_checksum FROM canopy.checkpoints WHERE namespace = $1 AND base = $2
          """, .bytes(namespace), .int(sequence))
      ])[0]
      return rows.isEmpty ? nil : Checksum(stored: try rows.int(0, 0))
    }

    /// Finds out which commits a failed append has stored, and makes that final. See `Journal`.
    ///
    /// Raises the fence of the node in a transaction of its own. The transaction waits for an append that has begun. An
    /// append that begins later is refused. The commit of this transaction also waits for the synchronous standby. So
    /// the commits that are read afterwards are not lost if the standby becomes the primary.
    ///
    /// - Returns: the first commits after `last`, at least those of the append if they were stored.
    /// - Throws: `PostgresError` if it cannot find out.
    public func resolveAppend(after last: Int64) async throws -> [Commit] {
      let countMin = doubtful.withLock { $0 }
      return try await writer.run(attempts: 2) { [self] link in
        let rows = try link.commit([
          Query(
            """
            UPDATE canopy.nodes SET fence = fence + 1
            WHERE namespace = $1 AND node = $2 AND run = $3 RETURNING fence
            """, .bytes(namespace), .bytes(node), .int(run)),
          PostgresStore.barrier(namespace, node),
        ])
        // Without a row, another process has the name of this node, and its registration has raised the fence.
        if !rows[0].isEmpty {
          let raised = try rows[0].int(0, 0)
          fence.withLock { $0 = raised }
        }
        return try missed(after: last, countMin: countMin, link)
      }
    }
  }

  /// The queries of an append.
  private struct Append: Sendable {
    let start: PostgresStore.Tail
    let end: PostgresStore.Tail
    let completed: [Int64]
    private(set) var queries: [Query]

    /// Encodes commits.
    ///
    /// - Throws: `EngineError.unstorable`.
    init(
      _ commits: [Commit], after tail: PostgresStore.Tail, _ namespace: [UInt8], _ node: [UInt8],
      run: Int64, fence: Int64
    ) throws {
      start = tail
      var columns = Columns()
      var writes = ClientWriteChanges()
      var checksum = tail.checksum
      var scratch = JSONOutput(capacity: 4096)
      for commit in commits {
        let note = commit.note?.text
        try commit.storedText(scratch: &scratch).withBytes { body, before in
          checksum = CommitRow.checksum(
            after: checksum, commit.sequence, commit.time, body, before, origin: commit.origin,
            note: note)
          columns.bodies.append(Array(body))
          columns.befores.append(before.map { Array($0) })
        }
        columns.add(commit, note: note, checksum)
        if let write = commit.clientWrite { writes.add(write) }
      }
      completed = Array(Set(commits.flatMap(\.completedDisconnectWrites))).sorted()
      end = PostgresStore.Tail(
        sequence: commits.last?.sequence ?? tail.sequence, checksum: checksum)
      let latest = commits.map { max($0.time, $0.keyTime ?? 0) }.max() ?? 0
      let isWon =
        "EXISTS (SELECT FROM canopy.heads WHERE namespace = $1 AND last = $2 AND checksum = $3)"
      let won: [Parameter] = [
        .bytes(namespace), .int(end.sequence), .int(end.checksum.stored),
      ]
      queries = [
        // The lock makes `resolveAppend` wait.
        Query(
          """
          SELECT 1 FROM canopy.nodes WHERE namespace = $1 AND node = $2 AND run = $3 AND fence = $4
          FOR SHARE
          """, .bytes(namespace), .bytes(node), .int(run), .int(fence)),
        Query(
          """
          UPDATE canopy.heads SET last = $2, checksum = $3, key_time = greatest(key_time, $4)
          WHERE namespace = $1 AND last = $5 AND checksum = $6
            AND EXISTS (
              SELECT FROM canopy.nodes
              WHERE namespace = $1 AND node = $7 AND run = $8 AND fence = $9)
            AND $10 = (
              SELECT count(*) FROM canopy.disconnect_writes
              WHERE namespace = $1 AND owner = $7 AND id = ANY($11::bigint[]))
          """, .bytes(namespace), .int(end.sequence), .int(end.checksum.stored), .int(latest),
          .int(start.sequence), .int(start.checksum.stored), .bytes(node), .int(run), .int(fence),
          .int(Int64(completed.count)), .ints(completed)),
        Query(
          """
          INSERT INTO canopy.commits(namespace, \(CommitRow.columns))
          SELECT $1, rows.* FROM unnest(
            $4::bigint[], $5::bigint[], $6::bytea[], $7::bytea[], $8::bytea[], $9::bigint[],
            $10::bigint[], $11::bytea[], $12::bigint[]) AS rows
          WHERE \(isWon)
          """, won + columns.parameters),
      ]
      if !completed.isEmpty {
        queries += [
          Query(
            """
            DELETE FROM canopy.disconnect_writes
            WHERE namespace = $1 AND id = ANY($4::bigint[]) AND \(isWon)
            """, won + [.ints(completed)]),
          Query(
            """
            DELETE FROM canopy.disconnect_exceptions
            WHERE namespace = $1 AND write = ANY($4::bigint[]) AND \(isWon)
            """, won + [.ints(completed)]),
        ]
      }
      queries += writes.queries(won, isWon)
      for commit in commits {
        guard case .rules(let text)? = commit.note?.mark else { continue }
        queries.append(
          Query(
            """
            INSERT INTO canopy.journaled_rules(namespace, text, sequence)
            SELECT $1, $4::bytea, $5::bigint WHERE \(isWon)
            ON CONFLICT (namespace) DO UPDATE SET text = excluded.text, sequence = excluded.sequence
            """, won + [.text(text), .int(commit.sequence)]))
      }
      let payload = Bell.message(namespace, end.sequence, from: run)
      queries.append(
        Query(
          "SELECT pg_notify('\(Bell.channel)', convert_from($4, 'UTF8')) WHERE \(isWon)",
          won + [.text(payload)]))
    }
  }

  extension Query {
    /// Creates a query with parameters in an array.
    init(_ sql: String, _ values: [Parameter]) {
      self.init(sql, isPrepared: true)
      append(values)
    }
  }

  /// The columns of new rows of `commits`.
  private struct Columns {
    var sequences: [Int64?] = []
    var times: [Int64?] = []
    var bodies: [[UInt8]?] = []
    var befores: [[UInt8]?] = []
    var clients: [[UInt8]?] = []
    var numbers: [Int64?] = []
    var seen: [Int64?] = []
    var notes: [[UInt8]?] = []
    var checksums: [Int64?] = []

    mutating func add(_ commit: Commit, note: String?, _ checksum: Checksum) {
      sequences.append(commit.sequence)
      times.append(commit.time)
      clients.append(commit.origin.map { Array($0.storedClient.utf8) })
      numbers.append(commit.origin?.number)
      seen.append(commit.origin?.seen)
      notes.append(note.map { Array($0.utf8) })
      checksums.append(checksum.stored)
    }

    var parameters: [Parameter] {
      [
        .ints(sequences), .ints(times), .byteArrays(bodies), .byteArrays(befores),
        .byteArrays(clients), .ints(numbers), .ints(seen), .byteArrays(notes), .ints(checksums),
      ]
    }
  }
#endif
