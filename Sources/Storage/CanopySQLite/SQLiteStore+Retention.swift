internal import CanopyRows
internal import Foundation
internal import GRDB
internal import Synchronization

/// The removal of old rows, in background steps. A reader selects the rows of each step, so that the writer only
/// removes them. The reader also brings their pages into memory.
extension SQLiteStore {
  /// Removes the oldest commits: those that are in the checkpoint and are too old for a listener to resume from. Stops
  /// at the first commit to keep.
  ///
  /// - Parameter lostSteps: see `step`. The steps that wrote the checkpoint come before.
  func dropCommits(
    upTo sequence: Int64, relyingOnStepsSince lostSteps: Int? = nil,
    resting rest: @Sendable () async throws -> Void
  ) async throws {
    let end = try await firstCommitToKeep(upTo: sequence)
    while let last = try await pool.read({ [configuration] db in
      try SQLiteStore.commitsToDrop(db, before: end, bytes: configuration.checkpointStepBytes)
    }) {
      try await step(relyingOnStepsSince: lostSteps) { db, _ in
        var meta = try Meta.read(db)
        meta.baseChecksum = try CommitRow.chain(db, after: last)
        meta[.base] = last
        try meta.write(db)
        try db.execute(sql: "DELETE FROM commits WHERE sequence <= ?", arguments: [last])
      }
      try await rest()
    }
    appendedBytes.withLock { $0.forget(before: end) }
  }

  private func firstCommitToKeep(upTo sequence: Int64) async throws -> Int64 {
    let kept = configuration.retainedCommits
    let span = configuration.retainedMilliseconds
    let firstByBytes = appendedBytes.withLock {
      $0.firstSequence(bytesMax: configuration.retainedBytes)
    }
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
      return min(
        max(first ?? lastSequence, firstByBytes), lastSequence,
        sequence == .max ? .max : sequence + 1)
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

  /// Removes the remembered writes of clients that have not written for `clientMilliseconds`, and the rows that are too
  /// many (see `ClientWriteBound`).
  ///
  /// A reader selects the rows, so the writer only removes them by their keys. A step ends at the bounds of `StepBudget`.
  func forgetClientWrites(resting rest: @Sendable () async throws -> Void) async throws {
    let (bound, end) = try await pool.read { [configuration] db in
      let last = try SQLiteStore.lastCommitTime(db)
      return (
        try ClientWriteBound(db, rowsMax: configuration.clientWritesMax),
        last.map { $0.minusClamped(SQLiteStore.clientMilliseconds) } ?? .min
      )
    }
    var last: ClientWriteBound.RowKey = ("", .min)
    while true {
      let rows = try await pool.read { [last, configuration] db in
        try SQLiteStore.forgottenRows(
          db, before: end, bound, after: last, limit: configuration.checkpointStepRows)
      }
      guard let next = rows.last else { return }
      var left = rows[...]
      while !left.isEmpty {
        left = try await step { [left] db, budget in
          var left = left
          while !budget.isSpent, let row = left.popFirst() {
            // A row that was written again meanwhile has another sequence number, and stays.
            try db.cachedStatement(
              sql: "DELETE FROM client_writes WHERE client = ? AND number = ? AND sequence = ?"
            ).execute(arguments: [row.client, row.number, row.sequence])
            budget.spend(bytes: row.client.utf8.count)
          }
          return left
        }
        try await rest()
      }
      last = (next.client, next.number)
    }
  }

  /// Returns the time of the last commit; nil if there are none. An altered time would remove all rows, and a write that
  /// is sent again would be made twice.
  ///
  /// - Throws: `StoreError.damaged` if the commit is altered.
  private static func lastCommitTime(_ db: Database) throws -> Int64? {
    let last = try Row.fetchOne(
      db, sql: "SELECT \(CommitRow.columns) FROM commits ORDER BY sequence DESC LIMIT 1")
    guard let last, let sequence = last.number(0), let time = last.number(1) else { return nil }
    _ = try CommitRow.check(last, after: CommitRow.chain(db, after: sequence - 1))
    return time
  }

  /// A row of `client_writes` that is to be removed.
  private struct ForgottenRow: Sendable {
    let client: String
    let number: Int64
    let sequence: Int64
  }

  /// Returns the next rows to remove, in the order of their keys.
  private static func forgottenRows(
    _ db: Database, before end: Int64, _ bound: ClientWriteBound,
    after last: ClientWriteBound.RowKey, limit: Int
  ) throws -> [ForgottenRow] {
    let rows = try ByteStatement(
      db,
      """
      SELECT client, number, sequence, time FROM client_writes WHERE (client, number) > (?1, ?2)
      ORDER BY client, number
      """)
    defer { rows.end() }
    return try Array(last.client.utf8).withUnsafeBytes { client in
      try rows.bind(client, at: 1)
      try rows.bind(last.number, at: 2)
      var found: [ForgottenRow] = []
      while found.count < max(1, limit), try rows.next() {
        let client = rows.text(0)
        let sequence = rows.number(2)
        guard
          rows.number(3) < end
            || bound.excludes(ClientWriteBound.owner(of: client), sequence)
        else { continue }
        found.append(
          ForgottenRow(
            client: String(decoding: client, as: UTF8.self), number: rows.number(1),
            sequence: sequence))
      }
      return found
    }
  }
}
