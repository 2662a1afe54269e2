public import CanopyEngine
public import CanopyTree
internal import CoreMetrics

/// A journal that measures another one: the commits and their bytes, the sizes of batches, and the times of appends and checkpoints.
///
/// It reads the clock twice for a batch, which takes a synchronization of the disk. It is a `SharedJournal` if the
/// measured journal is one.
public struct MeasuredJournal<Base: Journal>: Journal {
  private let journal: Base
  private let commits: Counter
  private let bytes: Counter
  private let failures: Counter
  private let batches: Recorder
  private let appends: Timer
  private let checkpoints: Timer
  private let now: @Sendable () -> Int64

  /// Creates a journal that measures `journal` in a registry.
  public init(_ journal: Base, in registry: MetricsRegistry) {
    self.journal = journal
    now = registry.now
    commits = Counter(label: "canopy_commits_total", factory: registry)
    bytes = Counter(label: "canopy_journal_bytes_total", factory: registry)
    failures = Counter(label: "canopy_append_failures_total", factory: registry)
    batches = Recorder(label: "canopy_batch_commits", factory: registry)
    appends = Timer(label: "canopy_append_seconds", factory: registry)
    checkpoints = Timer(label: "canopy_checkpoint_seconds", factory: registry)
    registry.describe("canopy_commits_total", "Commits.")
    registry.describe(
      "canopy_journal_bytes_total", "Bytes of the commits in the journal, with their before-images."
    )
    registry.describe("canopy_append_failures_total", "Appends to the journal that failed.")
    registry.describe("canopy_batch_commits", "Commits in a batch.")
    registry.describe("canopy_append_seconds", "Times of appends to the journal.")
    registry.describe("canopy_checkpoint_seconds", "Times of checkpoints.")
  }

  /// Reads the last checkpoint and the commits since.
  public func load(keeping indexes: IndexPlan) async throws -> JournalState {
    try await journal.load(keeping: indexes)
  }

  /// Appends commits, and measures that.
  public func append(_ commits: [Commit], after last: Int64) async throws {
    let start = now()
    do { try await journal.append(commits, after: last) } catch {
      failures.increment()
      throw error
    }
    appends.recordNanoseconds(now() - start)
    self.commits.increment(by: commits.count)
    bytes.increment(by: commits.reduce(0) { $0 + $1.textBytes })
    batches.record(commits.count)
  }

  /// Finds out which commits a failed append has stored.
  public func resolveAppend(after last: Int64) async throws -> [Commit] {
    try await journal.resolveAppend(after: last)
  }

  /// Reads a page of the history.
  public func history(
    after first: Int64, through last: Int64, where isAsked: @escaping HistoryFilter
  ) async throws -> HistoryPage {
    try await journal.history(after: first, through: last, where: isAsked)
  }

  /// Folds commits into the checkpoint, and measures that.
  public func checkpoint(
    _ root: Node, through sequence: Int64, resting rest: @Sendable () async throws -> Void
  ) async throws {
    let start = now()
    try await journal.checkpoint(root, through: sequence, resting: rest)
    checkpoints.recordNanoseconds(now() - start)
  }
}

extension MeasuredJournal: SharedJournal where Base: SharedJournal {
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
