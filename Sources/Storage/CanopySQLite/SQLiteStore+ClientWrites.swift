internal import CanopyEngine
internal import CanopyTree
internal import GRDB

/// The writes that clients may send again, kept in the transaction of their commits.
extension SQLiteStore {
  /// How long a client may be away before a write whose answer it did not get can be made twice.
  static let clientMilliseconds: Int64 = 30 * 24 * 3_600_000

  /// Remembers a write, and forgets those that its client has seen the answers of.
  ///
  /// Each row keeps the number seen as of its write. A client's last row stays until the client has not
  /// written for long, so its mark outlives all its other rows.
  ///
  /// The engine forgets clients of owners that have many: such a client may have a row with the number. A
  /// client that has logged in or out has rows of each owner; their sequence numbers order them.
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

  /// Returns the writes of commits after one, the oldest first.
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
