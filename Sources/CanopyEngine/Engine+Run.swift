internal import CanopyTree
internal import Logging
internal import Synchronization

extension Engine {
  /// Carries out transactions, journals and publishes their commits, and has checkpoints made, until
  /// `stop`. To be run once.
  ///
  /// Returns when all that was accepted has been answered.
  public func run() async {
    await withTaskGroup(of: Void.self) { group in
      group.addTask { await self.runCheckpoints() }
      // A thread of its own, which may wait for the disk.
      await withTaskExecutorPreference(EngineThread()) { await self.runBatches() }
      await group.waitForAll()
    }
  }

  /// Transactions that are carried out before the journal is written: more do not make the write
  /// cheaper, and would have the first wait for the last.
  private static let batchMax = 1_000

  /// Bytes of commits after which a batch ends: they are in memory together, with their before-images.
  static let batchBytesMax = 4 * 1024 * 1024

  private func runBatches() async {
    let (pushIDs, clientWrites) = state.withLock { state in
      defer { state.clientWrites = ClientWrites() }
      return (state.pushIDs, state.clientWrites)
    }
    let writer = Writer(
      now: now, random: random, pushIDs: pushIDs, clientWrites: clientWrites,
      indexesLeft: configuration.addedIndexesMax)
    while let requests = await nextRequests() {
      writer.taken = requests.reversed()
      while !writer.taken.isEmpty {
        let time = await carryOut(writer)
        // The batch is gone by now: nothing else on this thread holds what it replaced.
        if let (tree, commits) = writer.retired.take() { retired.free(tree, commits) }
        watch.note("freeing", since: time)
      }
    }
  }

  /// Carries out a batch. Returns the time at its end.
  private func carryOut(_ writer: Writer) async -> Duration {
    let (tree, after) = state.withLock { state in
      state.isAtWork = true
      return (state.current, state.currentSequence)
    }
    var batch = Batch(tree: tree, sequence: after, writer: writer)
    var answers: [Answer] = []
    var time = watch.now
    // A request is dropped as soon as it is carried out: it may hold a large write.
    while answers.count < Engine.batchMax, batch.bytes < Engine.batchBytesMax,
      let request = writer.taken.popLast()
    {
      answers.append(Answer(name: request.name, body: request.body(&batch)))
      if !writer.taken.isEmpty { batch.measure() }
      time = watch.note(request.name, since: time, at: batch.lastLocation)
    }
    for location in batch.unstorable {
      logger.error(
        "a write was refused because its commit does not read back",
        metadata: ["path": "/\(location.text)"])
    }
    do {
      if !batch.commits.isEmpty {
        try await journal.append(batch.commits, after: after)
        time = watch.noteAppend(since: time)
      }
      return publish(batch, answers, since: time, writer)
    } catch {
      logger.error(
        "the journal failed",
        metadata: ["commits": "\(batch.commits.count)", "error": "\(error)"])
      if case JournalError.conflict(let missed) = error {
        adopt(missed, insteadOf: batch, answers, writer)
      } else {
        await settle(batch, answers, writer)
      }
      return watch.now
    }
  }

  private func nextRequests() async -> [Request]? {
    while true {
      let (requests, isDone) = state.withLock { state -> ([Request], Bool) in
        var requests: [Request] = []
        swap(&requests, &state.queue)
        state.isAtWork = !requests.isEmpty
        return (requests, state.isStopping)
      }
      if !requests.isEmpty { return requests }
      if isDone { return nil }
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

  /// Makes a durable batch the current state, notifies listeners, and answers its requests.
  ///
  /// - Parameter start: the time at which the batch was durable.
  /// - Returns: the time at the end, but for freeing what the batch replaced.
  @discardableResult
  func publish(
    _ batch: Batch, _ answers: [Answer], since start: Duration, _ writer: Writer
  ) -> Duration {
    let (before, wakeUpCheckpoint) = state.withLock {
      state -> (Tree, CheckedContinuation<Void, Never>?) in
      let before = state.current
      state.current = batch.tree
      state.currentSequence = batch.sequence
      state.isAtWork = false
      state.indexing?.missed += batch.commits.map(\.assignments)
      return (before, state.endedCheckpointWait())
    }
    wakeUpCheckpoint?.resume()
    tell(batch.commits, since: before)
    endTelling()
    var time = watch.note("listeners", since: start, at: batch.commits.first?.location)
    for answer in answers {
      answer(nil)
      time = watch.note(answer.name, since: time)
    }
    // Freeing what the commits replaced takes a while: nobody has to wait for it.
    if RetiredTrees.areLarge(batch.commits) {
      writer.retired = (before, batch.commits)
    } else {
      withExtendedLifetime(before) {}
    }
    return time
  }

  private func endTelling() {
    let told = state.withLock { state in
      state.toldSequence = state.currentSequence
      defer { state.whenTold = [] }
      return state.whenTold
    }
    for body in told { body() }
  }

  /// Answers a batch with an error, as nothing of it was stored or will be, and adopts the commits of
  /// another writer that were found instead.
  ///
  /// - Parameter batch: nil if there is nothing to take back.
  func adopt(
    _ found: [Commit], insteadOf batch: Batch?, _ answers: [Answer], _ writer: Writer
  ) {
    if let batch {
      writer.clientWrites.takeBack(after: batch.first)
      // The indexes went with the batch; they may be added again.
      writer.indexesLeft = batch.indexesLeft
    }
    var missed = found
    let (before, wakeUpCheckpoint) = state.withLock {
      state -> (Tree, CheckedContinuation<Void, Never>?) in
      let before = state.current
      missed = missed.filter { commit in
        guard commit.sequence == state.currentSequence + 1 else { return false }
        state.current.apply(commit.assignments)
        state.currentSequence = commit.sequence
        state.indexing?.missed.append(commit.assignments)
        return true
      }
      state.isAtWork = false
      return (before, state.endedCheckpointWait())
    }
    wakeUpCheckpoint?.resume()
    for write in missed.compactMap(\.clientWrite) { writer.clientWrites.note(write) }
    tell(missed, since: before)
    endTelling()
    for answer in answers { answer(.journalFailed) }
  }
}

extension Commit {
  /// The first place that the commit writes, for the log.
  fileprivate var location: Location? { assignments.first?.location }
}
