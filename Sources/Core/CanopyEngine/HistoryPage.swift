public import CanopyTree

/// A part of a journal's history, read backwards.
public struct HistoryPage: Sendable {
  /// The commits that were asked for, the newest first, with their before-images.
  public var commits: [Commit]
  /// The sequence numbers of all commits that were read, whether they were asked for or not; nil if the
  /// journal has none of them. There are no gaps in it.
  public var read: ClosedRange<Int64>?
  /// Bytes of the rows that were read.
  public var bytes: Int

  /// A page; an empty one by default.
  public init(commits: [Commit] = [], read: ClosedRange<Int64>? = nil, bytes: Int = 0) {
    self.commits = commits
    self.read = read
    self.bytes = bytes
  }

  /// The most commits in a page, so that a reader can be cancelled soon.
  public static let commitsMax = 1_000

  /// Bytes of rows after which a page ends.
  public static let bytesMax = 1024 * 1024

  /// Whether nothing more belongs to it.
  public var isFull: Bool {
    bytes >= HistoryPage.bytesMax || (read?.count ?? 0) >= HistoryPage.commitsMax
  }

  /// Adds a commit that was read.
  ///
  /// - Parameters:
  ///   - sequence: its sequence number.
  ///   - bytes: the size of its row.
  ///   - commit: the commit; nil if it was not asked for.
  /// - Returns: whether it was added; not if it does not come right before the last one.
  public mutating func add(_ sequence: Int64, bytes: Int, _ commit: Commit?) -> Bool {
    if let read {
      guard sequence < read.lowerBound, read.lowerBound - 1 == sequence else { return false }
      self.read = sequence...read.upperBound
    } else {
      read = sequence...sequence
    }
    self.bytes += bytes
    if let commit { commits.append(commit) }
    return true
  }
}

/// Says of the locations that a commit writes whether the commit is asked for.
public typealias HistoryFilter = @Sendable ([Location]) -> Bool
