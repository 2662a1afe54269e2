internal import CanopyTree

/// The state that the engine's thread keeps from batch to batch. Only that thread uses it.
final class WriterState {
  private let clock: @Sendable () -> Int64
  /// The greatest time of a commit of another engine, in milliseconds since 1970. Times of commits never go back from one
  /// node to another, even if their clocks differ.
  var latestTime = Int64.min
  /// See `CommitNote.writer`; nil if the journal has one engine.
  let identity: Int64?
  let random: @Sendable () -> UInt64
  /// See `Engine.Configuration.threadTime`.
  let threadTime: @Sendable () -> Duration
  /// See `Engine.Configuration.commitLocationsMax` and `commitBytesMax`.
  private let commitMax: (locations: Int, bytes: Int)
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
  /// The requests of a batch that lost the race for its numbers. They are decided again before all others.
  var again: [WriteQueue.Entry]?
  /// The number of the next requests that were decided before, in a batch that lost the race.
  var repeats = 0
  /// The races that were lost since the last append.
  var lostRaces = 0
  /// Whether the engine has the turn: see `SharedJournal.takeTurn`.
  var hasTurn = false
  /// The on-disconnect writes that another node has taken over since the last append.
  var takenDisconnectWrites: Set<DisconnectWriteID> = []
  /// Whether the owners of the batch are served in turn.
  var isInTurn = false
  /// The owners that the batch served and that are to be charged, with the time of each request.
  var served: [(owner: WriteOwner, time: Duration)] = []
  /// The version of the tree before the last batch, its commits and its requests, if they are large: see
  /// `RetiredTrees`.
  var retired: RetiredTrees.Content?
  /// Logs failures of the journal.
  var journalLog: JournalLog
  /// Holds the text of one commit at a time.
  private var scratch = JSONOutput(capacity: 4096)
  /// Bytes of text up to which its memory is kept for the next commit.
  private static let scratchBytesMax = 256 * 1024

  init(_ engine: Engine, pushIDs: PushIDGenerator, clientWrites: ClientWrites) {
    clock = engine.now
    identity = engine.identity
    random = engine.random
    threadTime = engine.configuration.threadTime
    commitMax = (engine.configuration.commitLocationsMax, engine.configuration.commitBytesMax)
    listeners = engine.listeners
    authorizations = engine.authorizations
    indexesLeft = engine.configuration.addedIndexesMax
    journalLog = JournalLog(engine.logger)
    self.pushIDs = pushIDs
    self.clientWrites = clientWrites
  }

  /// The time in milliseconds since 1970.
  func now() -> Int64 { max(clock(), latestTime) }

  /// Returns the note of a commit; nil if the journal has one engine.
  func note(keyTime: Int64?, _ mark: CommitMark? = nil) -> CommitNote? {
    identity.map { CommitNote(writer: $0, keyTime: keyTime, mark: mark) }
  }

  /// Returns the text of a commit; nil if it is too large to be carried to the journal.
  ///
  /// - Parameters:
  ///   - write: the write that the assignments come from; nil if there are several.
  ///   - largeBytes: the bytes of large texts that the batch may still carry.
  ///   - bytes: the bytes of the texts of the batch, to which those of this one are added.
  /// - Throws: `EngineError.commitTooLarge` when the commit has more locations or bytes than it may; `.unstorable` when
  ///   its text does not read back.
  func text(
    of assignments: [Assignment], from write: Write?, beforeImage: [Assignment],
    largeBytes: inout Int, bytes: inout Int
  ) throws(EngineError) -> CommitText? {
    defer {
      if scratch.count > WriterState.scratchBytesMax { scratch = JSONOutput(capacity: 4096) }
    }
    guard assignments.count <= commitMax.locations else { throw .commitTooLarge }
    let text = try CommitText.carried(
      assignments, of: write, beforeImage: beforeImage, bytesMax: commitMax.bytes,
      largeBytes: &largeBytes, scratch: &scratch)
    bytes += scratch.count
    return text
  }
}
