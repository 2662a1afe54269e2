#if PostgreSQL
  internal import CanopyEngine
  internal import CanopyRows
  internal import CanopyTree

  extension PostgresStore {
    /// Returns one sentence for each problem of the checkpoint, the journal or the on-disconnect writes of the
    /// namespace. The array is empty when there is no problem. O(size).
    public func problems() async throws -> [String] {
      do {
        return try await lanes.run { [namespace, configuration] link in
          _ = try link.run([
            .beginSnapshot, Query("SET LOCAL statement_timeout = 0", isPrepared: false),
          ])
          let loading = Loading(namespace, configuration.clientWritesMax)
          _ = try loading.load(link, IndexPlan())
          var problems = try PostgresStore.chainProblems(link, namespace, loading)
          let rows = try link.run([
            Query(
              """
              SELECT count(*) FROM canopy.disconnect_exceptions AS exception
              WHERE namespace = $1 AND NOT EXISTS (
                SELECT FROM canopy.disconnect_writes
                WHERE namespace = $1 AND id = exception.write)
              """, .bytes(namespace)),
            Query(
              """
              SELECT count(*) FROM (
                SELECT path FROM canopy.leaves WHERE namespace = $1 GROUP BY path
                HAVING count(*) > 1) AS doubled
              """, .bytes(namespace)),
          ])
          if try rows[0].int(0, 0) > 0 {
            problems.append("some exceptions belong to no on-disconnect write")
          }
          if try rows[1].int(0, 0) > 0 {
            problems.append("a row of the checkpoint is stored twice")
          }
          try link.rollBack()
          return problems
        }
      } catch let error as PostgresError {
        return [error.sentence]
      }
    }

    private static func chainProblems(
      _ link: Link, _ namespace: [UInt8], _ loading: Loading
    ) throws -> [String] {
      let row = try CheckpointRow(link.run([CheckpointRow.query(namespace, locking: false)])[0])
      do {
        let end = try loading.forEachCommit(link, after: row.base, hasImages: true) { _ in }
        let head = try link.run([headQuery(namespace)])[0]
        guard try end.sequence == head.int(0, 0) else {
          return ["the journal does not end at its head"]
        }
        return row.sequence > end.sequence ? ["the journal ends before the checkpoint"] : []
      } catch let error as PostgresError {
        return [error.sentence]
      }
    }
  }
#endif
