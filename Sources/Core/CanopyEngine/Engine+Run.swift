internal import CanopySystem
internal import DequeModule
internal import CanopyTree
internal import Logging
internal import Synchronization

extension Engine {
  /// Carries out transactions, appends and publishes their commits, and makes checkpoints, until `stop`.
  /// Call it once.
  ///
  /// Returns when every accepted transaction is complete.
  public func run() async {
    await withTaskGroup(of: Void.self) { group in
      group.addTask { await self.runCheckpoints() }
      let following = shared.map { journal in
        Task { await self.follow(journal) }
      }
      await withTaskExecutorPreference(thread) { await self.runBatches() }
      endFollowing()
      following?.cancel()
      await following?.value
      await group.waitForAll()
    }
    watch.logSummary()
  }

  /// The most transactions in one batch. A larger batch would not make the append cheaper, and its first transaction
  /// would wait longer.
  private static let batchMax = 1_000

  /// The size of commits at which a batch ends, in bytes. All commits of a batch are in memory at once, with their
  /// before-images.
  static let batchBytesMax = 4 * 1024 * 1024

  /// The time after which a batch ends, whether its requests are committed or refused. Then the owners of the waiting
  /// requests are served in turn, by the time that they have used. So a client that sends many expensive requests
  /// delays a client that sends few by one batch, even if all of them are denied.
  ///
  /// Also the time after which the other steps between two batches follow the next batch: see `Barrier`.
  static let batchTimeMax = Duration.milliseconds(10)

  private func runBatches() async {
    let (pushIDs, clientWrites) = state.withLock { state in
      defer { state.clientWrites = ClientWrites() }
      return (state.pushIDs, state.clientWrites)
    }
    let writer = WriterState(self, pushIDs: pushIDs, clientWrites: clientWrites)
    while let time = await carryOutBatch(writer) {
      // The batch was released, so this thread has no other reference to the pages that it replaced.
      if let content = writer.retired.take() { RetiredTrees.free(consume content) }
      watch.note("freeing", since: time)
      endBatch(writer)
    }
  }

  /// Reports to the queue how long the requests of the batch took, and returns the requests that did not fit. So owners
  /// that have used less time have their turn first. If no other request had to wait, only a long request is charged.
  private func endBatch(_ writer: WriterState) {
    defer { writer.served.removeAll(keepingCapacity: true) }
    guard
      writer.isInTurn || !writer.taken.isEmpty
        || writer.served.contains(where: { $0.time >= Engine.longTimeMin })
    else { return }
    state.withLock { $0.queue.endBatch(writer.served, unserved: writer.taken.reversed()) }
    writer.taken = []
    writer.repeats = 0
  }

  /// The time from which on the engine notes the request of a batch whose owners are not served in turn.
  private static let notedTimeMin = Duration.microseconds(100)

  /// The time from which on such a request is charged although no other request waits. Then the owners are served in
  /// turn until that time no longer counts.
  private static let longTimeMin = Duration.milliseconds(5)

  /// Asserts that the caller runs on the engine's thread, in debug builds.
  func assertOnThread() {
    assert(thread.isCurrent, "only the engine's thread may do this")
  }

  /// Waits for requests, and carries out a batch of them. Returns the time at its end; nil when the engine has stopped.
  private func carryOutBatch(_ writer: WriterState) async -> Duration? {
    guard let requests = await nextRequests(writer) else { return nil }
    assertOnThread()
    writer.taken = requests.entries.reversed()
    writer.isInTurn = requests.isInTurn
    let (tree, after, memory) = state.withLock { state in
      state.isAtWork = true
      return (state.current, state.currentSequence, state.memory?.memory)
    }
    memory?.beginBatch()
    var batch = Batch(tree: tree, sequence: after, writer: writer, memory: memory)
    let start = watch.now
    var time = start
    while batch.bytes < Engine.batchBytesMax, time - start < Engine.batchTimeMax,
      batch.mark == nil, let entry = writer.taken.popLast()
    {
      batch.isRepeat = writer.repeats > 0
      let isFinished = entry.request.run(in: &batch)
      batch.note(entry.request)
      if batch.isRepeat, isFinished { writer.repeats -= 1 }
      if !isFinished { writer.taken.append(entry) }
      if !writer.taken.isEmpty { batch.measure() }
      let end = watch.note(entry.request.name, since: time, at: batch.lastLocation)
      if requests.isInTurn || !isFinished || end - time >= Engine.notedTimeMin {
        writer.served.append((entry.owner, end - time))
      }
      time = end
    }
    writer.journalLog.noteUnstorable(batch.unstorable, at: time)
    do {
      if !batch.commits.isEmpty {
        if isPlanted(.replyBeforeDurable) {
          for request in batch.requests { request.complete(nil) }
        }
        if isPlanted(.eventBeforeDurable) { notify(batch.changes) }
        if isPlanted(.readBeforeDurable) { state.withLock { $0.current = batch.tree } }
        try await journal.append(batch.commits, after: after)
        time = watch.noteAppend(since: time)
        writer.journalLog.noteSuccess()
      }
      if writer.lostRaces > 0 { await endRace(writer) }
      return publish(
        batch, isComplete: isPlanted(.replyBeforeDurable) && !batch.commits.isEmpty, since: time,
        writer)
    } catch {
      await recover(from: error, batch, requests.entries, writer)
      return watch.now
    }
  }

