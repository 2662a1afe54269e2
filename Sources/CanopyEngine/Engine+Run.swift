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

  private func runBatches() async {
    let (pushIDs, clientWrites) = state.withLock { state in
      defer { state.clientWrites = ClientWrites() }
      return (state.pushIDs, state.clientWrites)
    }
    let writer = Writer(
      now: now, random: random, pushIDs: pushIDs, clientWrites: clientWrites,
      indexesLeft: configuration.addedIndexesMax)
    while let requests = await nextRequests() {
      var rest = requests[...]
      while !rest.isEmpty {
        await carryOut(rest.prefix(Engine.batchMax), writer)
        rest = rest.dropFirst(Engine.batchMax)
      }
    }
  }

  private func carryOut(_ requests: ArraySlice<Request>, _ writer: Writer) async {
    let (tree, after) = state.withLock { state in
      state.isAtWork = true
      return (state.current, state.currentSequence)
    }
    var batch = Batch(tree: tree, sequence: after, writer: writer)
    let indexesLeft = writer.indexesLeft
    let answers = requests.map { $0(&batch) }
    for location in batch.unstorable {
      logger.error(
        "a write was refused because its commit does not read back",
        metadata: ["path": "/\(location.text)"])
    }
    do {
      if !batch.commits.isEmpty { try await journal.append(batch.commits, after: after) }
      publish(batch, answers)
    } catch {
      logger.error(
        "the journal failed",
        metadata: ["commits": "\(batch.commits.count)", "error": "\(error)"])
      // The indexes went with the batch; they may be added again.
      writer.indexesLeft = indexesLeft
      writer.clientWrites.takeBack(after: after)
      fail(error, answers, writer)
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

  private func publish(_ batch: Batch, _ answers: [Answer]) {
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
    for answer in answers { answer(nil) }
    // Freeing what the commits replaced takes a while: nobody has to wait for it.
    withExtendedLifetime(before) {}
  }

  private func endTelling() {
    let told = state.withLock { state in
      state.toldSequence = state.currentSequence
      defer { state.whenTold = [] }
      return state.whenTold
    }
    for body in told { body() }
  }

  /// Answers a batch with an error: nothing of it has become visible.
  private func fail(_ error: any Error, _ answers: [Answer], _ writer: Writer) {
    var missed: [Commit] = []
    if case JournalError.conflict(let commits) = error { missed = commits }
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
