#if PostgreSQL
  public import CanopyEngine
  internal import CanopyRows
  internal import Synchronization

  /// On-disconnect writes. Each belongs to a node: the one whose client has armed it, or the one that has taken it over.
  extension PostgresStore: DisconnectStore {
    /// The number of rows, and their bytes, that one query returns at most.
    private static let readMax = (rows: 256, bytes: 1024 * 1024)

    /// Returns the next writes of this node. See `DisconnectStore`.
    public func disconnectWrites(
      after group: DisconnectWriteID, countMax: Int, bytesMax: Int
    ) async throws -> [DisconnectWrite] {
      try await lanes.run { [namespace, node] link in
        try PostgresStore.readPage(
          link, namespace, [node], after: group, countMax: countMax, bytesMax: bytesMax)
      }
    }

    /// Reads whole groups of the writes of some nodes, until the page is full.
    fileprivate static func readPage(
      _ link: Link, _ namespace: [UInt8], _ owners: [[UInt8]], after group: DisconnectWriteID,
      countMax: Int, bytesMax: Int
    ) throws -> [DisconnectWrite] {
      var page: [DisconnectWrite] = []
      var bytes = 0
      var last: (group: Int64, id: Int64) = (group, .max)
      while true {
        let rows = try readWrites(link, namespace, owners, after: last)
        for write in rows {
          let isSameGroup = page.last.map { $0.group == write.group } ?? true
          guard isSameGroup || page.count < countMax && bytes < bytesMax else { return page }
          bytes += write.bytes
          page.append(write)
        }
        guard let next = rows.last else { return page }
        last = (next.group, next.id)
      }
    }

    /// Reads the next rows in the order of their groups and ids; at least one if there is any.
    private static func readWrites(
      _ link: Link, _ namespace: [UInt8], _ owners: [[UInt8]], after last: (group: Int64, id: Int64)
    ) throws -> [DisconnectWrite] {
      let rows = try link.run([
        Query(
          """
          SELECT id, first, identity, request FROM canopy.disconnect_writes
          WHERE namespace = $1 AND id IN (
            SELECT id FROM (
              SELECT id, sum(octet_length(request)) OVER (ORDER BY first, id)
                - octet_length(request) AS before
              FROM (
                SELECT id, first, request FROM canopy.disconnect_writes
                WHERE namespace = $1 AND owner = ANY($2::bytea[]) AND (first, id) > ($3, $4)
                ORDER BY first, id LIMIT \(readMax.rows)) AS next
            ) AS sizes WHERE before < \(readMax.bytes))
          ORDER BY first, id
          """, .bytes(namespace), .byteArrays(owners), .int(last.group), .int(last.id))
      ])[0]
      let ids = try (0..<rows.count).map { row in try rows.int(row, 0) }
      let excepted = try link.run([
        Query(
          """
          SELECT write, path FROM canopy.disconnect_exceptions
          WHERE namespace = $1 AND write = ANY($2::bigint[]) ORDER BY write, path
          """, .bytes(namespace), .ints(ids))
      ])[0]
      var exceptions: [Int64: [String]] = [:]
      for row in 0..<excepted.count {
        exceptions[try excepted.int(row, 0), default: []].append(try excepted.text(row, 1))
      }
      return try (0..<rows.count).map { row in
        DisconnectWrite(
          id: ids[row], group: try rows.int(row, 1), identity: try rows.text(row, 2),
          request: try rows.text(row, 3), exceptions: exceptions[ids[row]] ?? [])
      }
    }

    /// Returns the ids of all writes of this node.
    public func disconnectWriteIDs() async throws -> Set<DisconnectWriteID> {
      try await lanes.run { [namespace, node] link in
        let rows = try link.run([
          Query(
            "SELECT id FROM canopy.disconnect_writes WHERE namespace = $1 AND owner = $2",
            .bytes(namespace), .bytes(node))
        ])[0]
        return Set(try (0..<rows.count).map { row in try rows.int(row, 0) })
      }
    }

    /// Changes the writes of this node in one step. See `DisconnectStore`.
    ///
    /// Changes that wait at the same time are made in one transaction. Each succeeds or fails by itself. Cancelling the task
    /// does not cancel the change.
    public func changeDisconnectWrites(
      adding request: (identity: String, request: String)?, to group: DisconnectWriteID?,
      exceptions: [DisconnectWriteID: [String]], removing removed: [DisconnectWriteID]
    ) async throws -> DisconnectWriteID? {
      try await make(
        DisconnectChange(added: request, group: group, exceptions: exceptions, removed: removed))
    }

    /// Replaces the identities of writes of this node in one step. See `DisconnectStore`.
    public func setDisconnectIdentities(_ identities: [DisconnectWriteID: String]) async throws {
      _ = try await make(DisconnectChange(identities: identities))
    }

    private func make(_ change: DisconnectChange) async throws -> DisconnectWriteID? {
      try await disconnectChanges.make(change) { [self] changes in try await makeGroup(changes) }
    }

    /// Makes changes in one transaction. If one of them is wrong, each is made by itself.
    private func makeGroup(
      _ changes: [DisconnectChange]
    ) async throws -> [DisconnectChanges.Outcome] {
      do {
        let ids = try await lanes.run { [self] link in try make(changes, link) }
        return ids.map { .success($0) }
      } catch  where changes.count > 1 && error.isOfOneChange {
        var outcomes: [DisconnectChanges.Outcome] = []
        for change in changes {
          do {
            let ids = try await lanes.run { [self] link in try make([change], link) }
            outcomes.append(.success(ids.first ?? nil))
          } catch {
            outcomes.append(.failure(error))
          }
        }
        return outcomes
      }
    }

    /// Makes changes in one transaction, in one round trip.
    ///
    /// - Returns: the ids of the new writes, one for each change.
    private func make(_ changes: [DisconnectChange], _ link: Link) throws -> [DisconnectWriteID?] {
      // The lock keeps another node from taking the writes over meanwhile.
      var queries = [
        Query(
          "SELECT 1 FROM canopy.nodes WHERE namespace = $1 AND node = $2 AND run = $3 FOR SHARE",
          .bytes(namespace), .bytes(node), .int(run))
      ]
      var added: [Int?] = []
      for change in changes {
        if !change.removed.isEmpty {
          queries += [
            Query(
              """
              DELETE FROM canopy.disconnect_exceptions WHERE namespace = $1 AND write IN (
                SELECT id FROM canopy.disconnect_writes
                WHERE namespace = $1 AND owner = $2 AND id = ANY($3::bigint[]))
              """, .bytes(namespace), .bytes(node), .ints(change.removed)),
            Query(
              """
              DELETE FROM canopy.disconnect_writes
              WHERE namespace = $1 AND owner = $2 AND id = ANY($3::bigint[])
              """, .bytes(namespace), .bytes(node), .ints(change.removed)),
          ]
        }
        let exceptions = change.exceptions.sorted { $0.key < $1.key }
          .flatMap { entry in entry.value.map { (entry.key, $0) } }
        if !exceptions.isEmpty {
          queries.append(
            Query(
              """
              INSERT INTO canopy.disconnect_exceptions(namespace, write, path)
              SELECT DISTINCT $1::bytea, new.write, new.path
              FROM unnest($3::bigint[], $4::bytea[]) AS new(write, path)
              JOIN canopy.disconnect_writes AS stored
                ON stored.namespace = $1 AND stored.id = new.write AND stored.owner = $2
              WHERE NOT EXISTS (
                SELECT FROM canopy.disconnect_exceptions AS old
                WHERE old.namespace = $1 AND old.write = new.write AND old.path = new.path)
              """, .bytes(namespace), .bytes(node), .ints(exceptions.map(\.0)),
              .byteArrays(exceptions.map { Array($0.1.utf8) })))
        }
        let identities = change.identities.sorted { $0.key < $1.key }
        if !identities.isEmpty {
          queries.append(
            Query(
              """
              UPDATE canopy.disconnect_writes AS stored SET identity = new.identity
              FROM unnest($3::bigint[], $4::bytea[]) AS new(id, identity)
              WHERE stored.namespace = $1 AND stored.owner = $2 AND stored.id = new.id
              """, .bytes(namespace), .bytes(node), .ints(identities.map(\.key)),
              .byteArrays(identities.map { Array($0.value.utf8) })))
        }
        guard let request = change.added else {
          added.append(nil)
          continue
        }
        added.append(queries.count)
        queries.append(
          Query(
            """
            INSERT INTO canopy.disconnect_writes(namespace, id, first, owner, identity, request)
            SELECT $1, new.id, coalesce($3, new.id), $2, $4, $5
            FROM (SELECT nextval('canopy.disconnect_ids') AS id) AS new
            WHERE EXISTS (
              SELECT FROM canopy.nodes WHERE namespace = $1 AND node = $2 AND run = $6)
            RETURNING id
            """, .bytes(namespace), .bytes(node), .int(change.group), .text(request.identity),
            .text(request.request), .int(run)))
      }
      let rows = try link.commit(queries)
      if rows[0].isEmpty {
        throw PostgresError.replaced(
          "another process has registered under the name of this node: stop one of them")
      }
      return try added.map { index in
        guard let index else { return nil }
        return try rows[index].int(0, 0)
      }
    }

    /// Returns the names of the nodes whose lease has not run out.
    public func liveNodes() async throws -> [String] {
      try await lanes.run { [namespace] link in
        let rows = try link.run([
          Query(
            """
            SELECT node FROM canopy.nodes WHERE namespace = $1 AND expires >= clock_timestamp()
            ORDER BY node
            """, .bytes(namespace))
        ])[0]
        return try (0..<rows.count).map { row in try rows.text(row, 0) }
      }
    }
  }

  /// Leases, and the writes of nodes that are gone.
  extension PostgresStore: SharedDisconnectStore {
    /// Renews the lease by the database's clock. The thread of the messages renews it as well, so it holds while the engine
    /// is busy.
    ///
    /// - Throws: `PostgresError.replaced` if another process has registered under the name of this node.
    public func renewLease() async throws -> Bool {
      let registration = bell.registration
      let renewal = try await lanes.run { try registration.renew($0) }
      let wasLate = bell.takeLate()
      switch renewal {
      case .renewed: return !wasLate
      case .late: return false
      case .replaced:
        throw PostgresError.replaced(
          "another process has registered under the name of this node, or the node was away for more than a day: stop "
            + "the other process, or start this node again")
      }
    }

    /// Takes over writes of nodes whose lease has run out, by the database's clock. Each is taken by exactly one caller.
    ///
    /// A node whose writes were taken can no longer make them: its appends that complete one of them are refused with
    /// `JournalError.disconnectWritesTaken`. If the outcome of a take-over is unknown, the next call returns its writes.
    public func takeOverDisconnectWrites(
      countMax: Int, bytesMax: Int
    ) async throws -> [DisconnectWrite] {
      try await lanes.run { [self] link in
        let earlier = try writesTakenBefore(link)
        if !earlier.isEmpty { return earlier }
        // The locks of the rows make callers take turns, and wait for appends and changes of those nodes.
        let gone = try link.begin([
          Query(
            """
            SELECT node FROM canopy.nodes
            WHERE namespace = $1 AND node <> $2 AND expires < clock_timestamp()
            ORDER BY node FOR UPDATE
            """, .bytes(namespace), .bytes(node))
        ])[0]
        let names = (0..<gone.count).compactMap { row in gone.bytes(row, 0).map { Array($0) } }
        guard !names.isEmpty else {
          try link.rollBack()
          return []
        }
        let page = try PostgresStore.readPage(
          link, namespace, names, after: .min, countMax: countMax, bytesMax: bytesMax)
        let ids = page.map(\.id)
        takingOver.withLock { $0 = ids }
        _ = try link.finish([
          Query(
            """
            UPDATE canopy.disconnect_writes SET owner = $2
            WHERE namespace = $1 AND id = ANY($3::bigint[])
            """, .bytes(namespace), .bytes(node), .ints(ids)),
          // The rows of nodes that do not come back would stay for ever.
          Query(
            "DELETE FROM canopy.barriers WHERE namespace = $1 AND node = ANY($2::bytea[])",
            .bytes(namespace), .byteArrays(names)),
          Query(
            """
            DELETE FROM canopy.nodes WHERE namespace = $1 AND node = ANY($2::bytea[])
              AND expires < clock_timestamp() - interval '1 day'
              AND NOT EXISTS (
                SELECT FROM canopy.disconnect_writes AS write
                WHERE write.namespace = $1 AND write.owner = nodes.node)
            """, .bytes(namespace), .byteArrays(names)),
        ])
        takingOver.withLock { $0 = [] }
        return page
      }
    }

    /// Returns the writes of a take-over whose outcome was unknown, if it was made.
    private func writesTakenBefore(_ link: Link) throws -> [DisconnectWrite] {
      let ids = takingOver.withLock { $0 }
      guard !ids.isEmpty else { return [] }
      let all = try PostgresStore.readPage(
        link, namespace, [node], after: .min, countMax: .max, bytesMax: .max)
      takingOver.withLock { $0 = [] }
      return all.filter { Set(ids).contains($0.id) }
    }
  }

  extension Error {
    /// Whether the error may be that of one change alone.
    fileprivate var isOfOneChange: Bool {
      if case PostgresError.refused? = self as? PostgresError { true } else { false }
    }
  }
#endif
