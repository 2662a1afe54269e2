internal import CanopyRows
internal import Foundation
internal import GRDB

extension ClientWriteBound {
  /// Selects the rows to keep.
  ///
  /// - Parameter rowsMax: the number of rows to keep, at least 1.
  /// - Complexity: O(rows) without their contents if no row is too many.
  init(_ db: Database, rowsMax: Int) throws {
    let count = try Int.fetchOne(db, sql: "SELECT count(*) FROM client_writes") ?? 0
    guard count > rowsMax else {
      self.init()
      return
    }
    try self.init(ClientWriteBound.owners(db), rowsMax: rowsMax) {
      try ClientWriteBound.sequence(db, of: $0, number: $1)
    }
  }

  /// Returns the owners with their numbers of rows. The rows of an owner follow each other in the order of the keys.
  private static func owners(_ db: Database) throws -> [Owner] {
    let rows = try ByteStatement(
      db, "SELECT client, sequence FROM client_writes ORDER BY client, number")
    defer { rows.end() }
    var owners: [Owner] = []
    while try rows.next() {
      let owner = owner(of: rows.text(0))
      if owners.last?.name.elementsEqual(owner) != true {
        owners.append(Owner(name: Array(owner)))
      }
      owners[owners.count - 1].count += 1
      owners[owners.count - 1].last = max(owners[owners.count - 1].last, rows.number(1))
    }
    return owners
  }

  /// Returns the sequence number of an owner's row with a number in the order from the newest; 1 is the newest.
  private static func sequence(
    _ db: Database, of owner: [UInt8], number: Int
  ) throws -> Int64 {
    try Int64.fetchOne(
      db.cachedStatement(
        sql: """
          SELECT sequence FROM client_writes WHERE client >= ? AND client < ?
          ORDER BY sequence DESC LIMIT 1 OFFSET ?
          """),
      arguments: [
        String(decoding: owner, as: UTF8.self), String(decoding: end(of: owner), as: UTF8.self),
        number - 1,
      ]) ?? .min
  }
}
