internal import Foundation
internal import GRDB

/// The rows of `client_writes` that are kept when there are more than a start may read.
///
/// Each owner keeps its newest rows. The owners that have the most rows lose their oldest ones, so that a client with
/// many names displaces only its own writes. The server then no longer knows such a client, or such a write of it, after
/// its next start: if the client sends the write again, it is made again.
///
/// - Complexity: O(rows), and O(owners) memory. O(rows) without their contents if no row is too many.
struct ClientWriteBound {
  /// The last key of the rows before the next ones: a client and a number.
  typealias RowKey = (client: String, number: Int64)

  /// For each owner that has too many rows, the sequence number of its first row that is kept.
  private(set) var firstKept: [[UInt8]: Int64] = [:]

  /// Whether all rows are kept.
  var keepsAll: Bool { firstKept.isEmpty }

  /// Selects the rows to keep.
  ///
  /// - Parameter rowsMax: the number of rows to keep, at least 1.
  init(_ db: Database, rowsMax: Int) throws {
    let count = try Int.fetchOne(db, sql: "SELECT count(*) FROM client_writes") ?? 0
    guard count > rowsMax else { return }
    let owners = try ClientWriteBound.owners(db)
    let share = ClientWriteBound.share(of: owners.map(\.count), rowsMax: rowsMax)
    var oldest = Int64.min
    if owners.count > rowsMax {
      // Not each owner can keep a row: those keep one that have written last.
      oldest = owners.map(\.last).sorted(by: >)[max(1, rowsMax) - 1]
    }
    for owner in owners {
      if owner.last < oldest {
        firstKept[owner.name] = .max
      } else if owner.count > share {
        firstKept[owner.name] = try ClientWriteBound.sequence(db, of: owner.name, number: share)
      }
    }
  }

  /// Whether a row is one too many.
  func excludes(_ owner: some Collection<UInt8>, _ sequence: Int64) -> Bool {
    guard !keepsAll, let first = firstKept[Array(owner)] else { return false }
    return sequence < first
  }

  /// Returns the largest number of rows that each owner may keep so that all have at most `rowsMax`; at least 1.
  static func share(of counts: [Int], rowsMax: Int) -> Int {
    var left = rowsMax
    for (index, count) in counts.sorted().enumerated() {
      let share = left / (counts.count - index)
      guard count <= share else { return max(1, share) }
      left -= count
    }
    return .max
  }

  /// Returns the part of a stored client that names the owner: `owner/`, or the whole name in rows of earlier versions.
  static func owner(of client: UnsafeRawBufferPointer) -> Slice<UnsafeRawBufferPointer> {
    client.firstIndex(of: UInt8(ascii: "/")).map { client[...$0] } ?? client[...]
  }

  private struct Owner {
    let name: [UInt8]
    var count = 0
    /// The sequence number of its newest row.
    var last = Int64.min
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
    // Names have only letters, digits, - and _, which sort after ! and, in a prefix with a slash, before the next
    // owner, whose prefix sorts after a slash.
    let hasSlash = owner.last == UInt8(ascii: "/")
    let end = hasSlash ? owner.dropLast() + [UInt8(ascii: "0")] : owner + [UInt8(ascii: "!")]
    return try Int64.fetchOne(
      db.cachedStatement(
        sql: """
          SELECT sequence FROM client_writes WHERE client >= ? AND client < ?
          ORDER BY sequence DESC LIMIT 1 OFFSET ?
          """),
      arguments: [
        String(decoding: owner, as: UTF8.self), String(decoding: end, as: UTF8.self), number - 1,
      ]) ?? .min
  }
}
