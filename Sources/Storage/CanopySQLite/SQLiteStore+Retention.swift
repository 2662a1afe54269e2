internal import Foundation
internal import GRDB

/// The removal of old rows, in background steps. A reader selects the rows of each step, so that the writer only
/// removes them. The reader also brings their pages into memory.
extension SQLiteStore {
  /// Removes the oldest commits: those that are in the checkpoint and are too old for a listener to resume from. Stops
  /// at the first commit to keep.
  func dropCommits(
    upTo sequence: Int64, resting rest: @Sendable () async throws -> Void
  ) async throws {
    let end = try await firstCommitToKeep(upTo: sequence)
    while let last = try await pool.read({ [configuration] db in
      try SQLiteStore.commitsToDrop(db, before: end, bytes: configuration.checkpointStepBytes)
    }) {
      try await step { db, _ in
        var meta = try Meta.read(db)
        meta.baseChecksum = try CommitRow.chain(db, after: last)
        meta[.base] = last
        try meta.write(db)
        try db.execute(sql: "DELETE FROM commits WHERE sequence <= ?", arguments: [last])
      }
      try await rest()
    }
  }

  private func firstCommitToKeep(upTo sequence: Int64) async throws -> Int64 {
    let kept = configuration.retainedCommits
    let span = configuration.retainedMilliseconds
    return try await pool.read { db -> Int64 in
      let last = try Row.fetchOne(
        db, sql: "SELECT sequence, time FROM commits ORDER BY sequence DESC LIMIT 1")
      guard let last else { return 0 }
      let (lastSequence, lastTime): (Int64, Int64) = (last[0], last[1])
      let first = try Int64.fetchOne(
        db,
        sql:
          "SELECT sequence FROM commits WHERE sequence > ? AND time >= ? ORDER BY sequence LIMIT 1",
        arguments: [
          max(0, lastSequence.minusClamped(kept)), lastTime.minusClamped(max(0, span)),
        ])
      // The last commit always stays.
      return min(first ?? lastSequence, lastSequence, sequence == .max ? .max : sequence + 1)
    }
  }

  /// Returns the sequence number of the last commit that the next step removes; nil if no commit is left to remove.
  private static func commitsToDrop(
    _ db: Database, before end: Int64, bytes: Int
  ) throws -> Int64? {
    let rows = try Row.fetchCursor(
      db,
      sql:
        "SELECT sequence, body, before FROM commits WHERE sequence < ? ORDER BY sequence LIMIT 1000",
      arguments: [end])
    var left = bytes
    var last: Int64?
    while left > 0, let row = try rows.next() {
      last = row[0]
      for column in 1...2 { left -= try row.withUnsafeData(atIndex: column) { $0?.count ?? 0 } }
    }
    return last
  }

  /// Removes the remembered writes of clients that have not written for `clientMilliseconds`.
  func forgetClientWrites(resting rest: @Sendable () async throws -> Void) async throws {
    let end = try await pool.read { db in
      try Int64.fetchOne(db, sql: "SELECT time FROM commits ORDER BY sequence DESC LIMIT 1")
    }.map { $0.minusClamped(SQLiteStore.clientMilliseconds) }
    var last = ("", Int64.min)
    while let end,
      let next = try await pool.read({ [last, configuration] db in
        try SQLiteStore.clientWrites(
          db, before: end, after: last, limit: configuration.checkpointStepRows)
      })
    {
      try await step { [last] db, _ in
        try db.execute(
          sql: """
            DELETE FROM client_writes
            WHERE (client, number) > (?, ?) AND (client, number) <= (?, ?) AND time < ?
            """, arguments: [last.0, last.1, next.0, next.1, end])
      }
      last = next
      try await rest()
    }
  }

  /// Returns the key of the last write that the next step removes, in the order of the keys; nil if none is left.
  private static func clientWrites(
    _ db: Database, before end: Int64, after last: (String, Int64), limit: Int
  ) throws -> (String, Int64)? {
    let rows = try Row.fetchAll(
      db,
      sql: """
        SELECT client, number FROM client_writes WHERE (client, number) > (?, ?) AND time < ?
        ORDER BY client, number LIMIT ?
        """, arguments: [last.0, last.1, end, max(1, limit)])
    return rows.last.map { ($0[0], $0[1]) }
  }
}

extension Int64 {
  /// Returns the difference, or the nearest number that an `Int64` can hold.
  fileprivate func minusClamped(_ other: Int64) -> Int64 {
    let (difference, overflow) = subtractingReportingOverflow(other)
    return overflow ? (other > 0 ? .min : .max) : difference
  }
}
