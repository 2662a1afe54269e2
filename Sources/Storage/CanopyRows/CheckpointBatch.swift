package import CanopyTree

/// A run of commits that a checkpoint folds together, as the locations that they wrote.
///
/// The number of distinct locations is bounded. So is the memory for them, however many commits there are.
package struct CheckpointBatch: Sendable {
  /// The number of commits that one read returns at most.
  package static let readCommits: Int64 = 1_000

  /// A commit without its values.
  package struct Entry: Sendable {
    package var sequence: Int64
    /// Milliseconds since 1970.
    package var time: Int64
    package var locations: [Location]

    /// Creates the entry of a commit.
    package init(sequence: Int64, time: Int64, locations: [Location]) {
      self.sequence = sequence
      self.time = time
      self.locations = locations
    }
  }

  /// The locations that the commits wrote.
  package private(set) var locations = LocationSet()
  /// The sequence number of the last commit in the batch.
  package private(set) var sequence: Int64
  /// The greatest time of a commit in the batch, in milliseconds since 1970.
  package private(set) var latestTime: Int64 = 0
  private let last: Int64
  private let locationsMax: Int

  /// Creates an empty batch for the commits after `first`, up to and including `last`.
  package init(after first: Int64, through last: Int64, locationsMax: Int) {
    sequence = first
    self.last = last
    // A batch without room for a location would never advance.
    self.locationsMax = max(1, locationsMax)
  }

  /// Whether the batch takes no more commits.
  package var isFull: Bool { sequence >= last || locations.count >= locationsMax }

  /// The sequence numbers of the commits to read next.
  package var nextCommits: ClosedRange<Int64> {
    sequence + 1...max(sequence + 1, min(sequence + CheckpointBatch.readCommits, last))
  }

  /// Adds the next commits until the batch is full.
  package mutating func add(_ commits: [Entry]) {
    for commit in commits where !isFull {
      for location in commit.locations { locations.insert(location) }
      sequence = commit.sequence
      latestTime = max(latestTime, commit.time)
    }
  }
}
