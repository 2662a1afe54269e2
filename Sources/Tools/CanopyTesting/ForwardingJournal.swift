public import CanopyEngine
public import CanopyTree

/// A journal that forwards to another one all operations that it does not define itself.
public protocol ForwardingJournal: Journal {
  /// The type of the other journal.
  associatedtype Base: Journal
  /// The other journal.
  var base: Base { get }
}

extension ForwardingJournal {
  /// Loads the other journal.
  public func load(keeping indexes: IndexPlan) async throws -> JournalState {
    try await base.load(keeping: indexes)
  }

  /// Appends to the other journal.
  public func append(_ commits: [Commit], after last: Int64) async throws {
    try await base.append(commits, after: last)
  }

  /// Asks the other journal.
  public func resolveAppend(after last: Int64) async throws -> [Commit] {
    try await base.resolveAppend(after: last)
  }

  /// Reads the other journal.
  public func history(
    after first: Int64, through last: Int64, where isAsked: @escaping HistoryFilter
  ) async throws -> HistoryPage {
    try await base.history(after: first, through: last, where: isAsked)
  }

  /// Stores a checkpoint in the other journal.
  public func checkpoint(
    _ root: Node, through sequence: Int64, resting rest: @Sendable () async throws -> Void
  ) async throws {
    try await base.checkpoint(root, through: sequence, resting: rest)
  }
}

/// A journal of several engines that forwards all operations that it does not define itself, except those of turns.
public protocol ForwardingSharedJournal: ForwardingJournal, SharedJournal
where Base: SharedJournal {}

extension ForwardingSharedJournal {
  /// Reads the other journal.
  public func commits(after sequence: Int64, bytesMax: Int) async throws -> [Commit] {
    try await base.commits(after: sequence, bytesMax: bytesMax)
  }

  /// Waits for the other journal.
  public func waitForCommits(after sequence: Int64, atMost duration: Duration) async {
    await base.waitForCommits(after: sequence, atMost: duration)
  }
}
