internal import CanopySystem
public import CanopyTree
internal import DequeModule
public import Logging
internal import Synchronization

/// The single writer. It orders writes, applies them, appends them to the journal, and publishes the durable tree.
///
/// Transactions wait in a queue. One task, `run`, takes up to 1,000 of them, carries them out one after the
/// other on a tree of its own, appends their commits to the journal together (group commit), publishes
/// the tree, notifies listeners, and completes the transactions. Transactions that arrive meanwhile are the
/// next batch. So under load more commits share one synchronization of the disk.
///
/// Guarantees: commits are numbered without gaps in the order in which they were accepted. A transaction
/// completes with a success only when its commit and all before it are durable. A refused transaction also completes
/// only when the commits that it was decided on are durable. So no client ever sees a state that a crash can undo.
///
/// Several engines may write one journal (``SharedJournal``). An engine that lost the race for the next numbers adopts
/// the commits of the winner, and decides its whole batch again on the new tree. No client sees that as an error. Each
/// engine also reads the commits of the others as they come: see `Engine.follow`.
///
/// When an append fails, the engine asks the journal whether it has stored the batch, and completes no transaction
/// before it knows. Only if the journal does not answer within `Configuration.outcomeUnknownAfter`, the transactions
/// complete with `EngineError.outcomeUnknown`. See `Engine.resolveAppend`.
///
/// One thread changes the tree: no lock is held while a transaction decides, and the thread that made a page frees it
/// when a commit replaces it. Readers copy the reference to the current tree.
public final class Engine: Sendable {
  /// Settings of an engine.
  public struct Configuration: Sendable {
    /// The indexes to keep.
    public var indexPlan = IndexPlan()
    /// The number of transactions that may wait. Further ones are refused as overloaded. If the engine serves its
    /// owners in turn, one owner may have an eighth of this number.
    public var queuedCommitsMax = 100_000
    /// The number of commits after which the journal folds them into its checkpoint. A start replays
    /// at most about twice as many.
    public var checkpointEvery = 1_000_000
    /// The bytes of commits after which the journal folds them as well, though they are fewer: a few large commits fill
    /// the disk as much as many small ones. Only commits that this engine made are counted.
    public var checkpointBytes = 256 * 1024 * 1024
    /// The longest time from a commit to the next checkpoint if fewer commits were made. It counts from the
    /// commit, or from the start of an engine that found the commit in the journal.
    public var checkpointAfter = Duration.seconds(300)
    /// The most locations of one commit. Larger ones are refused before they are appended.
    public var commitLocationsMax = Limits.commitLocationsMax
    /// The most bytes of the assignments of one commit in the journal.
    public var commitBytesMax = Limits.commitBytesMax
    /// The number of indexes that queries may add to the plan.
    public var addedIndexesMax = 64
    /// The budget for a batch, in steps of about a microsecond, in which the engine's thread finds out which views
    /// the commits have changed. When it is used up, views are notified without that check.
    ///
    /// For small commits the check is cheaper than waking the threads of the listeners without need. The threads of the
    /// listeners do the remaining work, so writers do not wait longer when there are more listeners.
    public var notifyingCostMax = 4_096
    /// The longest time until the engine looks for commits of other engines, if it hears of none. Only for a journal that
    /// several engines write.
    public var followAfter = Duration.seconds(1)
    /// The longest time for which writers wait, after a failed append, until the journal reports whether it
    /// stored the commits. After this time they receive `EngineError.outcomeUnknown`.
    public var outcomeUnknownAfter = Duration.seconds(5)

    /// A clock: returns the time since any moment, which never goes back. It measures the work that holds the writer,
    /// and ends batches that take long.
    public var elapsed: @Sendable () -> Duration = {
      let start = ContinuousClock.now
      return { start.duration(to: .now) }
    }()

    /// Returns the processor time of the calling thread. It bounds a commit of several writes.
    public var threadTime: @Sendable () -> Duration = { ThreadTime.used() }

    /// Creates the default settings.
    public init() {}
  }

