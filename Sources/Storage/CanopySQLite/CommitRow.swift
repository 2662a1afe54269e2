internal import CanopyEngine
internal import CanopyTree
internal import Foundation
internal import GRDB

/// A row of `commits`: its columns are `sequence, time, body, before, checksum`.
enum CommitRow {
  /// The columns, in the order that the other members expect.
  static let columns = "sequence, time, body, before, checksum"

  /// Returns the checksum that a row must have after the one before it, and the row's bytes.
  static func checksum(
    _ row: Row, after previous: Checksum
  ) throws -> (checksum: Checksum, bytes: Int) {
    try row.withUnsafeData(atIndex: 2) { body in
      try row.withUnsafeData(atIndex: 3) { before in
        let checksum = (body ?? Data()).withUnsafeBytes { body in
          before.map { before in
            before.withUnsafeBytes {
              Checksum.commit(after: previous, row[0], row[1], body, $0)
            }
          } ?? Checksum.commit(after: previous, row[0], row[1], body, nil)
        }
        return (checksum, (body?.count ?? 0) + (before?.count ?? 0))
      }
    }
  }

  /// Checks a row against the one before it. Returns its checksum.
  ///
  /// - Throws: `StoreError.damaged`.
  static func check(_ row: Row, after previous: Checksum) throws -> Checksum {
    let checksum = try checksum(row, after: previous).checksum
    guard checksum.stored == row[4] else {
      throw StoreError.altered("commit \(row[0] as Int64), or the one before it,")
    }
    return checksum
  }

  /// Returns the checksum that the commit after `sequence` follows.
  ///
  /// - Throws: `StoreError.damaged` if neither the commit nor the beginning of the chain is there.
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
  /// - Parameter known: the commit that is probably the last. If it is, its checksum is not looked for behind its
  ///   values, which may be large.
  static func last(
    _ db: Database, known: Tail? = nil
  ) throws -> (sequence: Int64, checksum: Checksum) {
    let statement = try ByteStatement(
      db, "SELECT sequence FROM commits ORDER BY sequence DESC LIMIT 1")
    defer { statement.end() }
    guard try statement.next() else {
      let meta = try Meta.read(db)
      return (meta[.checkpoint], meta.baseChecksum)
    }
    let sequence = statement.number(0)
    if let known, known.sequence == sequence { return (sequence, known.checksum) }
    return (sequence, try chain(db, after: sequence))
  }

  /// Reads a commit without its origin and before-image.
  static func commit(_ row: Row) throws -> Commit {
    let sequence: Int64 = row[0]
    do {
      let assignments = try row.withUnsafeData(atIndex: 2) { data in
        try (data ?? Data()).withUnsafeBytes { try AssignmentCodec.decode($0) }
      }
      return Commit(sequence: sequence, time: row[1], assignments: assignments)
    } catch {
      throw StoreError.damagedRow("commit \(sequence)", error)
    }
  }

  /// Reads a commit with its before-image.
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
