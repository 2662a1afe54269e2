public import CanopyTree

/// A durable store of commits, which the engine writes and reads at its start.
///
/// An append succeeds only if the journal ends with the sequence number that the writer names. So if several machines
/// share a journal, only one of two writers succeeds, and the other one gets the commits that it missed.
public protocol Journal: Sendable {
  /// Reads the last checkpoint, and applies the commits since to it, one after the other. There may be millions, so they
  /// are not in memory together.
  ///
  /// - Parameter indexes: the indexes that the tree is to keep.
  /// - Throws: an error that says why it cannot be read: `JournalError.unreadable`, or the store's own.
  func load(keeping indexes: IndexPlan) async throws -> JournalState

  /// Appends commits whose sequence numbers follow `last`, all or none, and returns when they are
  /// durable. Stores their origins with them, and removes the origins that they report as seen.
  ///
  /// - Throws: `JournalError.conflict`, whose commits have their origins, when `last` is not the last
  ///   sequence number in the journal; any other error when they could not be stored. After any other
  ///   error the commits may be in the journal or not, all of them: `resolveAppend` finds out.
  func append(_ commits: [Commit], after last: Int64) async throws

  /// Finds out which commits a failed append has stored, and makes that final: if this returns without its
  /// commits, they do not appear later, even after a crash.
  ///
  /// - Parameter last: the sequence number that the append was to follow.
  /// - Returns: the commits after `last`, in order, with their origins; an empty array if none was stored.
  /// - Throws: the store's error if it cannot find out.
  func resolveAppend(after last: Int64) async throws -> [Commit]

  /// Reads a page of the history backwards, from the last commit up to `last` that the journal has.
  ///
  /// Locations are read first. The values and the before-image of a commit are read only if it is requested.
  /// So a call takes the memory of one page, however large other commits are.
  ///
  /// - Parameters:
  ///   - first: the commit at which to stop; it is not read.
  ///   - isAsked: returns whether a commit is requested.
  /// - Returns: commits until the page is full or a number is missing, at least one if there is any.
  /// - Throws: the store's error when it cannot be read.
  func history(
    after first: Int64, through last: Int64, where isAsked: @escaping HistoryFilter
  ) async throws -> HistoryPage

  /// Folds the commits up to `sequence` into the checkpoint, in the background, in bounded steps
  /// between which appends go on. The engine never runs two at once.
  ///
  /// Commits go on while a checkpoint is written, so parts of it may be newer than `sequence`. Assignments are absolute,
  /// so applying the commits since then in order still results in the present tree.
  ///
  /// - Parameters:
  ///   - root: the tree just after that commit.
  ///   - rest: called after each step. If it throws, the checkpoint ends there with that error, and the next one
  ///     continues from there.
  func checkpoint(
    _ root: Node, through sequence: Int64, resting rest: @Sendable () async throws -> Void
  ) async throws
}

extension Journal {
  /// Returns the tree after the last commit, and the sequence number of that commit. For commands without an engine.
  /// O(size).
  public func tree() async throws -> (root: Node, sequence: Int64) {
    let state = try await load(keeping: IndexPlan())
    return (state.tree.root, state.sequence)
  }
}

/// The contents of a journal at the start of an engine.
public struct JournalState: Sendable {
  /// The tree after all commits.
  public var tree: Tree
  /// The sequence number of the last commit.
  public var sequence: Int64
  /// The sequence number of the last commit that is certainly in the checkpoint as a whole.
  public var checkpoint: Int64
  /// The greatest time of any commit and in any key that an engine made; nil if there is none. New keys sort after it,
  /// even if the clock was set back.
  public var lastTime: Int64?

  /// The writes that clients may send again, the oldest first.
  public var clientWrites: [ClientWrite]

  /// The rules of the last commit with ``CommitMark/rules(_:)``. They are nil when no commit has such a mark, and when
  /// the journal does not keep rules.
  public var rules: JournaledRules?

  /// Creates the contents of a journal.
  public init(
    tree: Tree, sequence: Int64, checkpoint: Int64, lastTime: Int64? = nil,
    clientWrites: [ClientWrite] = [], rules: JournaledRules? = nil
  ) {
    self.tree = tree
    self.sequence = sequence
    self.checkpoint = checkpoint
    self.lastTime = lastTime
    self.clientWrites = clientWrites
    self.rules = rules
  }
}

/// The rules that a commit of the journal has put in force.
public struct JournaledRules: Sendable, Equatable {
  /// The text; nil for the initial rules.
  public var text: String?
  /// The sequence number of the commit.
  public var sequence: Int64

  /// Creates a record.
  public init(text: String?, sequence: Int64) {
    self.text = text
    self.sequence = sequence
  }
}

/// An error of a journal that the engine must distinguish from others.
public enum JournalError: Error, Sendable, CustomStringConvertible {
  /// Another writer has appended. These are the commits after the number that the writer named.
  case conflict(missed: [Commit])
  /// The stored data cannot be read. The sentence says why and what to do.
  case unreadable(String)
  /// The journal no longer has the next commits. Its reader loads the tree again.
  case forgotten
  /// An append that stored nothing, because another node has taken over these on-disconnect writes of its commits.
  case disconnectWritesTaken([DisconnectWriteID])

  /// A sentence for the log, without the contents of commits.
  public var description: String {
    switch self {
    case .conflict(let missed): "\(missed.count) commits of another writer were found"
    case .unreadable(let text): text
    case .forgotten: "the journal no longer has the next commits"
    case .disconnectWritesTaken(let ids):
      "\(ids.count) on-disconnect writes were taken over by another node"
    }
  }
}

/// A journal that can begin with the contents of another one.
public protocol MovableJournal: Journal {
  /// Begins with a tree, as if its commits had been folded and removed. Clients cannot resume from before.
  ///
  /// Stores the tree in steps, then everything else in one transaction.
  ///
  /// Precondition: the journal is empty, and no engine uses it.
  ///
  /// - Parameter state: the contents. A journal that does not keep rules ignores them.
  func begin(with state: JournalState) async throws
}