  private func nextRequests(_ writer: WriterState) async -> WriteQueue.Requests? {
    while true {
      let time = watch.now
      let (page, requests, isDone) = state.withLock {
        state -> (FollowedPage?, WriteQueue.Requests, Bool) in
        // This comes first: a batch that is decided without these commits would lose the race.
        if let page = state.followed.popFirst() { return (page, WriteQueue.Requests(), false) }
        let requests =
          writer.again.take().map { WriteQueue.Requests(entries: $0) }
          ?? state.queue.takeBatch(atMost: Engine.batchMax, at: time)
        state.isAtWork = !requests.entries.isEmpty
        return (nil, requests, state.isStopping)
      }
      if let page {
        adopt(page, writer)
        continue
      }
      if !requests.entries.isEmpty { return requests }
      if isDone { return nil }
      await withCheckedContinuation { continuation in
        let now = state.withLock { state in
          if !state.queue.isEmpty || !state.followed.isEmpty || state.isStopping {
            return continuation as CheckedContinuation<Void, Never>?
          }
          state.wakeUp = continuation
          return nil
        }
        now?.resume()
      }
    }
  }

  /// Makes the tree of a durable batch the current one, notifies listeners, and completes its requests.
  ///
  /// - Parameters:
  ///   - isComplete: whether the requests were completed already, with an unknown outcome.
  ///   - start: the time at which the batch was durable.
  /// - Returns: the time at the end. The pages that the batch replaced are not freed yet.
  @discardableResult
  func publish(
    _ batch: Batch, isComplete: Bool = false, since start: Duration, _ writer: WriterState
  ) -> Duration {
    assertOnThread()
    let before = makeCurrent(batch)
    notifyCommitObservers(batch.commits, from: before.root, to: batch.tree.root)
    if isPlanted(.replyBeforeEvents) { for request in batch.requests { request.complete(nil) } }
    if !isPlanted(.eventBeforeDurable) { notify(batch.changes) }
    if shared != nil {
      if let mark = batch.mark { putInForce(mark, at: batch.sequence) }
      endSequenceWaits()
    }
    var time = watch.note(
      "listeners", since: start, at: batch.commits.first?.assignments.first?.location)
    if !isComplete, !isPlanted(.replyBeforeEvents) {
      // If the steps between two batches take longer than a batch may, the others follow the next batches, in their
      // order. At least one is carried out.
      var inSteps = Duration.zero
      var left: [WriteQueue.Entry] = []
      for request in batch.requests {
        let step = request as? Barrier
        if let step, inSteps >= Engine.batchTimeMax {
          left.append(WriteQueue.Entry(owner: step.owner, request: request))
          continue
        }
        request.complete(nil)
        let end = watch.note(request.name, since: time)
        if let step {
          inSteps += end - time
          // The server's own steps are charged to no client.
          let isOfServer = if case .server = step.owner { true } else { false }
          if !isOfServer { writer.served.append((step.owner, end - time)) }
        }
        time = end
      }
      writer.taken += left.reversed()
    }
    // Freeing the pages that the commits replaced takes a while, so it comes last. So does freeing a large write that
    // was refused.
    if batch.hasLargeRequests || RetiredTrees.areLarge(batch.commits) {
      writer.retired = RetiredTrees.Content(
        tree: before, commits: batch.commits, requests: batch.requests)
    } else {
      withExtendedLifetime(before) {}
    }
    return time
  }

  /// Makes the tree of a durable batch the current one, which readers see. Returns the tree before it.
  private func makeCurrent(_ batch: Batch) -> Tree {
    let (before, wakeUpCheckpoint) = state.withLock {
      state -> (Tree, CheckedContinuation<Void, Never>?) in
      assert(batch.first == state.currentSequence, "a batch follows the current tree")
      let before = state.current
      state.current = batch.tree
      state.currentSequence = batch.sequence
      state.textBytes += Int64(batch.textBytes)
      state.isAtWork = false
      state.indexing?.missed += batch.commits.map(\.assignments)
      return (before, state.endedCheckpointWait())
    }
    wakeUpCheckpoint?.resume()
    return before
  }

  /// Completes the requests of a batch that failed.
  func complete(_ batch: Batch, _ failure: EngineError) {
    for request in batch.requests { request.complete(failure) }
  }

  /// Undoes the effects of a batch that was not stored.
  func fail(_ batch: Batch, _ writer: WriterState) {
    if !isPlanted(.failedWriteRemembered) { writer.clientWrites.rollBack(batch.commits) }
    batch.memory?.beginBatch()
    // The indexes were lost with the batch; they may be added again.
    writer.indexesLeft = batch.indexesLeft
  }
}
