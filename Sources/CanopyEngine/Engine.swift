public import CanopyTree
public import Logging
internal import Synchronization

/// The single writer: it orders writes, applies them, has them journaled, and publishes what is
/// durable.
///
/// Three things are kept apart. The *pending* tree has every accepted commit and is what transactions
/// see; the *current* tree has every durable one and is what readers see; between them lies the queue
/// of commits that wait for the journal. One task, `run`, takes all that is waiting, appends it in one
/// go (group commit), publishes the tree of its last commit, and answers.
///
/// Guarantees: commits are numbered without gaps in the order in which they were accepted; an answer
/// comes only when the commit, and all before it, are durable; when the journal fails, every waiting
/// commit is answered with an error and none is visible. A refusal also waits for the commits that it
/// was decided upon, so that no client ever learns of a state that a crash can take back.
///
/// Deciding happens on the caller's thread under one lock: a few microseconds, no hops. Readers take
/// the same lock only to copy the reference to the current tree.
public final class Engine: Sendable {
  /// Settings of an engine.
  public struct Configuration: Sendable {
    /// The indexes to keep.
    public var indexPlan = IndexPlan()
    /// Commits that may wait for the journal; further writes are refused as overloaded.
    public var queuedCommitsMax = 100_000
    /// Commits after which the journal is asked to fold them into its checkpoint.
    public var checkpointEvery = 50_000
    /// Indexes that queries may add to those of the plan.
    public var addedIndexesMax = 64

    /// The defaults.
    public init() {}
  }

  let journal: any Journal
  private let now: @Sendable () -> Int64
  private let random: @Sendable () -> UInt64
  private let configuration: Configuration
  private let logger: Logger
  private let state: Mutex<State>
  let listeners = Listeners()

  private struct State {
    var current: Tree
    var currentSequence: Int64
    var pending: Tree
    var pendingSequence: Int64
    var queue: [Waiting] = []
    /// Whether anything waits for the journal, is with it, or is being told to listeners.
    var hasUnpublished = false
    /// The last commit of the current tree that listeners have been told of.
    var toldSequence: Int64
    /// Called when they have been told of all.
    var whenTold: [@Sendable () -> Void] = []
    var pushIDs = PushIDGenerator()
    var clientWrites: ClientWrites
    var addedIndexes = 0
    var checkpointSequence: Int64
    var isStopping = false
    /// Resumed when something is queued or the engine stops.
    var wakeUp: CheckedContinuation<Void, Never>?
    /// Resumed when a checkpoint is due or the engine stops.
    var wakeUpCheckpoint: CheckedContinuation<Void, Never>?
  }

  /// Something that waits for all commits before it to be durable.
  private struct Waiting {
    /// Its own commit, if it has one.
    var commit: Commit?
    /// Whether it is an index that was added.
    var addsIndex = false
    var answer: @Sendable (EngineError?) -> Void
  }

