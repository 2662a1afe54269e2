internal import CanopyTree
internal import Logging
internal import Synchronization

/// When checkpoints are made, and how fast.
///
/// A checkpoint costs more than the commits that it folds did, so it is put off: the more commits there
/// are, the more of them wrote the same places, which are then folded once. What bounds the delay
/// is the time that starting up takes, as it has to replay what is not folded.
extension Engine {
  /// The most that a checkpoint rests after one step.
  private static let restMax = Duration.milliseconds(100)
  /// How much longer than a step the rest after it is: a checkpoint takes a quarter of the time.
  private static let restFactor = 3

  /// Has checkpoints made until the engine stops. The one that is being made then is left as it is: what
  /// it has done counts, and the rest may take long.
  func runCheckpoints() async {
    var tried = state.withLock { $0.checkpointSequence }
    while await checkpointIsDue(after: tried) {
      let snapshot = snapshot
      do {
        try await journal.checkpoint(
          snapshot.root, through: snapshot.sequence, resting: pace(by: clock))
        state.withLock { $0.checkpointSequence = snapshot.sequence }
      } catch is CancellationError {
        return
      } catch {
        logger.error(
          "the checkpoint failed; it is tried again later", metadata: ["error": "\(error)"])
      }
      // After one that failed as well: the next try comes after as many commits again, or as long.
      tried = snapshot.sequence
    }
  }

  /// Waits until there are enough commits, or some for long enough. Returns false when there is to be no
  /// further checkpoint.
  private func checkpointIsDue(after tried: Int64) async -> Bool {
    let folded = state.withLock { $0.checkpointSequence }
    await waitForCommit(folded + 1)
    await waitForCommit(tried + checkpointEvery, atMost: configuration.checkpointAfter)
    return state.withLock { !$0.isStopping } && !Task.isCancelled
  }

  /// What a checkpoint does after each step: it rests in proportion to the time since the rest before,
  /// in which it may also have waited for appends, so it gives way to them the more there are.
  ///
  /// There is no rest when commits have piled up, whose replay would take too long. When the engine stops
  /// it throws `CancellationError`.
  private func pace(by clock: some Clock<Duration>) -> @Sendable () async throws -> Void {
    let folded = state.withLock { $0.checkpointSequence }
    let piledUp = folded + 2 * checkpointEvery + 1
    let began = Mutex(clock.now)
    return {
      let took = began.withLock { $0.duration(to: clock.now) }
      if took > .zero {
        let rest = min(took * Engine.restFactor, Engine.restMax)
        await self.waitForCommit(piledUp, atMost: rest)
      }
      if self.state.withLock({ $0.isStopping }) { throw CancellationError() }
      began.withLock { $0 = clock.now }
    }
  }

  private var checkpointEvery: Int64 {
    // What is added to sequence numbers may not overflow.
    Int64(min(max(configuration.checkpointEvery, 1), 1 << 60))
  }

  /// Waits until a commit is published; no longer than a given time, and than the engine is to run. For
  /// one caller at a time.
  private func waitForCommit(_ sequence: Int64, atMost duration: Duration? = nil) async {
    await withTaskGroup(of: Void.self) { group in
      await withCheckedContinuation { continuation in
        let isOver = state.withLock { state in
          if state.isStopping || state.currentSequence >= sequence { return true }
          state.checkpointWait = CheckpointWait(sequence: sequence, continuation: continuation)
          return false
        }
        if isOver { return continuation.resume() }
        guard let duration else { return }
        group.addTask { [clock] in
          // It is also over when it is cancelled.
          try? await clock.sleep(for: duration)
          self.state.withLock { $0.checkpointWait.take() }?.continuation.resume()
        }
      }
      group.cancelAll()
    }
  }
}

/// A checkpoint that is not due yet, or that rests.
struct CheckpointWait {
  /// The commit with which it goes on.
  var sequence: Int64
  var continuation: CheckedContinuation<Void, Never>
}

extension Engine.State {
  /// What is to be resumed, if a checkpoint waited for the commit that is the current one now.
  mutating func endedCheckpointWait() -> CheckedContinuation<Void, Never>? {
    guard let wait = checkpointWait, currentSequence >= wait.sequence else { return nil }
    checkpointWait = nil
    return wait.continuation
  }
}
