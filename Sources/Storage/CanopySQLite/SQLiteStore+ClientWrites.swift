internal import CanopyEngine
internal import CanopyRows
internal import CanopyTree
internal import GRDB

/// The writes that clients may send again. They are stored in the transactions of their commits.
extension SQLiteStore {
  /// The time, in milliseconds, that a client may be away. A write that it sends again later could be made twice.
  static let clientMilliseconds: Int64 = 30 * 24 * 3_600_000

  /// Stores a write, and removes the client's writes whose replies the client has seen.
  ///
  /// Each row has the number that the client had seen at the time of the write. The last row of a client stays until the
  /// client has not written for `clientMilliseconds`, so the number in it survives the other rows.
  ///
  /// The engine forgets clients of owners that have many clients. So a row with the number may exist already. A client
  /// that has logged in or out has rows of each owner, ordered by their sequence numbers.
  static func remember(_ write: ClientWrite, _ db: Database) throws {
    let origin = write.origin
    let client = origin.storedClient.databaseValue
    try db.cachedStatement(sql: "DELETE FROM client_writes WHERE client = ? AND number <= ?")
      .execute(arguments: [client, origin.seen])
    let values: [DatabaseValue] = [
      client, origin.number.databaseValue, write.sequence.databaseValue,
      write.time.databaseValue, origin.seen.databaseValue,
    ]
    let checksum = SealedTable.checksum([SealedTable.clientWrites.rawValue.databaseValue] + values)
    try db.cachedStatement(
      sql: """
        INSERT OR REPLACE INTO client_writes(client, number, sequence, time, seen, checksum)
        VALUES (?, ?, ?, ?, ?, ?)
        """
    ).execute(arguments: StatementArguments(values + [checksum.stored.databaseValue]))
  }

  /// Returns the writes that the engine begins with, the oldest first: at most `rowsMax`, as `ClientWriteBound` selects
  /// them.
  ///
  /// - Complexity: O(rows). Decodes and checks only the rows that it returns, each once.
  static func readClientWrites(_ db: Database, rowsMax: Int) throws -> [ClientWrite] {
    let bound = try ClientWriteBound(db, rowsMax: rowsMax)
    var writes: [ClientWrite] = []
    try forEachClientWrite(db) { row in
      guard !bound.excludes(ClientWriteBound.owner(of: row.client), row.sequence) else { return }
      writes.append(try row.write())
    }
    return writes.sorted { $0.sequence < $1.sequence }
  }

  /// Returns the writes of the commits after `sequence`, the oldest first. O(rows).
  static func readClientWrites(_ db: Database, after sequence: Int64) throws -> [ClientWrite] {
    var writes: [ClientWrite] = []
    try forEachClientWrite(db) { row in
      if row.sequence > sequence { writes.append(try row.write()) }
    }
    return writes.sorted { $0.sequence < $1.sequence }
  }

  /// Removes the writes of the commits after `sequence`, because these commits are not kept: a client that sends such a
  /// write again must not get the reply of a commit that is lost. Returns their number. O(rows).
  static func removeClientWrites(_ db: Database, after sequence: Int64) throws -> Int {
    try db.execute(sql: "DELETE FROM client_writes WHERE sequence > ?", arguments: [sequence])
    return db.changesCount
  }

  /// Passes each row to `body`, in the order of the keys.
  static func forEachClientWrite(_ db: Database, _ body: (ClientWriteRow) throws -> Void) throws {
    let rows = try ByteStatement(
      db,
      """
      SELECT client, number, sequence, time, seen, checksum FROM client_writes
      ORDER BY client, number
      """)
    defer { rows.end() }
    while try rows.next() { try body(ClientWriteRow(rows: rows)) }
  }
}

/// A row of `client_writes`, valid until its statement advances.
struct ClientWriteRow {
  fileprivate let rows: ByteStatement

  /// The client as it is stored: see `WriteOrigin.storedClient`.
  var client: UnsafeRawBufferPointer { rows.text(0) }
  var sequence: Int64 { rows.number(2) }

  /// Checks the row and returns its write.
  ///
  /// - Throws: `StoreError.damaged`.
  func write() throws -> ClientWrite {
    var checksum = SealedTable.clientWrites.emptyChecksum
    checksum.add(text: client)
    for column in 1...4 as ClosedRange<Int32> { checksum.add(integer: rows.number(column)) }
    guard checksum.stored == rows.number(5) else { throw SealedTable.clientWrites.altered }
    let client = String(decoding: client, as: UTF8.self)
    do {
      let origin = try WriteOrigin(
        storedClient: client, number: rows.number(1), seen: rows.number(4))
      return ClientWrite(origin: origin, sequence: sequence, time: rows.number(3))
    } catch {
      throw StoreError.damagedRow("a write of the client \(client)", error.sentence)
    }
  }
}
