internal import CanopyRows
internal import CanopyTree
internal import Foundation
internal import GRDB

extension CheckpointBatch {
  /// Reads commits without their values: all of the range, or the first ones until there are enough.
  ///
  /// - Throws: `StoreError.damaged` at the first commit that is missing or unreadable.
  static func read(
    _ db: Database, _ range: ClosedRange<Int64>
  ) throws -> Reading {
    var reading = Reading()
    let rows = try Row.fetchCursor(
      db.cachedStatement(
        sql: """
          SELECT sequence, time, body FROM commits WHERE sequence BETWEEN ? AND ?
          ORDER BY sequence
          """),
      arguments: [range.lowerBound, range.upperBound])
    while !reading.isFull, let row = try rows.next() {
      let sequence = row.number(0) ?? 0
      guard sequence == range.lowerBound + Int64(reading.entries.count) else { break }
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