  /// An engine whose tree is the journal folded.
  ///
  /// - Parameters:
  ///   - now: milliseconds since 1970.
  ///   - random: random words for push ids.
  /// - Throws: what the journal throws when it cannot be read.
  public init(
    journal: any Journal, configuration: Configuration = Configuration(),
    now: @escaping @Sendable () -> Int64, random: @escaping @Sendable () -> UInt64,
    logger: Logger
  ) async throws {
    self.journal = journal
    self.configuration = configuration
    self.now = now
    self.random = random
    self.logger = logger
    let loaded = try await journal.load()
    var tree = Tree(root: loaded.root, indexPlan: configuration.indexPlan)
    var sequence = loaded.checkpoint
    for commit in loaded.commits {
      tree.apply(commit.assignments)
      sequence = commit.sequence
    }
    state = Mutex(
      State(
        current: tree, currentSequence: sequence, pending: tree, pendingSequence: sequence,
        toldSequence: sequence,
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

  /// Whether there are commits that are accepted and not published.
  public var hasCommitsUnderWay: Bool { state.withLock { $0.hasUnpublished } }

  /// Carries out a transaction: reads the latest tree, decides, and writes, with nothing in between.
  ///
  /// - Parameters:
  ///   - decide: sees the latest tree and returns what to write and what to tell. Runs at once, under
  ///     the engine's lock: it must be brief and must not use the engine. What it throws refuses the
  ///     transaction.
  ///   - origin: which write of which client it is. One that was made before is answered with
  ///     `RepeatedWrite`, when it is durable, and nothing is decided.
  ///   - answer: called once, later or at once, on some thread, outside the lock: with what was
  ///     decided, when it is durable; or with the error.
  public func submit<Result: Sendable>(
    _ decide: (inout Proposal) throws -> Decision<Result>, once origin: WriteOrigin? = nil,
    answer: @escaping @Sendable (Swift.Result<Committed<Result>, any Error>) -> Void
  ) {
    var immediate: Swift.Result<Committed<Result>, any Error>?
    let wakeUp = state.withLock { state in
      if let refusal = admission(state) {
        immediate = .failure(refusal)
        return nil as CheckedContinuation<Void, Never>?
      }
      let outcome = Swift.Result {
        if let origin { try state.clientWrites.check(origin) }
        var (commit, result) = try propose(&state, decide)
        if let origin { commit?.origin = origin }
        if let write = commit?.clientWrite { state.clientWrites.note(write) }
        return (commit, result)
      }
      let sequence = state.pendingSequence
      switch outcome {
      case .success(let (commit, result)):
        let committed = Committed(result: result, sequence: sequence)
        if commit == nil, !state.hasUnpublished {
          immediate = .success(committed)
          return nil
        }
        return enqueue(
          &state,
          Waiting(commit: commit) { error in
            answer(error.map { .failure($0) } ?? .success(committed))
          })
      case .failure(let refusal):
        guard state.hasUnpublished else {
          immediate = .failure(refusal)
          return nil
        }
        return enqueue(&state, Waiting(commit: nil) { answer(.failure($0 ?? refusal)) })
      }
    }
    wakeUp?.resume()
    if let immediate { answer(immediate) }
  }

  /// Makes writes, a commit each, in their order and with nothing in between: all of them, or none.
  ///
  /// - Parameter answer: called once, later or at once, on some thread, outside the lock: when all are
  ///   durable, or with the error.
  public func submit(
    _ decisions: [Decision<Void>], answer: @escaping @Sendable (EngineError?) -> Void
  ) {
    var refusal: EngineError?
    let wakeUp = state.withLock { state -> CheckedContinuation<Void, Never>? in
      refusal = admission(state)
      guard refusal == nil else { return nil }
      // What is queued while the lock is held goes to the journal in one append.
      for decision in decisions {
        let (commit, _) = propose(&state) { _ in decision }
        state.queue.append(Waiting(commit: commit) { _ in })
      }
      return enqueue(&state, Waiting(commit: nil, answer: answer))
    }
    wakeUp?.resume()
    if let refusal { answer(refusal) }
  }

  /// As `submit`, for callers that can wait.
  public func transact<Result: Sendable>(
    _ decide: (inout Proposal) throws -> Decision<Result>
  ) async throws -> Committed<Result> {
    try await withCheckedThrowingContinuation { continuation in
      submit(decide) { continuation.resume(with: $0) }
    }
  }

  /// Makes sure that a location keeps an index, which a query of its children needs to be cheap.
  ///
  /// O(n log n) for n children, once, under the lock: writes wait meanwhile. Beyond
  /// `addedIndexesMax` nothing is done, and the query goes through all children.
  public func keepIndex(_ order: Order, at path: Path) async {
    await withCheckedContinuation { continuation in
      let isAccepted = inLine(keeping: order, at: path) { _ in continuation.resume() }
      if !isAccepted { continuation.resume() }
    }
  }

  /// Has something done in line with the commits: when all that were accepted before are published,
  /// or have failed, and no later one is. The published tree then has the index.
  ///
  /// - Parameter body: called on the engine's task.
  /// - Returns: whether it will be called; not when the engine is stopping.
  func inLine(
    keeping order: Order, at path: Path, _ body: @escaping @Sendable (Engine) -> Void
  ) -> Bool {
    let (isAccepted, wakeUp) = state.withLock {
      state -> (Bool, CheckedContinuation<Void, Never>?) in
      if state.isStopping { return (false, nil) }
      let isAdded = addIndex(&state, order, path)
      let waiting = Waiting(commit: nil, addsIndex: isAdded) { _ in body(self) }
      return (true, enqueue(&state, waiting))
    }
    wakeUp?.resume()
    return isAccepted
  }

  /// As `keepIndex`, without waiting; nothing is done where the index is there, or there may be none.
  func keepIndexLater(_ order: Order, at path: Path) {
    let wakeUp = state.withLock { state -> CheckedContinuation<Void, Never>? in
      guard !state.isStopping, addIndex(&state, order, path) else { return nil }
      return enqueue(&state, Waiting(commit: nil, addsIndex: true) { _ in })
    }
    wakeUp?.resume()
  }

  /// Whether the pending tree lacked the index, and has it now.
  private func addIndex(_ state: inout State, _ order: Order, _ path: Path) -> Bool {
    guard state.addedIndexes < configuration.addedIndexesMax,
      !Query.isIndexed(by: order, state.pending.root.at(path))
    else { return false }
    state.pending.keepIndex(order, at: path.keys)
    state.addedIndexes += 1
    return true
  }

  private func admission(_ state: State) -> EngineError? {
    if state.isStopping { return .stopped }
    return state.queue.count >= configuration.queuedCommitsMax ? .overloaded : nil
  }

  private func propose<Result: Sendable>(
    _ state: inout State, _ decide: (inout Proposal) throws -> Decision<Result>
  ) rethrows -> (Commit?, Result) {
    var proposal = Proposal(
      root: state.pending.root, now: now(), pushIDs: state.pushIDs, random: random)
    defer { state.pushIDs = proposal.pushIDs }
    let decision = try decide(&proposal)
    guard let write = decision.write, !write.items.isEmpty else { return (nil, decision.result) }
    let time = proposal.now
    let assignments = write.resolved(in: state.pending.root, at: time)
    let beforeImage = state.pending.beforeImage(of: assignments)
    // The proposal's reference would have every page on the way to a change copied.
    proposal.root = .absent
    let journaled = state.pending.apply(assignments)
    state.pendingSequence += 1
    return (
      Commit(
        sequence: state.pendingSequence, time: time, assignments: journaled,
        beforeImage: beforeImage, settles: decision.settles),
      decision.result
    )
  }

  private func enqueue(_ state: inout State, _ waiting: Waiting) -> CheckedContinuation<
    Void, Never
  >? {
    state.queue.append(waiting)
    state.hasUnpublished = true
    return state.wakeUp.take()
  }
}

extension Engine {
  /// Journals and publishes commits, and has checkpoints made, until `stop`. To be run once.
  ///
  /// Returns when all that was accepted has been answered.
  public func run() async {
    await withTaskGroup(of: Void.self) { group in
      group.addTask { await self.runCheckpoints() }
      await self.runCommits()
      await group.waitForAll()
    }
  }

  /// Refuses new writes from now on; `run` ends when those already accepted have been answered.
  public func stop() {
    let (wakeUp, wakeUpCheckpoint) = state.withLock { state in
      state.isStopping = true
      return (state.wakeUp.take(), state.wakeUpCheckpoint.take())
    }
    wakeUp?.resume()
    wakeUpCheckpoint?.resume()
  }

  private struct Batch {
    var waiting: [Waiting]
    var tree: Tree
    var sequence: Int64
    var after: Int64
  }

  private func runCommits() async {
    while let batch = await nextBatch() {
      let commits = batch.waiting.compactMap(\.commit)
      do {
        if !commits.isEmpty { try await journal.append(commits, after: batch.after) }
        publish(batch)
      } catch {
        logger.error(
          "the journal failed",
          metadata: ["commits": "\(commits.count)", "error": "\(error)"])
        fail(batch, error)
      }
    }
  }

  private func nextBatch() async -> Batch? {
    while true {
      let (batch, isDone) = state.withLock { state -> (Batch?, Bool) in
        guard !state.queue.isEmpty else { return (nil, state.isStopping) }
        var waiting: [Waiting] = []
        swap(&waiting, &state.queue)
        return (
          Batch(
            waiting: waiting, tree: state.pending, sequence: state.pendingSequence,
            after: state.currentSequence), false
        )
      }
      if batch != nil || isDone { return batch }
      await withCheckedContinuation { continuation in
        let now = state.withLock { state in
          if !state.queue.isEmpty || state.isStopping {
            return continuation as CheckedContinuation<Void, Never>?
          }
          state.wakeUp = continuation
          return nil
        }
        now?.resume()
      }
    }
  }

  private func publish(_ batch: Batch) {
    let (before, wakeUpCheckpoint) = state.withLock {
      state -> (Tree, CheckedContinuation<Void, Never>?) in
      let before = state.current
      state.current = batch.tree
      state.currentSequence = batch.sequence
      let isDue =
        state.currentSequence - state.checkpointSequence >= configuration.checkpointEvery
      return (before, isDue ? state.wakeUpCheckpoint.take() : nil)
    }
    wakeUpCheckpoint?.resume()
    tell(batch.waiting.compactMap(\.commit), since: before)
    endTelling()
    for waiting in batch.waiting { waiting.answer(nil) }
  }

  private func endTelling() {
    let told = state.withLock { state in
      state.toldSequence = state.currentSequence
      state.hasUnpublished = !state.queue.isEmpty
      defer { state.whenTold = [] }
      return state.whenTold
    }
    for body in told { body() }
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

  /// Takes back everything that is not durable and answers it with an error.
  private func fail(_ batch: Batch, _ error: any Error) {
    var missed: [Commit] = []
    if case JournalError.conflict(let commits) = error { missed = commits }
    let (before, waiting) = state.withLock { state in
      let (before, sequence) = (state.current, state.currentSequence)
      missed = missed.filter { commit in
        guard commit.sequence == state.currentSequence + 1 else { return false }
        state.current.apply(commit.assignments)
        state.currentSequence = commit.sequence
        return true
      }
      state.clientWrites.takeBack(after: sequence)
      for write in missed.compactMap(\.clientWrite) { state.clientWrites.note(write) }
      state.pending = state.current
      state.pendingSequence = state.currentSequence
      var later: [Waiting] = []
      swap(&later, &state.queue)
      let waiting = batch.waiting + later
      // Indexes go with the pending tree; they may be added again.
      state.addedIndexes -= waiting.count(where: \.addsIndex)
      return (before, waiting)
    }
    tell(missed, since: before)
    endTelling()
    for waiting in waiting { waiting.answer(.journalFailed) }
  }

  private func runCheckpoints() async {
    while await checkpointIsDue() {
      let (root, sequence) = snapshot
      do {
        try await journal.checkpoint(root, through: sequence)
        state.withLock { $0.checkpointSequence = sequence }
      } catch {
        logger.error(
          "the checkpoint failed; it is tried again later", metadata: ["error": "\(error)"])
        // As if it had been made: so the next try comes after as many commits again.
        state.withLock { $0.checkpointSequence = sequence }
      }
    }
  }

  private func checkpointIsDue() async -> Bool {
    await withCheckedContinuation { continuation in
      let now = state.withLock { state -> CheckedContinuation<Void, Never>? in
        let isDue =
          state.currentSequence - state.checkpointSequence >= configuration.checkpointEvery
        if isDue || state.isStopping { return continuation }
        state.wakeUpCheckpoint = continuation
        return nil
      }
      now?.resume()
    }
    return state.withLock { !$0.isStopping }
  }
}
