public import CanopyEngine
internal import CanopyTree
internal import GRDB

extension SQLiteStore: DisconnectStore {
  /// See `DisconnectStore`.
  public func disconnectWrites(
    after id: DisconnectWriteID, countMax: Int, bytesMax: Int
  ) async throws -> [DisconnectWrite] {
    try await pool.read { db in
      let rows = try SQLiteStore.disconnectRows(db, after: id)
      var page: [DisconnectWrite] = []
      var bytes = 0
      while page.count < countMax, bytes < bytesMax, let row = try rows.next() {
        let write = try SQLiteStore.readDisconnectWrite(row)
        bytes += write.bytes
        page.append(write)
      }
      return page
    }
  }

  /// See `DisconnectStore`.
  public func disconnectWriteIDs() async throws -> Set<DisconnectWriteID> {
    try await pool.read { db in
      try Set(DisconnectWriteID.fetchCursor(db, sql: "SELECT id FROM disconnect_writes"))
    }
  }

  private static func disconnectRows(
    _ db: Database, after id: DisconnectWriteID = .min
  ) throws -> RowCursor {
    try Row.fetchCursor(
      db,
      sql: """
        SELECT id, identity, request, exceptions, checksum FROM disconnect_writes WHERE id > ?
        ORDER BY id
        """, arguments: [id])
  }

  /// What is wrong with the rows, a sentence each; whether their requests can be carried out is for
  /// those to say who keep them.
  static func disconnectProblems(_ db: Database) throws -> [String] {
    var problems: [String] = []
    let rows = try disconnectRows(db)
    while let row = try rows.next() {
      do {
        for path in try readDisconnectWrite(row).exceptions { _ = try Location(path) }
      } catch let error as TreeError {
        problems.append(StoreError.damagedRow(disconnectName(row), error).sentence)
      } catch let error as StoreError {
        problems.append(error.sentence)
      }
    }
    return problems
  }

  private static func readDisconnectWrite(_ row: Row) throws -> DisconnectWrite {
    try SealedTable.disconnectWrites.check(row)
    do {
      return DisconnectWrite(
        id: row[0], identity: row[1], request: row[2], exceptions: try readPaths(row[3]))
    } catch {
      throw StoreError.damagedRow(disconnectName(row), error)
    }
  }

  private static func disconnectName(_ row: Row) -> String {
    "on-disconnect write \(row[0] as Int64)"
  }

  /// See `DisconnectStore`. One transaction, on the disk (`full`) when this returns.
  public func changeDisconnectWrites(
    adding request: (identity: String, request: String)?,
    exceptions: [DisconnectWriteID: [String]], removing removed: [DisconnectWriteID]
  ) async throws -> DisconnectWriteID? {
    try await writeCounted { db in
      for id in removed { try SQLiteStore.deleteDisconnectWrite(db, id) }
      for (id, paths) in exceptions {
        try db.execute(
          sql: "UPDATE disconnect_writes SET exceptions = ? WHERE id = ?",
          arguments: [SQLiteStore.text(of: paths), id])
        try SealedTable.disconnectWrites.seal(db, where: "id = ?", [id])
      }
      guard let request else { return nil }
      try db.execute(
        sql: "INSERT INTO disconnect_writes(identity, request, exceptions) VALUES (?, ?, '[]')",
        arguments: [request.identity, request.request])
      let id = db.lastInsertedRowID
      try SealedTable.disconnectWrites.seal(db, where: "id = ?", [id])
      return id
    }
  }

  static func deleteDisconnectWrite(_ db: Database, _ id: DisconnectWriteID) throws {
    try db.cachedStatement(sql: "DELETE FROM disconnect_writes WHERE id = ?")
      .execute(arguments: [id])
  }

  private static func text(of paths: [String]) -> String {
    var output = JSONOutput()
    output.append("[")
    for (index, path) in paths.enumerated() {
      if index > 0 { output.append(",") }
      output.append(string: path)
    }
    output.append("]")
    return output.text
  }

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
