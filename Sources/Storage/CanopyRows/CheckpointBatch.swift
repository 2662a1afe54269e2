package import CanopyTree

/// A run of commits that a checkpoint folds together, as the locations that they wrote.
///
/// The number of distinct locations and of the keys in their paths is bounded. So is the memory for them, however many
/// commits there are.
package struct CheckpointBatch: Sendable {
  /// The number of commits that one read returns at most.
  package static let readCommits: Int64 = 1_000
  /// The most keys in the paths of the commits that one read returns, besides one commit.
  package static let readKeys = 128 * 1024
  /// The most keys in the paths of a batch, for each location that it may have.
  package static let keysPerLocation = 4

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

  /// The commits of one read, until their paths have `readKeys` keys.
  package struct Reading: Sendable {
    package private(set) var entries: [Entry] = []
    /// The first commit that was altered on the disk; nil if none was.
    package private(set) var altered: Int64?
    private var keys = 0

    /// Creates a reading without commits.
    package init() {}

    /// Whether the read ends here.
    package var isFull: Bool { keys >= CheckpointBatch.readKeys }

    /// Appends the next commit.
    package mutating func append(_ entry: Entry) {
      entries.append(entry)
      for location in entry.locations { keys += location.path.count + 1 }
    }

    /// Appends the next commit, which was altered on the disk, so that its locations and its time are not known. The
    /// checkpoint then writes the whole tree.
    package mutating func appendAltered(_ sequence: Int64) {
      altered = altered ?? sequence
      append(Entry(sequence: sequence, time: 0, locations: [Location(.root)]))
    }
  }

  /// The locations that the commits wrote.
  package private(set) var locations = LocationSet()
  /// The sequence number of the last commit in the batch.
  package private(set) var sequence: Int64
  /// The greatest time of a commit in the batch, in milliseconds since 1970.
  package private(set) var latestTime: Int64 = 0
  /// The first commit in the batch that was altered on the disk; nil if none was.
  package private(set) var altered: Int64?
  private let last: Int64
  private let locationsMax: Int
  /// The number of keys in the paths of the locations.
  private var keys = 0
  /// The number of commits to read next.
  private var readNext = CheckpointBatch.readCommits

  /// Creates an empty batch for the commits after `first`, up to and including `last`.
  package init(after first: Int64, through last: Int64, locationsMax: Int) {
    sequence = first
    self.last = last
    // A batch without room for a location would never advance.
    self.locationsMax = max(1, locationsMax)
  }

  /// Whether the batch takes no more commits.
  package var isFull: Bool {
    sequence >= last || locations.count >= locationsMax
      || keys / CheckpointBatch.keysPerLocation >= locationsMax
  }

  /// The sequence numbers of the commits to read next.
  package var nextCommits: ClosedRange<Int64> {
    sequence + 1...max(sequence + 1, min(sequence + readNext, last))
  }

  /// Adds the commits of a read until the batch is full.
  package mutating func add(_ reading: Reading) {
    // A database may have sent the commits that did not fit, too.
    readNext =
      reading.isFull
      ? max(1, Int64(reading.entries.count)) : min(2 * readNext, CheckpointBatch.readCommits)
    if let found = reading.altered, altered == nil { altered = found }
    for commit in reading.entries where !isFull {
      for location in commit.locations {
        let count = locations.count
        locations.insert(location)
        if locations.count > count { keys += location.path.count + 1 }
      }
      sequence = commit.sequence
      latestTime = max(latestTime, commit.time)
    }
  }
}