  let journal: any Journal
  let now: @Sendable () -> Int64
  /// The clock of waits.
  public let clock: any Clock<Duration>
  let random: @Sendable () -> UInt64
  let configuration: Configuration
  let logger: Logger
  let state: Mutex<State>
  let listeners = Listeners()
  let authorizations = ListenAuthorizations()
  let reauthorizations = ReauthorizationQueue()
  let longAuthorizations = LongAuthorizations()
  let startingListeners = StartingListeners()
  /// The turns of the verdicts of listeners that begin and take many steps.
  let longStarts = TurnQueue(width: 1)
  let thread: ThreadExecutor
  let watch: WriterWatch
  let resumptions: TurnQueue
  /// The turns of resumptions that read few commits, so that they do not wait for long ones.
  let shortResumptions: TurnQueue
  /// The request to look for commits, which readers make that wait for a commit of another engine.
  let followRequest = FollowRequest()
  /// The journal, if several engines write it.
  let shared: (any SharedJournal)?
  /// See `CommitNote.writer`; nil if the journal has one engine.
  let identity: Int64?

  /// The state that other threads share with the engine's thread. The lock is held for a moment at a time.
  struct State {
    var current: Tree
    var currentSequence: Int64
    /// The requests that wait for the engine's thread.
    var queue: WriteQueue
    /// Whether a batch has been taken that is not published.
    var isAtWork = false
    var observers: [WeakObserver] = []
    var commitObservers: [WeakCommitObserver] = []
    /// The bound on the memory of the tree; nil for none.
    var memory: WeakTreeMemory?
    /// The initial state of the engine's thread.
    var pushIDs: PushIDGenerator
    var clientWrites: ClientWrites
    /// The rules that the journal had at the start: see `takeMarks`.
    var journaledRules: JournaledRules?
    /// The commits that were published since `keepIndexes` copied the tree.
    var indexing: Indexing?
    var indexings = 0
    /// The last commit of the last whole checkpoint.
    var checkpointSequence: Int64
    var isStopping = false
    /// Whether the journal cannot say if the last batch was stored. Then no writes are accepted.
    var isAppendInDoubt = false
    /// Resumed when it is time to ask the journal again, or the engine stops.
    var resolveWait: CheckedContinuation<Void, Never>?
    /// The commits of other engines that were read and wait for the engine's thread.
    var followed: Deque<FollowedPage> = []
    /// The number of the last commit that is in force: it is in the tree, and so are the rules that it may have replaced.
    /// Only if several engines write the journal.
    var sequenceInForce: Int64
    /// The callers that wait for a commit.
    var sequenceWaits: [SequenceWait] = []
    var lastSequenceWait = 0
    /// Whether the engine's thread takes no more commits of other engines.
    var hasEnded = false
    /// Whether the last attempt to read the commits of other engines failed.
    var isCutOff = false
    /// The races that were lost.
    var races = Races()
    /// The closures that take the marks of commits.
    var markHandlers: [@Sendable (JournalEvent) -> Void] = []
    /// Resumed when something is queued or the engine stops.
    var wakeUp: CheckedContinuation<Void, Never>?
    /// The bytes of the texts of all commits that this engine has made. Ten gigabytes a second would take 29 years to
    /// overflow it.
    var textBytes: Int64 = 0
    /// Ended when the commit is published or so many bytes are, its time has passed, or the engine stops.
    var checkpointWait: CheckpointWait?

    /// Queues a request of a client.
    ///
    /// - Returns: the error if it is not accepted; otherwise the continuation that waits for it, if there is one. The
    ///   caller resumes it without the lock.
    mutating func add(
      _ request: any PendingRequest, of owner: WriteOwner
    ) -> (refusal: EngineError?, wakeUp: CheckedContinuation<Void, Never>?) {
      if isStopping { return (.stopped, nil) }
      if isAppendInDoubt { return (.journalFailed, nil) }
      guard queue.add(request, of: owner) else { return (.overloaded, nil) }
      return (nil, wakeUp.take())
    }
  }

  /// The greatest number of a commit that an engine starts with, such that sums of numbers do not overflow. At a
  /// million commits a second it is reached after 146,000 years.
  static let sequenceMax: Int64 = 1 << 62

