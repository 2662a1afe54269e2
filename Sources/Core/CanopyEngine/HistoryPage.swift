public import CanopyTree

/// A part of the history in a journal, read backwards.
public struct HistoryPage: Sendable {
  /// The requested commits, the newest first, with their before-images.
  public var commits: [Commit]
  /// The sequence numbers of all commits that were read, requested or not, without gaps; nil if the journal has no
  /// such commit.
  public var read: ClosedRange<Int64>?
  /// Bytes of the rows that were read.
  public var bytes: Int

  /// Creates a page; an empty one by default.
  public init(commits: [Commit] = [], read: ClosedRange<Int64>? = nil, bytes: Int = 0) {
    self.commits = commits
    self.read = read
    self.bytes = bytes
  }

  /// The most commits in a page, so that a cancelled reader ends soon.
  public static let commitsMax = 1_000

  /// Bytes of rows after which a page ends.
  public static let bytesMax = 1024 * 1024

  /// Whether the page is complete.
  public var isFull: Bool {
    bytes >= HistoryPage.bytesMax || (read?.count ?? 0) >= HistoryPage.commitsMax
  }

  /// Adds a commit that was read.
  ///
  /// - Parameters:
  ///   - sequence: its sequence number.
  ///   - bytes: the size of its row.
  ///   - commit: the commit; nil if it was not requested.
  /// - Returns: whether it was added. It must come directly before the last one.
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

/// Returns whether a commit that writes some locations is requested.
public typealias HistoryFilter = @Sendable ([Location]) -> Bool
