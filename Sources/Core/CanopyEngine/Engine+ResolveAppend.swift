internal import CanopyTree
internal import Logging
internal import Synchronization

/// Finding out whether a batch whose append failed was stored all the same.
///
/// An append can fail after the disk has it: then it would be wrong to answer that the writes were not
/// made. So the engine asks the journal before it answers. As long as the journal cannot say, the
/// engine accepts no writes, as it does not know which tree they would change.
extension Engine {
  /// The first pause between two questions to a journal that cannot answer.
  private static let firstPause = Duration.milliseconds(100)
  /// The longest pause.
  private static let pauseMax = Duration.seconds(1)

  /// Asks the journal until it says what became of a batch, and answers the batch accordingly.
  ///
  /// When the journal has not answered for `Configuration.outcomeUnknownAfter`, or the engine stops, the
  /// writers of the batch are told that their writes may have been made. If it turns out later that
  /// they were, listeners are told of them as of all commits.
  func resolveAppend(of batch: Batch, _ writer: WriterState) async {
    var isComplete = false
    var waited = Duration.zero
    var pause = Engine.firstPause
    while true {
      do {
        let stored = try await journal.resolveAppend(after: batch.first)
        state.withLock { $0.isAppendInDoubt = false }
        return resolve(batch, stored, isComplete: isComplete, writer)
      } catch {
        logger.error(
          "the journal cannot say whether commits were stored; it is asked again",
          metadata: ["commits": "\(batch.commits.count)", "error": "\(error)"])
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
    _ batch: Batch, _ stored: [Commit], isComplete: Bool, _ writer: WriterState
  ) {
    let isStored =
      stored.count >= batch.commits.count
      && zip(stored, batch.commits).allSatisfy { $0.isSame(as: $1) }
    guard isStored else {
      fail(batch, writer)
      adopt(stored, writer)
      if !isComplete { complete(batch, .journalFailed) }
      return
    }
    logger.notice(
      "the commits had been stored although the journal failed",
      metadata: ["commits": "\(batch.commits.count)"])
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
    while let request = writer.taken.popLast() ?? waiting.next() {
      var batch = Batch(tree: tree, sequence: sequence, writer: writer, refusal: error)
      batch.run(request)
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
          // A cancelled wait is over as well.
          try? await clock.sleep(for: duration)
          self.state.withLock { $0.resolveWait.take() }?.resume()
        }
      }
      group.cancelAll()
    }
  }
}

extension Commit {
  /// Whether another commit is this one as the journal keeps it: without before-image and `completedDisconnectWrite`.
  fileprivate func isSame(as other: Commit) -> Bool {
    sequence == other.sequence && time == other.time && origin == other.origin
      && assignments == other.assignments
  }
}
