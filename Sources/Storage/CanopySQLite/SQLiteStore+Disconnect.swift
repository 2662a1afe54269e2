public import CanopyEngine
internal import CanopyRows
internal import CanopyTree
internal import GRDB

extension SQLiteStore: DisconnectStore {
  /// See `DisconnectStore`.
  public func disconnectWrites(
    after group: DisconnectWriteID, countMax: Int, bytesMax: Int
  ) async throws -> [DisconnectWrite] {
    try await pool.read { db in
      // Both parts are in this order already, so SQLite merges them and reads no more than the page.
      let ids = try Row.fetchCursor(
        db,
        sql: """
          SELECT first, write FROM disconnect_groups WHERE first > ?1
          UNION ALL
          SELECT id, id FROM disconnect_writes WHERE id > ?1
            AND NOT EXISTS (SELECT 1 FROM disconnect_groups WHERE write = id)
          ORDER BY 1, 2
          """, arguments: [group])
      var page: [DisconnectWrite] = []
      var bytes = 0
      while let next = try ids.next() {
        let isSameGroup = page.last.map { $0.group == next[0] } ?? true
        guard isSameGroup || page.count < countMax && bytes < bytesMax else { break }
        guard let row = try SQLiteStore.disconnectRow(db, next[1]) else { continue }
        var write = try SQLiteStore.readDisconnectWrite(db, row)
        write.group = next[0]
        bytes += write.bytes
        page.append(write)
      }
      return page
    }
  }

  private static func disconnectRow(_ db: Database, _ id: DisconnectWriteID) throws -> Row? {
    try Row.fetchOne(
      db.cachedStatement(
        sql:
          "SELECT id, identity, request, exceptions, checksum FROM disconnect_writes WHERE id = ?"
      ), arguments: [id])
  }

  /// See `DisconnectStore`.
  public func disconnectWriteIDs() async throws -> Set<DisconnectWriteID> {
    try await pool.read { db in
      try Set(DisconnectWriteID.fetchCursor(db, sql: "SELECT id FROM disconnect_writes"))
    }
  }

  private static func disconnectRows(
    _ db: Database
  ) throws -> RowCursor {
    try Row.fetchCursor(
      db,
      sql: "SELECT id, identity, request, exceptions, checksum FROM disconnect_writes ORDER BY id")
  }

  /// Returns the problems of the rows, a sentence each. It does not check whether their requests can be carried out.
  static func disconnectProblems(_ db: Database) throws -> [String] {
    var problems: [String] = []
    let rows = try disconnectRows(db)
    while let row = try rows.next() {
      do {
        for path in try readDisconnectWrite(db, row).exceptions { _ = try Location(path) }
      } catch let error as TreeError {
        problems.append(StoreError.damagedRow(disconnectName(row), error).sentence)
      } catch let error as StoreError {
        problems.append(error.sentence)
      }
    }
    return problems
  }

  private static func readDisconnectWrite(_ db: Database, _ row: Row) throws -> DisconnectWrite {
    try SealedTable.disconnectWrites.check(row)
    let exceptions = try Row.fetchAll(
      db.cachedStatement(
        sql: "SELECT write, path, checksum FROM disconnect_exceptions WHERE write = ? ORDER BY path"
      ), arguments: [row[0] as Int64])
    for exception in exceptions { try SealedTable.disconnectExceptions.check(exception) }
    do {
      return DisconnectWrite(
        id: row[0], identity: row[1], request: row[2],
        exceptions: try readPaths(row[3]) + exceptions.map { $0[1] })
    } catch {
      throw StoreError.damagedRow(disconnectName(row), error)
    }
  }

  private static func disconnectName(_ row: Row) -> String {
    "on-disconnect write \(row[0] as Int64)"
  }

  /// See `DisconnectStore`. The change is on the disk (`full`) when this returns.
  ///
  /// Changes that wait for the writer are made in one transaction, and wait for the disk once. Each succeeds or fails
  /// by itself. Cancelling the task does not cancel the change.
  public func changeDisconnectWrites(
    adding request: (identity: String, request: String)?, to group: DisconnectWriteID?,
    exceptions: [DisconnectWriteID: [String]], removing removed: [DisconnectWriteID]
  ) async throws -> DisconnectWriteID? {
    try await make(
      DisconnectChange(added: request, group: group, exceptions: exceptions, removed: removed))
  }

