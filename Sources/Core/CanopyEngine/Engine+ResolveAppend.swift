internal import CanopyTree
internal import Logging
internal import Synchronization

/// Resolution of a batch whose append failed: the journal may have stored it all the same.
///
/// An append can fail after its commits are on the disk. Then it would be wrong to answer that the writes were not
/// made. So the engine asks the journal before it answers. While the journal cannot say, the engine accepts no
/// writes, because it does not know which tree they would change.
extension Engine {
  /// The first pause between two questions to a journal that cannot answer.
  private static let firstPause = Duration.milliseconds(100)
  /// The longest pause.
  private static let pauseMax = Duration.seconds(1)

  /// Asks the journal until it says whether it has the commits of a batch, and completes the batch accordingly.
  ///
  /// If the journal has not answered for `Configuration.outcomeUnknownAfter`, or the engine stops, the
  /// requests of the batch complete with `EngineError.outcomeUnknown`. If it turns out later that the commits were
  /// stored, the engine publishes them as usual.
  func resolveAppend(
    of batch: Batch, _ requests: [WriteQueue.Entry], _ writer: WriterState
  ) async {
    var isComplete = false
    var waited = Duration.zero
    var pause = Engine.firstPause
    while true {
      do {
        let stored = try await journal.resolveAppend(after: batch.first)
        state.withLock { $0.isAppendInDoubt = false }
        return await resolve(batch, requests, stored, isComplete: isComplete, writer)
      } catch JournalError.forgotten {
        // The batch may have been stored, and removed after a checkpoint.
        state.withLock { $0.isAppendInDoubt = false }
        fail(batch, writer)
        await adoptMissed(writer)
        if !isComplete { complete(batch, .outcomeUnknown) }
        return
      } catch {
        writer.journalLog.noteDoubt(about: batch, error, at: watch.now)
      }
      let isStopping = state.withLock { state in
        state.isAppendInDoubt = true
        return state.isStopping
      }
      if isStopping || waited >= configuration.outcomeUnknownAfter {
        if !isComplete { complete(batch, .outcomeUnknown) }
        isComplete = true
        refuseWaiting(isStopping ? .stopped : .journalFailed, writer)
      }
      if isStopping { return }
      await rest(for: pause)
      waited += pause
      pause = min(pause * 2, Engine.pauseMax)
    }
  }

  /// Completes a batch, given the commits that are stored after the one before the batch.
  ///
  /// - Parameter isComplete: whether its requests were completed already, with an unknown outcome.
  private func resolve(
    _ batch: Batch, _ requests: [WriteQueue.Entry], _ stored: [Commit], isComplete: Bool,
    _ writer: WriterState
  ) async {
    let isStored =
      stored.count >= batch.commits.count
      && zip(stored, batch.commits).allSatisfy { $0.isSame(as: $1) }
    guard isStored else {
      // Another engine has the numbers of the batch. If no request waits for it any more, the engine does not decide it
      // again.
      if !isComplete, !stored.isEmpty {
        return await decideAgain(batch, requests, after: stored, writer)
      }
      fail(batch, writer)
      adopt(stored, writer)
      if !isComplete { complete(batch, .journalFailed) }
      return
    }
    writer.journalLog.noteStoredDespiteFailure(batch, at: watch.now)
    var batch = batch
    if isComplete { batch.findViews(since: state.withLock { $0.current }) }
    publish(batch, isComplete: isComplete, since: watch.now, writer)
    let others = Array(stored.dropFirst(batch.commits.count))
    if !others.isEmpty { adopt(others, writer) }
  }

  /// Completes all requests that wait with an error, without carrying them out.
  private func refuseWaiting(_ error: EngineError, _ writer: WriterState) {
    let (queued, tree, sequence) = state.withLock { state in
      (state.queue.takeAll(), state.current, state.currentSequence)
    }
    var waiting = queued.makeIterator()
    while let request = (writer.taken.popLast() ?? waiting.next())?.request {
      var batch = Batch(tree: tree, sequence: sequence, writer: writer, refusal: error)
      _ = request.run(in: &batch)
      request.complete(error)
    }
  }

  /// Waits for some time, or until the engine stops.
  private func rest(for duration: Duration) async {
    await withTaskGroup(of: Void.self) { group in
      await withCheckedContinuation { continuation in
        let isStopping = state.withLock { state in
          if !state.isStopping { state.resolveWait = continuation }
          return state.isStopping
        }
        if isStopping { return continuation.resume() }
        group.addTask { [clock] in
          // A cancelled wait ends as well.
          try? await clock.sleep(for: duration)
          self.state.withLock { $0.resolveWait.take() }?.resume()
        }
      }
      group.cancelAll()
    }
  }
}

extension Commit {
  /// Whether another commit is this one as the journal keeps it: without before-image and `completedDisconnectWrites`.
  /// Two engines can decide equal commits in one millisecond, such as increments, so this also compares the engines.
  fileprivate func isSame(as other: Commit) -> Bool {
    sequence == other.sequence && time == other.time && origin == other.origin
      && assignments == other.assignments && note?.writer == other.note?.writer
  }
}