  /// Creates an engine with the tree that the journal holds.
  ///
  /// - Parameters:
  ///   - now: returns the time in milliseconds since 1970.
  ///   - clock: measures the waits and rests of checkpoints.
  ///   - random: returns random words for push ids.
  /// - Throws: the journal's error if it cannot be read; `JournalError.unreadable`; `ThreadError`.
  public init(
    journal: any Journal, configuration: Configuration = Configuration(),
    now: @escaping @Sendable () -> Int64, clock: any Clock<Duration>,
    random: @escaping @Sendable () -> UInt64, logger: Logger
  ) async throws {
    self.journal = journal
    shared = journal as? any SharedJournal
    identity = shared == nil ? nil : Int64(truncatingIfNeeded: random())
    self.configuration = configuration
    self.now = now
    self.clock = clock
    self.random = random
    self.logger = logger
    thread = try ThreadExecutor()
    watch = WriterWatch(clock: configuration.elapsed, logger: logger)
    resumptions = TurnQueue(width: Limits.resumptionsMax, charging: configuration.elapsed)
    shortResumptions = TurnQueue(
      width: Limits.resumptionsMax, charging: configuration.elapsed)
    let loaded = try await journal.load(keeping: configuration.indexPlan)
    guard 0...Engine.sequenceMax ~= loaded.sequence, 0...loaded.sequence ~= loaded.checkpoint else {
      throw JournalError.unreadable(
        "the journal says that its last commit has the number \(loaded.sequence) and its checkpoint the number "
          + "\(loaded.checkpoint), which cannot be: restore the data folder from a backup")
    }
    state = Mutex(
      State(
        current: loaded.tree, currentSequence: loaded.sequence,
        queue: WriteQueue(countMax: configuration.queuedCommitsMax),
        pushIDs: loaded.lastTime.map(PushIDGenerator.init(after:)) ?? PushIDGenerator(),
        clientWrites: ClientWrites(loaded.clientWrites), journaledRules: loaded.rules,
        checkpointSequence: loaded.checkpoint, sequenceInForce: loaded.sequence))
  }

  /// The clock that measures work: see `Configuration.elapsed`.
  public var elapsed: @Sendable () -> Duration { configuration.elapsed }

  /// The root of the current tree, with all durable commits. O(1). The returned version never changes.
  public var root: Node { snapshot.root }

  /// The current tree and the sequence number of its last commit.
  public var snapshot: Snapshot { state.withLock { $0.snapshot } }

  /// Whether the engine refuses new writes, because it is to stop.
  public var isStopping: Bool { state.withLock { $0.isStopping } }

  /// Whether the commits of other engines cannot be read at present. Reads then answer from the last known tree.
  public var isCutOff: Bool { state.withLock { $0.isCutOff } }

  /// Whether requests were accepted that are not published.
  public var hasCommitsUnderWay: Bool { state.withLock { $0.isAtWork || !$0.queue.isEmpty } }

  /// Queues a transaction. Safe to call from any thread.
  ///
  /// - Parameter owner: the writer, which shares the engine with others.
  public func submit(_ transaction: some Transaction, of owner: WriteOwner = .server) {
    let request = PendingTransaction(transaction)
    let (refusal, wakeUp) = state.withLock { $0.add(request, of: owner) }
    wakeUp?.resume()
    if let refusal { transaction.complete(.failure(refusal)) }
  }

  /// Queues a transaction made of closures. They are called as the methods of `Transaction` are.
  public func submit<Result: Sendable>(
    _ decide: @escaping @Sendable (inout Proposal) throws -> Decision<Result>,
    once origin: WriteOrigin? = nil, of owner: WriteOwner = .server,
    named name: StaticString = "transaction",
    completion: @escaping @Sendable (Swift.Result<Committed<Result>, any Error>) -> Void
  ) {
    submit(
      ClosureTransaction(origin: origin, name: name, body: decide, completion: completion),
      of: owner)
  }

  /// Carries out a transaction and waits until it is durable.
  ///
  /// - Throws: the error that refused it, or `EngineError`.
  public func transact<Result: Sendable>(
    _ decide: @escaping @Sendable (inout Proposal) throws -> Decision<Result>
  ) async throws -> Committed<Result> {
    try await withCheckedThrowingContinuation { continuation in
      submit(decide) { continuation.resume(with: $0) }
    }
  }