  /// See `DisconnectStore`. Makes the change as `changeDisconnectWrites` does.
  public func setDisconnectIdentities(_ identities: [DisconnectWriteID: String]) async throws {
    _ = try await make(DisconnectChange(identities: identities))
  }

  private func make(_ change: DisconnectChange) async throws -> DisconnectWriteID? {
    try await disconnectChanges.make(change) { [self] changes in
      try await writeCounted { db in
        try changes.map { try SQLiteStore.result(of: $0, isAlone: changes.count == 1, db) }
      }
    }
  }

  /// Makes one change of a group, or nothing of it.
  ///
  /// - Throws: the error if it ended the transaction of the whole group.
  private static func result(
    of change: DisconnectChange, isAlone: Bool, _ db: Database
  ) throws -> Result<DisconnectWriteID?, any Error> {
    // The transaction is the savepoint of a single change.
    if isAlone { return .success(try make(change, db)) }
    do {
      var id: DisconnectWriteID?
      try db.inSavepoint {
        id = try make(change, db)
        return .commit
      }
      return .success(id)
    } catch {
      // SQLite rolls the whole transaction back after some errors, such as a full disk.
      guard db.isInsideTransaction else { throw error }
      return .failure(error)
    }
  }

  private static func make(_ change: DisconnectChange, _ db: Database) throws -> DisconnectWriteID?
  {
    for id in change.removed { try deleteDisconnectWrite(db, id) }
    for (id, paths) in change.exceptions {
      let insert = try db.cachedStatement(
        sql: "INSERT OR IGNORE INTO disconnect_exceptions(write, path, checksum) VALUES (?, ?, ?)")
      for path in paths {
        let values = [id.databaseValue, path.databaseValue]
        let checksum = SealedTable.checksum(
          [SealedTable.disconnectExceptions.rawValue.databaseValue] + values)
        try insert.execute(
          arguments: StatementArguments(values + [checksum.stored.databaseValue]))
      }
    }
    for (id, identity) in change.identities {
      try db.cachedStatement(sql: "UPDATE disconnect_writes SET identity = ? WHERE id = ?")
        .execute(arguments: [identity, id])
      try SealedTable.disconnectWrites.seal(db, where: "id = ?", [id])
    }
    guard let added = change.added else { return nil }
    try db.execute(
      sql: "INSERT INTO disconnect_writes(identity, request, exceptions) VALUES (?, ?, '[]')",
      arguments: [added.identity, added.request])
    let id = db.lastInsertedRowID
    try SealedTable.disconnectWrites.seal(db, where: "id = ?", [id])
    if let group = change.group {
      let values = [id.databaseValue, group.databaseValue]
      let checksum = SealedTable.checksum(
        [SealedTable.disconnectGroups.rawValue.databaseValue] + values)
      try db.cachedStatement(
        sql: "INSERT INTO disconnect_groups(write, first, checksum) VALUES (?, ?, ?)"
      ).execute(arguments: StatementArguments(values + [checksum.stored.databaseValue]))
    }
    return id
  }

  static func deleteDisconnectWrite(_ db: Database, _ id: DisconnectWriteID) throws {
    for sql in [
      "DELETE FROM disconnect_writes WHERE id = ?",
      "DELETE FROM disconnect_exceptions WHERE write = ?",
      "DELETE FROM disconnect_groups WHERE write = ?",
    ] { try db.cachedStatement(sql: sql).execute(arguments: [id]) }
  }

  /// Reads the exceptions of a row of an earlier version.
  private static func readPaths(_ text: String) throws(TreeError) -> [String] {
    guard case .array(let items) = try JSONValue(json: text, limits: .none) else {
      throw .invalidData("its exceptions are no array")
    }
    return try items.map { item throws(TreeError) in
      guard let path = item.string else { throw .invalidData("an exception is no path") }
      return path
    }
  }
}
