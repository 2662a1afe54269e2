internal import CanopyEngine
internal import CanopyRows
internal import CanopyTree
internal import Foundation
internal import GRDB

/// A row of `commits`, with the columns `sequence, time, body, before, checksum`.
enum CommitRow {
  /// The columns in the order that the other members expect.
  static let columns = "sequence, time, body, before, checksum"

  /// Returns the checksum that a row must have after its predecessor, and the row's size in bytes.
  static func checksum(
    _ row: Row, after previous: Checksum
  ) throws -> (checksum: Checksum, bytes: Int) {
    let (sequence, time) = (row.number(0) ?? 0, row.number(1) ?? 0)
    return try row.withUnsafeData(atIndex: 2) { body in
      try row.withUnsafeData(atIndex: 3) { before in
        let checksum = (body ?? Data()).withUnsafeBytes { body in
          before.map { before in
            before.withUnsafeBytes {
              Checksum.commit(after: previous, sequence, time, body, $0)
            }
          } ?? Checksum.commit(after: previous, sequence, time, body, nil)
        }
        return (checksum, (body?.count ?? 0) + (before?.count ?? 0))
      }
    }
  }

  /// Checks a row against its predecessor. Returns its checksum.
  ///
  /// - Throws: `StoreError.damaged`.
  static func check(_ row: Row, after previous: Checksum) throws -> Checksum {
    let checksum = try checksum(row, after: previous).checksum
    guard checksum.stored == row.number(4) else {
      throw StoreError.altered("commit \(row.number(0) ?? 0), or the one before it,")
    }
    return checksum
  }

  /// Returns the checksum of the commit `sequence`, on which the checksum of the next commit depends.
  ///
  /// - Throws: `StoreError.damaged` if the commit does not exist and the chain does not begin after it.
  static func chain(_ db: Database, after sequence: Int64) throws -> Checksum {
    let stored = try Int64.fetchOne(
      db.cachedStatement(sql: "SELECT checksum FROM commits WHERE sequence = ?"),
      arguments: [sequence])
    if let stored { return Checksum(stored: stored) }
    let meta = try Meta.read(db)
    guard meta[.base] == sequence else { throw StoreError.missing(commit: sequence) }
    return meta.baseChecksum
  }

  /// Returns the number and the checksum of the last commit.
  ///
  /// - Throws: `StoreError.damaged` if there are no commits, but the journal has not been emptied.
  /// - Parameter known: the commit that is probably the last. If it is, its checksum need not be read: the column comes
  ///   after the values, which may be large.
  static func last(
    _ db: Database, known: Tail? = nil
  ) throws -> (sequence: Int64, checksum: Checksum) {
    let statement = try ByteStatement(
      db, "SELECT sequence FROM commits ORDER BY sequence DESC LIMIT 1")
    defer { statement.end() }
    guard try statement.next() else {
      let meta = try Meta.read(db)
      guard meta[.base] == meta[.checkpoint] else {
        throw StoreError.missing(commit: meta[.checkpoint])
      }
      return (meta[.checkpoint], meta.baseChecksum)
    }
    let sequence = statement.number(0)
    if let known, known.sequence == sequence { return (sequence, known.checksum) }
    return (sequence, try chain(db, after: sequence))
  }

  /// Decodes a commit without its origin and before-image.
  static func commit(_ row: Row) throws -> Commit {
    let sequence = row.number(0) ?? 0
    do {
      let assignments = try row.withUnsafeData(atIndex: 2) { data in
        try (data ?? Data()).withUnsafeBytes { try AssignmentCodec.decode($0) }
      }
      return Commit(sequence: sequence, time: row.number(1) ?? 0, assignments: assignments)
    } catch {
      throw StoreError.damagedRow("commit \(sequence)", error)
    }
  }

  /// Decodes a commit with its before-image.
  static func commitAndImage(_ row: Row) throws -> Commit {
    var commit = try commit(row)
    do {
      commit.beforeImage = try row.withUnsafeData(atIndex: 3) { data in
        try data.map { data in
          try data.withUnsafeBytes { try BeforeImageCodec.decode($0, of: commit.assignments) }
        }
      }
    } catch {
      throw StoreError.damagedRow("the before-image of commit \(commit.sequence)", error)
    }
    return commit
  }
}

/// The sequence numbers and the numbers of changes that a folder may have. Arithmetic on them cannot overflow.
///
/// A server that makes a million commits in each second reaches the end after more than a hundred thousand years.
/// So a number outside of the range is damage.
enum SequenceRange {
  /// The greatest number.
  static let max: Int64 = 1 << 62

  /// Whether the last commit can have a number, or the changes can be so many. Without any, the number is 0.
  static func contains(_ sequence: Int64) -> Bool { (0...max).contains(sequence) }

  /// Checks the numbers of all commits. O(log commits).
  ///
  /// - Throws: `StoreError.damaged`.
  static func check(_ db: Database) throws {
    let range = try Row.fetchOne(db, sql: "SELECT min(sequence), max(sequence) FROM commits")
    guard let first = range?.number(0), let last = range?.number(1) else { return }
    guard first >= 1, last <= max else {
      throw StoreError.damaged(
        "a commit has the number \(first < 1 ? first : last), which no commit can have: "
          + StoreError.waysOut)
    }
  }

  /// Removes the commits outside of the range. Returns their number.
  static func removeOthers(_ db: Database) throws -> Int {
    try db.execute(
      sql: "DELETE FROM commits WHERE sequence < 1 OR sequence > ?", arguments: [max])
    return db.changesCount
  }
}
