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
  /// The last commit that is in it.
  private(set) var sequence: Int64
  private let last: Int64
  private let locationsMax: Int

  /// A portion of the commits after one and up to another; nothing has been read yet.
  init(after first: Int64, through last: Int64, locationsMax: Int) {
    sequence = first
    self.last = last
    // With none no portion would ever come further.
    self.locationsMax = max(1, locationsMax)
  }

  /// Whether nothing more belongs to it.
  var isWhole: Bool { sequence >= last || locations.count >= locationsMax }

  /// The commits to be read next.
  var nextCommits: ClosedRange<Int64> {
    sequence + 1...max(sequence + 1, min(sequence + Portion.readCommits, last))
  }

  /// Adds what the next commits wrote, up to the one with which the portion is whole.
  mutating func add(_ commits: [(sequence: Int64, locations: [Location])]) {
    for commit in commits where !isWhole {
      for location in commit.locations { locations.insert(location) }
      sequence = commit.sequence
    }
  }

  /// Reads what some commits wrote.
  ///
  /// - Throws: `StoreError.damaged` at the first that is missing or cannot be read.
  static func read(
    _ db: Database, _ range: ClosedRange<Int64>
  ) throws -> [(sequence: Int64, locations: [Location])] {
    var result: [(sequence: Int64, locations: [Location])] = []
    let rows = try Row.fetchCursor(
      db.cachedStatement(
        sql: "SELECT sequence, body FROM commits WHERE sequence BETWEEN ? AND ? ORDER BY sequence"),
      arguments: [range.lowerBound, range.upperBound])
    while let row = try rows.next() {
      let sequence: Int64 = row[0]
      guard sequence == range.lowerBound + Int64(result.count) else { break }
      do {
        try row.withUnsafeData(atIndex: 1) { data in
          try (data ?? Data()).withUnsafeBytes {
            result.append((sequence, try AssignmentCodec.decodeLocations($0)))
          }
        }
      } catch let error as TreeError {
        throw StoreError.damagedRow("commit \(sequence)", error)
      }
    }
    guard result.count == range.count else {
      throw StoreError.missing(commit: range.lowerBound + Int64(result.count))
    }
    return result
  }
}
