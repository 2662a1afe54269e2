internal import CanopyTree
internal import Foundation
internal import GRDB

/// The commits that a checkpoint folds together: what they wrote.
///
/// As many as wrote up to so many different places, so that the memory for them is bounded however many
/// commits there are; the more places are written again and again, the more commits that is.
struct Portion {
  /// Commits that are read in one go.
  static let readCommits: Int64 = 1_000

  /// What was written.
  private(set) var locations = LocationSet()
  /// The last commit that was read.
  private(set) var sequence: Int64
  private let last: Int64
  private let locationsMax: Int

  /// A portion of the commits after one and up to another.
  init(after first: Int64, through last: Int64, locationsMax: Int = .max) {
    sequence = min(first, last)
    self.last = last
    self.locationsMax = locationsMax
  }

  /// Whether there is no more to be read.
  var isWhole: Bool { sequence >= last || locations.count >= locationsMax }

  /// Reads some commits, up to a thousand or the one with which the portion is whole.
  mutating func read(_ db: Database) throws {
    let end = min(sequence + Portion.readCommits, last)
    let rows = try Row.fetchCursor(
      db.cachedStatement(
        sql: """
          SELECT sequence, body FROM commits WHERE sequence > ? AND sequence <= ? ORDER BY sequence
          """), arguments: [sequence, end])
    while !isWhole, let row = try rows.next() {
      let commit: Int64 = row[0]
      do {
        try row.withUnsafeData(atIndex: 1) { data in
          try (data ?? Data()).withUnsafeBytes {
            for location in try AssignmentCodec.decodeLocations($0) { locations.insert(location) }
          }
        }
      } catch let error as TreeError {
        throw StoreError.damagedRow("commit \(commit)", error)
      }
      sequence = commit
    }
    if !isWhole { sequence = end }
  }
}
