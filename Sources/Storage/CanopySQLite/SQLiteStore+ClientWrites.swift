internal import CanopyEngine
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

  /// Returns the writes of the commits after `sequence`, the oldest first.
  static func readClientWrites(
    _ db: Database, after sequence: Int64 = 0
  ) throws -> [ClientWrite] {
    let rows = try Row.fetchCursor(
      db,
      sql: """
        SELECT client, number, sequence, time, seen, checksum FROM client_writes WHERE sequence > ?
        ORDER BY sequence
        """, arguments: [sequence])
    var writes: [ClientWrite] = []
    while let row = try rows.next() {
      try SealedTable.clientWrites.check(row)
      do {
        let origin = try WriteOrigin(storedClient: row[0], number: row[1], seen: row[4])
        writes.append(ClientWrite(origin: origin, sequence: row[2], time: row[3]))
      } catch {
        throw StoreError.damagedRow("a write of the client \(row[0] as String)", error.sentence)
      }
    }
    return writes
  }
}
