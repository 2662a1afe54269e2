public import CanopyTree
public import Logging
internal import Synchronization

/// The single writer: it orders writes, applies them, has them journaled, and publishes what is
/// durable.
///
/// Transactions wait in a queue. One task, `run`, takes all that are waiting, carries them out one
/// after the other on a tree of its own, appends their commits to the journal in one go (group commit),
/// publishes the tree, and answers. What arrives meanwhile is the next batch: so the more there is to
/// do, the more share one write to the disk.
///
/// Guarantees: commits are numbered without gaps in the order in which they were accepted; an answer
/// comes only when the commit, and all before it, are durable; when the journal fails, the engine finds out
/// whether the batch was stored before it answers: see `Engine.settle`. A refusal also waits for the commits that
/// it was decided upon, so that no client ever learns of a state that a crash can take back.
///
/// Everything that changes the tree happens on one thread: nothing is locked while a transaction
/// decides, and the pages that a commit replaces are freed by the thread that made them. (When callers
/// decided under a lock, a third of the time of a small write went into waiting for it and for the
/// allocator's.) Readers copy the reference to the current tree.
public final class Engine: Sendable {
  /// Settings of an engine.
  public struct Configuration: Sendable {
    /// The indexes to keep.
    public var indexPlan = IndexPlan()
    /// Transactions that may wait; further ones are refused as overloaded.
    public var queuedCommitsMax = 100_000
    /// Commits after which the journal is asked to fold them into its checkpoint. Starting up replays
    /// at most about twice as many.
    public var checkpointEvery = 1_000_000
    /// How long a commit waits at most until that is asked for, when there are not so many: from when
    /// it was made, or from the start of an engine that found it in the journal.
    public var checkpointAfter = Duration.seconds(300)
    /// Indexes that queries may add to those of the plan.
    public var addedIndexesMax = 64
    /// Steps of about a microsecond that the engine's task may spend on a batch to find out which views
    /// its commits have changed.
    ///
    /// For commits that change little that is cheaper than to wake the threads of the listeners for
    /// nothing. The rest is found out there: so writers do not wait longer the more others listen, or
    /// the more they are shown.
    public var notifyingCostMax = 16_384
    /// How long writers wait, after an append has failed, for a journal that cannot say whether it was
    /// stored. Then they are told that the outcome is unknown.
    public var outcomeUnknownAfter = Duration.seconds(5)
    /// The time since any moment, which never goes back. Work that holds the writer is measured by it.
    public var elapsed: @Sendable () -> Duration = {
      let start = ContinuousClock.now
      return { start.duration(to: .now) }
    }()

    /// The defaults.
    public init() {}
  }

  let journal: any Journal
  let now: @Sendable () -> Int64
  let clock: any Clock<Duration>
  let random: @Sendable () -> UInt64
  let configuration: Configuration
  let logger: Logger
  let state: Mutex<State>
  let listeners = Listeners()
  let judges = ListenJudges()
  let resumptions = TurnQueue(width: Limits.resumptionsMax)
  let watch: WriterWatch
  let retired = RetiredTrees()

  /// What others share with the engine's task. The lock is held for a moment at a time.
  struct State {
    var current: Tree
    var currentSequence: Int64
    /// What waits for the engine's task.
    var queue: [Request] = []
    /// Whether a batch has been taken that is not published.
    var isAtWork = false
    /// The last commit of the current tree that listeners have been told of.
    var toldSequence: Int64
    /// Called when they have been told of all.
    var whenTold: [@Sendable () -> Void] = []
    /// What the engine's task begins with.
    var pushIDs: PushIDGenerator
    var clientWrites: ClientWrites
    /// What has been published that a tree lacks which is being given indexes.
    var indexing: Indexing?
    var indexings = 0
    /// The last commit of the last whole checkpoint.
    var checkpointSequence: Int64
    var isStopping = false
    /// Whether the journal cannot say if the last batch was stored: then no writes are accepted.
    var isUnsettled = false
    /// Resumed when the journal is to be asked again, or the engine stops.
    var settleWait: CheckedContinuation<Void, Never>?
    /// Resumed when something is queued or the engine stops.
    var wakeUp: CheckedContinuation<Void, Never>?
    /// Ended when the commit is there, its time has passed, or the engine stops.
    var checkpointWait: CheckpointWait?
  }

