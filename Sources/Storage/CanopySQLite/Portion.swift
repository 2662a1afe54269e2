internal import CanopyTree
internal import Foundation
internal import GRDB

/// The commits that a checkpoint folds together, as the locations that they wrote.
///
/// The number of different locations is bounded, and so is the memory for them, however many commits there are.
struct Portion {
  /// Commits that are read in one go.
  static let readCommits: Int64 = 1_000

  /// A commit without its values.
  struct Entry {
    var sequence: Int64
    /// Milliseconds since 1970.
    var time: Int64
    var locations: [Location]
  }

  /// The locations that the commits wrote.
  private(set) var locations = LocationSet()
  /// The sequence number of the last commit that is in it.
  private(set) var sequence: Int64
  /// The greatest time of a commit that is in it, in milliseconds since 1970.
  private(set) var latestTime: Int64 = 0
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

  /// Adds the next commits, up to the one with which the portion is whole.
  mutating func add(_ commits: [Entry]) {
    for commit in commits where !isWhole {
      for location in commit.locations { locations.insert(location) }
      sequence = commit.sequence
      latestTime = max(latestTime, commit.time)
    }
  }

  /// Reads commits without their values.
  ///
  /// - Throws: `StoreError.damaged` at the first that is missing or cannot be read.
  static func read(
    _ db: Database, _ range: ClosedRange<Int64>
  ) throws -> [Entry] {
    var result: [Entry] = []
    let rows = try Row.fetchCursor(
      db.cachedStatement(
        sql: """
          SELECT sequence, time, body FROM commits WHERE sequence BETWEEN ? AND ?
          ORDER BY sequence
          """),
      arguments: [range.lowerBound, range.upperBound])
    while let row = try rows.next() {
      let sequence: Int64 = row[0]
      guard sequence == range.lowerBound + Int64(result.count) else { break }
      do {
        try row.withUnsafeData(atIndex: 2) { data in
          try (data ?? Data()).withUnsafeBytes {
            let locations = try AssignmentCodec.decodeLocations($0)
            result.append(Entry(sequence: sequence, time: row[1], locations: locations))
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
