#if PostgreSQL
  internal import CanopyRows

  /// The removal of old rows, in bounded steps.
  extension PostgresStore {
    /// Removes the oldest commits: those that are in the checkpoint and are too old for a listener to resume from. Stops
    /// at the first commit to keep. The last commit always stays.
    func dropCommits(
      upTo sequence: Int64, resting rest: @Sendable () async throws -> Void
    ) async throws {
      let end = try await firstCommitToKeep(upTo: sequence)
      let bytesMax = Int64(configuration.checkpointStepBytes)
      while true {
        let isDone = try await step { [namespace] row, _, link in
          let found = try link.run([
            Query(
              """
              SELECT max(sequence) FROM (
                SELECT sequence, sum(octet_length(body) + coalesce(octet_length(before), 0))
                    OVER (ORDER BY sequence)
                  - octet_length(body) - coalesce(octet_length(before), 0) AS before
                FROM (
                  SELECT sequence, body, before FROM canopy.commits
                  WHERE namespace = $1 AND sequence < $2 ORDER BY sequence LIMIT 1000) AS oldest
              ) AS sizes WHERE before < $3
              """, .bytes(namespace), .int(end), .int(max(1, bytesMax)))
          ])[0]
          guard let last = try found.optionalInt(0, 0) else { return true }
          guard let checksum = try PostgresStore.chain(link, namespace, after: last) else {
            throw PostgresError.missing(commit: last)
          }
          (row.base, row.baseChecksum) = (last, checksum)
          _ = try link.run([
            Query(
              "DELETE FROM canopy.commits WHERE namespace = $1 AND sequence <= $2",
              .bytes(namespace), .int(last))
          ])
          return false
        }
        if isDone { return }
        try await rest()
      }
    }

    private func firstCommitToKeep(upTo sequence: Int64) async throws -> Int64 {
      let kept = max(0, configuration.retainedCommits)
      let span = max(0, configuration.retainedMilliseconds)
      return try await lanes.run { [namespace] link in
        let last = try link.run([
          Query(
            """
            SELECT sequence, time FROM canopy.commits WHERE namespace = $1
            ORDER BY sequence DESC LIMIT 1
            """, .bytes(namespace))
        ])[0]
        guard !last.isEmpty else { return 0 }
        let (lastSequence, lastTime) = (try last.int(0, 0), try last.int(0, 1))
        let first = try link.run([
          Query(
            """
            SELECT sequence FROM canopy.commits
            WHERE namespace = $1 AND sequence > $2 AND time >= $3 ORDER BY sequence LIMIT 1
            """, .bytes(namespace), .int(max(0, lastSequence.minusClamped(kept))),
            .int(lastTime.minusClamped(span)))
        ])[0]
        let end = sequence == .max ? Int64.max : sequence + 1
        return min(first.isEmpty ? lastSequence : try first.int(0, 0), lastSequence, end)
      }
    }

    /// Removes the remembered writes of clients that have not written for `clientMilliseconds`, and the rows that are too
    /// many (see `ClientWriteBound`).
    func forgetClientWrites(resting rest: @Sendable () async throws -> Void) async throws {
      let rowsMax = configuration.clientWritesMax
      let (bound, end) = try await lanes.run { [namespace] link in
        let last = try link.run([PostgresStore.headQuery(namespace)])[0]
        let time = last.isEmpty ? nil : try last.optionalInt(0, 2)
        return (
          try ClientWriteRows(namespace).bound(link, rowsMax: rowsMax),
          time.map { $0.minusClamped(ClientWriteRows.clientMilliseconds) } ?? .min
        )
      }
      let limit = max(1, configuration.checkpointStepRows)
      var last: ClientWriteBound.RowKey? = ("", .min)
      while let after = last {
        last = try await step { [namespace] _, _, link in
          try ClientWriteRows(namespace).forget(
            link, before: end, bound, after: after, limit: limit)
        }
        try await rest()
      }
    }
  }
#endif