  /// A request, carried out in a batch on the engine's task.
  struct Request: Sendable {
    /// The kind of the request, for the log.
    var name: StaticString
    /// Carries it out. Returns a closure that is called when the batch is published, or with the error when it
    /// is not.
    var body: @Sendable (inout Batch) -> @Sendable (EngineError?) -> Void
  }

  /// The end of a request that was carried out.
  struct Answer: Sendable {
    var name: StaticString
    var body: @Sendable (EngineError?) -> Void

    func callAsFunction(_ error: EngineError?) { body(error) }
  }

  /// An engine whose tree is the journal folded.
  ///
  /// - Parameters:
  ///   - now: milliseconds since 1970.
  ///   - clock: says how long checkpoints wait and rest.
  ///   - random: random words for push ids.
  /// - Throws: what the journal throws when it cannot be read.
  public init(
    journal: any Journal, configuration: Configuration = Configuration(),
    now: @escaping @Sendable () -> Int64, clock: any Clock<Duration>,
    random: @escaping @Sendable () -> UInt64, logger: Logger
  ) async throws {
    self.journal = journal
    self.configuration = configuration
    self.now = now
    self.clock = clock
    self.random = random
    self.logger = logger
    watch = WriterWatch(clock: configuration.elapsed, logger: logger)
    let loaded = try await journal.load(keeping: configuration.indexPlan)
    state = Mutex(
      State(
        current: loaded.tree, currentSequence: loaded.sequence, toldSequence: loaded.sequence,
        pushIDs: loaded.lastTime.map(PushIDGenerator.init(after:)) ?? PushIDGenerator(),
        clientWrites: ClientWrites(loaded.clientWrites),
        checkpointSequence: loaded.checkpoint))
  }

  /// The root of the current tree: all durable commits. O(1); what it returns never changes.
  public var root: Node { snapshot.root }

  /// The current tree and the sequence number of its last commit.
  public var snapshot: (root: Node, sequence: Int64) {
    state.withLock { ($0.current.root, $0.currentSequence) }
  }

  /// Whether there is something accepted that is not published.
  public var hasCommitsUnderWay: Bool { state.withLock { $0.isAtWork || !$0.queue.isEmpty } }

  /// Carries out a transaction: reads the latest tree, decides, and writes, with nothing in between.
  ///
  /// - Parameters:
  ///   - decide: sees the latest tree and returns what to write and what to tell. Called on the
  ///     engine's task, which does nothing else meanwhile: it must be brief. What it throws refuses the
  ///     transaction; `EngineError.denied` does where its decision's judge does not allow the write.
  ///   - origin: which write of which client it is. One that was made before is answered with
  ///     `RepeatedWrite`, when it is durable, and nothing is decided.
  ///   - name: the kind of the request, by which the log names one that takes too long.
  ///   - answer: called once, on the engine's task, or at once when the transaction is not accepted:
  ///     with what was decided, when it is durable; or with the error.
  public func submit<Result: Sendable>(
    _ decide: @escaping @Sendable (inout Proposal) throws -> Decision<Result>,
    once origin: WriteOrigin? = nil, named name: StaticString = "transaction",
    answer: @escaping @Sendable (Swift.Result<Committed<Result>, any Error>) -> Void
  ) {
    let refusal = accept(name) { batch in
      do {
        let result = try batch.propose(decide, once: origin)
        let committed = Committed(result: result, sequence: batch.sequence)
        return { answer($0.map { .failure($0) } ?? .success(committed)) }
      } catch {
        return { answer(.failure($0 ?? error)) }
      }
    }
    if let refusal { answer(.failure(refusal)) }
  }

