public import CanopyEngine
public import CanopyTree

/// A journal that measures another one, as ``MeasuredJournal`` does, which several engines write.
public struct MeasuredSharedJournal: SharedJournal {
  private let measured: MeasuredJournal
  private let journal: any SharedJournal

  /// Creates a journal that measures `journal` in a registry.
  public init(_ journal: any SharedJournal, in registry: MetricsRegistry) {
    self.journal = journal
    measured = MeasuredJournal(journal, in: registry)
  }

  /// Reads the last checkpoint and the commits since.
  public func load(keeping indexes: IndexPlan) async throws -> JournalState {
    try await measured.load(keeping: indexes)
  }

  /// Appends commits, and measures that.
  public func append(_ commits: [Commit], after last: Int64) async throws {
    try await measured.append(commits, after: last)
  }

  /// Finds out which commits a failed append has stored.
  public func resolveAppend(after last: Int64) async throws -> [Commit] {
    try await measured.resolveAppend(after: last)
  }

  /// Reads a page of the history.
  public func history(
    after first: Int64, through last: Int64, where isAsked: @escaping HistoryFilter
  ) async throws -> HistoryPage {
    try await measured.history(after: first, through: last, where: isAsked)
  }

  /// Folds commits into the checkpoint, and measures that.
  public func checkpoint(
    _ root: Node, through sequence: Int64, resting rest: @Sendable () async throws -> Void
  ) async throws {
    try await measured.checkpoint(root, through: sequence, resting: rest)
  }

  /// Reads commits after a number.
  public func commits(after sequence: Int64, bytesMax: Int) async throws -> [Commit] {
    try await journal.commits(after: sequence, bytesMax: bytesMax)
  }

  /// Waits until there may be commits after a number.
  public func waitForCommits(after sequence: Int64, atMost duration: Duration) async {
    await journal.waitForCommits(after: sequence, atMost: duration)
  }

  /// Waits for the turn.
  public func takeTurn() async throws -> Bool { try await journal.takeTurn() }

  /// Ends the turn.
  public func endTurn() async { await journal.endTurn() }
}
