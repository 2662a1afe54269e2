internal import CanopyRows
internal import CanopyTree
internal import Foundation
internal import GRDB

extension CheckpointBatch {
  /// Reads commits without their values: all of the range, or the first ones until there are enough.
  ///
  /// The checksums are verified. The values of a checkpoint come from memory, so with the location of an altered commit the
  /// checkpoint would keep an old value at the right one. Such a commit stands for the whole tree.
  ///
  /// - Throws: `StoreError.damaged` at the first commit that is missing.
  static func read(
    _ db: Database, _ range: ClosedRange<Int64>
  ) throws -> Reading {
    var reading = Reading()
    let rows = try Row.fetchCursor(
      db.cachedStatement(
        sql: """
          SELECT \(CommitRow.columns) FROM commits WHERE sequence BETWEEN ? AND ?
          ORDER BY sequence
          """),
      arguments: [range.lowerBound, range.upperBound])
    var checksum = try CommitRow.chain(db, after: range.lowerBound - 1)
    while !reading.isFull, let row = try rows.next() {
      let sequence = row.number(0) ?? 0
      guard sequence == range.lowerBound + Int64(reading.entries.count) else { break }
      let expected = try CommitRow.checksum(row, after: checksum).checksum
      checksum = Checksum(stored: row.number(4) ?? 0)
      guard expected == checksum else {
        reading.appendAltered(sequence)
        continue
      }
      do {
        try row.withUnsafeData(atIndex: 2) { data in
          try (data ?? Data()).withUnsafeBytes {
            let locations = try AssignmentCodec.decodeLocations($0)
            reading.append(
              Entry(sequence: sequence, time: row.number(1) ?? 0, locations: locations))
          }
        }
      } catch let error as TreeError {
        throw StoreError.damagedRow("commit \(sequence)", error)
      }
    }
    guard reading.isFull || reading.entries.count == range.count else {
      throw StoreError.missing(commit: range.lowerBound + Int64(reading.entries.count))
    }
    return reading
  }
}
