internal import CanopyTree

/// The state that the engine's thread keeps from batch to batch. Only that thread uses it.
final class WriterState {
  let now: @Sendable () -> Int64
  let random: @Sendable () -> UInt64
  /// See `Engine.Configuration.threadTime`.
  let threadTime: @Sendable () -> Duration
  let listeners: Listeners
  let authorizations: ListenAuthorizations
  /// Makes keys. The keys of commits that fail are not made again.
  var pushIDs: PushIDGenerator
  /// The client writes of the latest tree, durable or not.
  var clientWrites: ClientWrites
  /// The number of indexes that may be added to those of the plan.
  var indexesLeft: Int
  /// The requests that were taken from the queue and are not carried out yet, the first of them last.
  var taken: [WriteQueue.Entry] = []
  /// Whether the batch has carried out a part of the first of these requests.
  var hasUnfinished = false
  /// The version of the tree before the last batch, and its commits, if they are large: see `RetiredTrees`.
  var retired: (tree: Tree, commits: [Commit])?
  /// Logs failures of the journal.
  var journalLog: JournalLog
  /// Holds the text of one commit at a time.
  private var scratch = JSONOutput(capacity: 4096)
  /// Bytes of text up to which its memory is kept for the next commit.
  private static let scratchBytesMax = 256 * 1024

  init(_ engine: Engine, pushIDs: PushIDGenerator, clientWrites: ClientWrites) {
    now = engine.now
    random = engine.random
    threadTime = engine.configuration.threadTime
    listeners = engine.listeners
    authorizations = engine.authorizations
    indexesLeft = engine.configuration.addedIndexesMax
    journalLog = JournalLog(engine.logger)
    self.pushIDs = pushIDs
    self.clientWrites = clientWrites
  }

  /// Returns the text of a commit; nil if it is too large to be carried to the journal.
  ///
  /// - Throws: `EngineError.unstorable` when it does not read back.
  func text(
    of assignments: [Assignment], beforeImage: [Assignment]
  ) throws(EngineError) -> CommitText? {
    defer {
      if scratch.count > WriterState.scratchBytesMax { scratch = JSONOutput(capacity: 4096) }
    }
    return try CommitText.carried(assignments, beforeImage: beforeImage, scratch: &scratch)
  }
}