  /// Makes writes, a commit each, in their order and with nothing in between: all of them that their
  /// judges allow, or none. Each is judged after those before it are made.
  ///
  /// - Parameter answer: called once, on the engine's task, or at once when they are not accepted: when
  ///   all are durable, with the indexes of those that were denied; or with the error.
  public func submit(
    _ decisions: [Decision<Void>],
    answer: @escaping @Sendable (Swift.Result<[Int], EngineError>) -> Void
  ) {
    // What one request does goes to the journal in one append.
    let refusal = accept("writes") { batch in
      var denied: [Int] = []
      for (index, decision) in decisions.enumerated() {
        do { try batch.propose { _ in decision } } catch { denied.append(index) }
      }
      return { [denied] error in answer(error.map { .failure($0) } ?? .success(denied)) }
    }
    if let refusal { answer(.failure(refusal)) }
  }

  /// As `submit`, for callers that can wait.
  public func transact<Result: Sendable>(
    _ decide: @escaping @Sendable (inout Proposal) throws -> Decision<Result>
  ) async throws -> Committed<Result> {
    try await withCheckedThrowingContinuation { continuation in
      submit(decide) { continuation.resume(with: $0) }
    }
  }

  /// Queues a request of a client.
  ///
  /// - Returns: why it is not accepted.
  private func accept(
    _ name: StaticString,
    _ body: @escaping @Sendable (inout Batch) -> @Sendable (EngineError?) -> Void
  ) -> EngineError? {
    let (refusal, wakeUp) = state.withLock {
      state -> (EngineError?, CheckedContinuation<Void, Never>?) in
      if state.isStopping { return (.stopped, nil) }
      if state.isUnsettled { return (.journalFailed, nil) }
      if state.queue.count >= configuration.queuedCommitsMax { return (.overloaded, nil) }
      state.queue.append(Request(name: name, body: body))
      return (nil, state.wakeUp.take())
    }
    wakeUp?.resume()
    return refusal
  }

  /// Queues a request of the engine's own, of which there are few.
  ///
  /// - Returns: whether it will be carried out; not when the engine is stopping.
  func acceptOwn(
    _ name: StaticString,
    _ body: @escaping @Sendable (inout Batch) -> @Sendable (EngineError?) -> Void
  ) -> Bool {
    let (isAccepted, wakeUp) = state.withLock {
      state -> (Bool, CheckedContinuation<Void, Never>?) in
      if state.isStopping { return (false, nil) }
      state.queue.append(Request(name: name, body: body))
      return (true, state.wakeUp.take())
    }
    wakeUp?.resume()
    return isAccepted
  }

  /// Has something done in line with the commits: when all that were accepted before are published,
  /// or have failed. The published tree then has the index.
  ///
  /// - Parameter body: called on the engine's task.
  /// - Returns: whether it will be called; not when the engine is stopping.
  func inLine(
    keeping order: Order = .key, at path: Path = .root,
    _ body: @escaping @Sendable (Engine) -> Void
  ) -> Bool {
    acceptOwn("index") { [self] batch in
      batch.keepIndex(order, at: path)
      return { _ in body(self) }
    }
  }

  /// Calls `body` when listeners have been told of every commit that the current tree has: at once, as
  /// a rule. So a reply about the tree can be held back until after the events that led there.
  public func whenTold(_ body: @escaping @Sendable () -> Void) {
    let isTold = state.withLock { state in
      if state.toldSequence == state.currentSequence { return true }
      state.whenTold.append(body)
      return false
    }
    if isTold { body() }
  }

  /// Refuses new writes from now on; `run` ends when those already accepted have been answered.
  public func stop() {
    let (wakeUp, settleWait, wakeUpCheckpoint) = state.withLock { state in
      state.isStopping = true
      return (state.wakeUp.take(), state.settleWait.take(), state.checkpointWait.take())
    }
    wakeUp?.resume()
    settleWait?.resume()
    wakeUpCheckpoint?.continuation.resume()
  }
}
