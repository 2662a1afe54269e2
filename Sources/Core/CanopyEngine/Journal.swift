public import CanopyTree

/// Where commits are made to last: the seam between the engine and what stores its history.
///
/// Appending is conditional on the sequence number that the writer believes to be the last one. So
/// when several machines share a journal, two writers can never both win, and the loser learns what
/// it missed.
public protocol Journal: Sendable {
  /// Reads what the journal holds and folds it: the last checkpoint, and onto it the commits since, one
  /// after the other. There may be millions, so they are not in memory together.
  ///
  /// - Parameter indexes: the indexes that the tree is to keep.
  /// - Throws: an error that says why it cannot be read: `JournalError.unreadable`, or the store's own.
  func load(keeping indexes: IndexPlan) async throws -> JournalState

  /// Appends commits whose sequence numbers follow `last`, all or none, and returns when they are
  /// durable. Their origins are remembered with them, and those that they say are seen are forgotten.
  ///
  /// - Throws: `JournalError.conflict`, whose commits have their origins, when `last` is not the last
  ///   sequence number in the journal; any other error when they could not be stored. After any other
  ///   error the commits may be in the journal or not, all of them: `resolveAppend` finds out.
  func append(_ commits: [Commit], after last: Int64) async throws

  /// Finds out what an append that failed has stored, and makes that final: if this returns without its
  /// commits, they do not turn up later, also not after a crash.
  ///
  /// - Parameter last: the sequence number that the append was to follow.
  /// - Returns: the commits after `last`, in order, with their origins; none if nothing was stored.
  /// - Throws: the store's error when it cannot be told.
  func resolveAppend(after last: Int64) async throws -> [Commit]

  /// Reads a page of the history backwards, from the last commit up to `last` that the journal has.
  ///
  /// Locations are read first: of a commit that is not asked for neither values nor before-image are.
  /// So the memory for it is that of one page, whatever others have written.
  ///
  /// - Parameters:
  ///   - first: the commit at which to stop; it is not read.
  ///   - isAsked: the commits to return.
  /// - Returns: commits until the page is full or a number is missing, at least one if there is any.
  /// - Throws: the store's error when it cannot be read.
  func history(
    after first: Int64, through last: Int64, where isAsked: @escaping HistoryFilter
  ) async throws -> HistoryPage

  /// Folds the commits up to `sequence` into the checkpoint, in the background, in bounded steps
  /// between which appends go on. The engine never runs two at once.
  ///
  /// A checkpoint is written while commits go on being made, so that parts of it may be newer than the
  /// commit that it counts as. Assignments being absolute, applying the commits since in order leads to
  /// the present tree all the same.
  ///
  /// - Parameters:
  ///   - root: the tree just after that commit.
  ///   - rest: to be awaited after each step. What it throws ends the checkpoint where it is, and is
  ///     thrown on; the next one goes on from there.
  func checkpoint(
    _ root: Node, through sequence: Int64, resting rest: @Sendable () async throws -> Void
  ) async throws
}

/// What a journal holds.
public struct JournalState: Sendable {
  /// The tree: all commits, folded.
  public var tree: Tree
  /// The sequence number of the last commit.
  public var sequence: Int64
  /// That of the last commit that is surely in the checkpoint as a whole.
  public var checkpoint: Int64
  /// The greatest time of any commit and in any key that an engine made, if one is known: keys that are made
  /// from now on sort after it, also when the clock has been set back.
  public var lastTime: Int64?

  /// The writes that clients may send again, the oldest first.
  public var clientWrites: [ClientWrite]

  /// A state.
  public init(
    tree: Tree, sequence: Int64, checkpoint: Int64, lastTime: Int64? = nil,
    clientWrites: [ClientWrite] = []
  ) {
    self.tree = tree
    self.sequence = sequence
    self.checkpoint = checkpoint
    self.lastTime = lastTime
    self.clientWrites = clientWrites
  }
}

/// What goes wrong with a journal in ways that the engine must tell apart.
public enum JournalError: Error, Sendable, CustomStringConvertible {
  /// Somebody else appended; these are the commits after the number that the writer believed last.
  case conflict(missed: [Commit])
  /// What is stored cannot be read; the sentence says why and what to do.
  case unreadable(String)

  /// What happened, for the log; without the contents of commits.
  public var description: String {
    switch self {
    case .conflict(let missed): "\(missed.count) commits of another writer were found"
    case .unreadable(let text): text
    }
  }
}
