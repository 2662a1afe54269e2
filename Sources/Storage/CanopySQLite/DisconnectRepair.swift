internal import CanopyEngine
internal import GRDB

/// The removal of on-disconnect writes that must not be made after a repair: those that their clients may have cancelled,
/// and those that belong to the same commit as a lost one.
struct DisconnectRepair {
  let db: Database

  /// Removes the writes. Returns a description of each loss.
  ///
  /// - Parameters:
  ///   - tables: the repair of the tables, which must have ended.
  ///   - hasLostChanges: whether changes of any of these tables are lost.
  func run(after tables: TableRepair, hasLostChanges: Bool) throws -> [String] {
    func isDamaged(_ table: SealedTable) -> Bool {
      tables.altered.contains(table) || tables.stale.contains(table)
    }
    if isDamaged(.disconnectExceptions) {
      return try removeAll("exceptions of them are altered or missing")
    }
    if hasLostChanges || tables.stale.contains(.disconnectWrites) {
      return try removeAll("it is not known which of them were cancelled")
    }
    if isDamaged(.disconnectGroups) {
      return try removeAll("it is not known which of them belong to one commit")
    }
    return tables.altered.contains(.disconnectWrites) ? try removeBrokenGroups() : []
  }

  private func removeAll(_ reason: String) throws -> [String] {
    for table in [SealedTable.disconnectWrites, .disconnectExceptions, .disconnectGroups] {
      try db.execute(sql: "DELETE FROM \(table.rawValue)")
      try table.writeSum(db)
    }
    return ["all on-disconnect writes, because \(reason)"]
  }

  /// Removes the writes of each group that has lost one: its writes are made together or not at all.
  ///
  /// The id of an altered row may be altered, too. So each group counts of which a write is missing, also if it is the first
  /// one, which its client may have cancelled.
  private func removeBrokenGroups() throws -> [String] {
    let groups = try DisconnectWriteID.fetchAll(
      db,
      sql: """
        SELECT DISTINCT first FROM disconnect_groups
        WHERE write NOT IN (SELECT id FROM disconnect_writes)
          OR first NOT IN (SELECT id FROM disconnect_writes)
        """)
    let before = try count()
    for first in groups {
      let others = try DisconnectWriteID.fetchAll(
        db, sql: "SELECT write FROM disconnect_groups WHERE first = ?", arguments: [first])
      for id in [first] + others { try SQLiteStore.deleteDisconnectWrite(db, id) }
    }
    let removed = before - (try count())
    guard removed > 0 else { return [] }
    return [
      "\(removed) more on-disconnect writes, because they belong to the same commit as one that is lost"
    ]
  }

  private func count() throws -> Int {
    try Int.fetchOne(db, sql: "SELECT count(*) FROM disconnect_writes") ?? 0
  }
}