  /// Makes groups of writes, a commit for each group, in their order. Each write is authorized after the writes before
  /// it were made. A denied write is left out, and the others of its group are made.
  ///
  /// A group that is too large or takes too long for one commit becomes several, each with whole writes: see
  /// `Engine.jointMax` and `Engine.jointTimeMax`.
  ///
  /// They are one request of their owner. If they do not fit in a batch, writes of other owners come in between, as they
  /// come between the requests of an owner. After a failure no further write is made.
  ///
  /// - Parameters:
  ///   - owner: the writer, between whose earlier and later requests they are made.
  ///   - completion: called once, on the engine's thread, or at once if they are not accepted: when
  ///     all are durable or denied, or after a failure.
  public func submit(
    _ groups: [[Decision<Void>]], of owner: WriteOwner = .server,
    completion: @escaping @Sendable (WritesOutcome) -> Void
  ) {
    let request = PendingWrites(groups, completion: completion)
    let (refusal, wakeUp) = state.withLock { $0.add(request, of: owner) }
    wakeUp?.resume()
    if let refusal { completion(WritesOutcome(failure: refusal)) }
  }

  /// Queues a request of the engine itself, such as a barrier. They are few, so their number has no bound.
  ///
  /// - Parameter owner: the owner in whose turns it is carried out.
  /// - Returns: whether it will be carried out; not when the engine is stopping.
  func enqueueOwn(_ request: any PendingRequest, of owner: WriteOwner = .server) -> Bool {
    let (isAccepted, wakeUp) = state.withLock {
      state -> (Bool, CheckedContinuation<Void, Never>?) in
      if state.isStopping { return (false, nil) }
      state.queue.add(own: request, of: owner)
      return (true, state.wakeUp.take())
    }
    wakeUp?.resume()
    return isAccepted
  }

  /// Calls a closure between two batches, when all commits that were accepted before are published or have failed.
  ///
  /// - Parameters:
  ///   - name: the kind of the work, for the log.
  ///   - body: called on the engine's thread.
  /// - Returns: whether it will be called; not when the engine is stopping.
  func enqueueBarrier(
    named name: StaticString = "authorization", _ body: @escaping @Sendable () -> Void
  ) -> Bool {
    enqueueOwn(Barrier(named: name, keeping: .key, at: .root, body))
  }

  /// Calls a closure between two batches, as the other `enqueueBarrier` does. The published tree then keeps an index.
  ///
  /// - Parameters:
  ///   - order: the order of the index.
  ///   - path: the path of the branch whose children it orders.
  ///   - owner: the owner whose turn it takes, and that is charged for its time.
  func enqueueBarrier(
    named name: StaticString = "listen", keeping order: Order, at path: Path,
    of owner: WriteOwner = .server, _ body: @escaping @Sendable () -> Void
  ) -> Bool {
    enqueueOwn(Barrier(named: name, keeping: order, at: path, of: owner, body), of: owner)
  }

  /// Adds an observer of batches. The engine does not keep it alive.
  ///
  /// - Returns: the current snapshot; the observer gets all later ones.
  public func add(_ observer: any BatchObserver) -> Snapshot {
    state.withLock { state in
      state.observers.removeAll { $0.observer == nil }
      state.observers.append(WeakObserver(observer: observer))
      return state.snapshot
    }
  }

  /// Has the commits counted from the next batch on. The engine does not keep the memory alive.
  public func count(in memory: any TreeMemory) {
    state.withLock { $0.memory = WeakTreeMemory(memory: memory) }
  }

  /// Adds an observer of commits. The engine does not keep it alive.
  ///
  /// - Returns: the current snapshot; the observer gets all later commits.
  public func add(_ observer: any CommitObserver) -> Snapshot {
    state.withLock { state in
      state.commitObservers.removeAll { $0.observer == nil }
      state.commitObservers.append(WeakCommitObserver(observer: observer))
      return state.snapshot
    }
  }

  /// Refuses new writes from now on. `run` ends when all accepted writes are complete.
  public func stop() {
    let (wakeUp, resolveWait, wakeUpCheckpoint, waits) = state.withLock { state in
      state.isStopping = true
      defer { state.sequenceWaits = [] }
      return (
        state.wakeUp.take(), state.resolveWait.take(), state.checkpointWait.take(),
        state.sequenceWaits
      )
    }
    for wait in waits { wait.continuation.resume(returning: false) }
    wakeUp?.resume()
    resolveWait?.resume()
    wakeUpCheckpoint?.continuation.resume()
  }
}
