internal import CanopyTree
internal import Logging
internal import Synchronization

/// The times and the pace of checkpoints.
///
/// A checkpoint costs more than the commits that it folds, so the engine delays it: the more commits there
/// are, the more of them wrote the same places, which are then folded once. The delay is bounded, because a start
/// replays all commits that are not folded.
extension Engine {
  /// The longest rest of a checkpoint after one step.
  private static let restMax = Duration.milliseconds(100)
  /// The duration of a rest, as a multiple of the step before it: a checkpoint takes a quarter of the time.
  private static let restFactor = 3

  /// Makes checkpoints until the engine stops. A checkpoint that is under way then ends where it is: its steps
  /// count, and the remaining ones may take long.
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
      // Also after a failure: the next try comes after as many commits or as much time again.
      tried = snapshot.sequence
    }
  }

  /// Waits until there are enough commits, or until some have waited long enough. Returns false if there will be no
  /// further checkpoint.
  private func checkpointIsDue(after tried: Int64) async -> Bool {
    let folded = state.withLock { $0.checkpointSequence }
    await waitForCommit(folded + 1)
    await waitForCommit(tried + checkpointEvery, atMost: configuration.checkpointAfter)
    return state.withLock { !$0.isStopping } && !Task.isCancelled
  }

  /// Returns the pause that a checkpoint makes after each step. It rests in proportion to the time since the last rest.
  /// That time includes waiting for appends, so a checkpoint yields more the more appends there are.
  ///
  /// There is no rest if so many commits have accumulated that replaying them would take too long. The closure throws
  /// `CancellationError` when the engine stops.
  private func pace(by clock: some Clock<Duration>) -> @Sendable () async throws -> Void {
    let folded = state.withLock { $0.checkpointSequence }
    let accumulated = folded + 2 * checkpointEvery + 1
    let began = Mutex(clock.now)
    return {
      let took = began.withLock { $0.duration(to: clock.now) }
      if took > .zero {
        let rest = min(took * Engine.restFactor, Engine.restMax)
        await self.waitForCommit(accumulated, atMost: rest)
      }
      if self.state.withLock({ $0.isStopping }) { throw CancellationError() }
      began.withLock { $0 = clock.now }
    }
  }

  private var checkpointEvery: Int64 {
    // Sums with sequence numbers, up to `sequenceMax`, must not overflow.
    Int64(min(max(configuration.checkpointEvery, 1), 1 << 59))
  }

  /// Waits until a commit is published, or the given time has passed, or the engine stops. For one caller at a
  /// time.
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
          // A cancelled wait ends as well.
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
  /// The commit that ends the wait.
  var sequence: Int64
  var continuation: CheckedContinuation<Void, Never>
}

extension Engine.State {
  /// Removes and returns the continuation of a checkpoint that waited for the current commit or an earlier one.
  mutating func endedCheckpointWait() -> CheckedContinuation<Void, Never>? {
    guard let wait = checkpointWait, currentSequence >= wait.sequence else { return nil }
    checkpointWait = nil
    return wait.continuation
  }
}
