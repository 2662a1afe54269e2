internal import CanopyTree
internal import Foundation
internal import GRDB

/// A run of commits that a checkpoint folds together, as the locations that they wrote.
///
/// The number of distinct locations is bounded. So is the memory for them, however many commits there are.
struct CheckpointBatch {
  /// The number of commits that one read returns at most.
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
  /// The sequence number of the last commit in the batch.
  private(set) var sequence: Int64
  /// The greatest time of a commit in the batch, in milliseconds since 1970.
  private(set) var latestTime: Int64 = 0
  private let last: Int64
  private let locationsMax: Int

  /// Creates an empty batch for the commits after `first`, up to and including `last`.
  init(after first: Int64, through last: Int64, locationsMax: Int) {
    sequence = first
    self.last = last
    // A batch without room for a location would never advance.
    self.locationsMax = max(1, locationsMax)
  }

  /// Whether the batch takes no more commits.
  var isFull: Bool { sequence >= last || locations.count >= locationsMax }

  /// The sequence numbers of the commits to read next.
  var nextCommits: ClosedRange<Int64> {
    sequence + 1...max(sequence + 1, min(sequence + CheckpointBatch.readCommits, last))
  }

  /// Adds the next commits until the batch is full.
  mutating func add(_ commits: [Entry]) {
    for commit in commits where !isFull {
      for location in commit.locations { locations.insert(location) }
      sequence = commit.sequence
      latestTime = max(latestTime, commit.time)
    }
  }

  /// Reads commits without their values.
  ///
  /// - Throws: `StoreError.damaged` at the first commit that is missing or unreadable.
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
            result.append(Entry(sequence: sequence, time: row[1] ?? 0, locations: locations))
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
