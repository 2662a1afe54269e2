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
    var tried = CheckpointExtent(sequence: state.withLock { $0.checkpointSequence }, bytes: 0)
    var folded = tried
    while await checkpointIsDue(after: tried) {
      // Before the snapshot, so that the bytes of all later commits count for the next checkpoint.
      let bytes = state.withLock { $0.textBytes }
      let snapshot = snapshot
      tried = CheckpointExtent(sequence: snapshot.sequence, bytes: bytes)
      do {
        try await journal.checkpoint(
          snapshot.root, through: snapshot.sequence + (isPlanted(.checkpointOffByOne) ? 1 : 0),
          resting: pace(by: clock, after: folded))
        state.withLock { $0.checkpointSequence = snapshot.sequence }
        folded = tried
      } catch is CancellationError {
        return
      } catch {
        logger.error(
          "the checkpoint failed; it is tried again later", metadata: ["error": "\(error)"])
      }
      // After a failure, too, the next try comes after as many commits or bytes, or as much time, again.
    }
  }

  /// Waits until there are enough commits, or enough bytes of them, or until some have waited long enough. Returns false
  /// if there will be no further checkpoint.
  private func checkpointIsDue(after tried: CheckpointExtent) async -> Bool {
    let folded = state.withLock { $0.checkpointSequence }
    await wait(until: CheckpointExtent(sequence: folded + 1, bytes: .max))
    await wait(until: tried + checkpointEvery, atMost: configuration.checkpointAfter)
    return state.withLock { !$0.isStopping } && !Task.isCancelled
  }

  /// Returns the pause that a checkpoint makes after each step. It rests in proportion to the time since the last rest.
  /// That time includes waiting for appends, so a checkpoint yields more the more appends there are.
  ///
  /// There is no rest if so many commits have accumulated that replaying them would take too long. The closure throws
  /// `CancellationError` when the engine stops.
  ///
  /// - Parameter folded: the end of the last checkpoint.
  private func pace(
    by clock: some Clock<Duration>, after folded: CheckpointExtent
  ) -> @Sendable () async throws -> Void {
    let accumulated =
      folded + checkpointEvery + checkpointEvery + CheckpointExtent(sequence: 1, bytes: 1)
    let began = Mutex(clock.now)
    return {
      let took = began.withLock { $0.duration(to: clock.now) }
      if took > .zero {
        let rest = min(took * Engine.restFactor, Engine.restMax)
        await self.wait(until: accumulated, atMost: rest)
      }
      if self.state.withLock({ $0.isStopping }) { throw CancellationError() }
      began.withLock { $0 = clock.now }
    }
  }

  private var checkpointEvery: CheckpointExtent {
    // Sums with sequence numbers, up to `sequenceMax`, and with bytes must not overflow.
    CheckpointExtent(
      sequence: Int64(min(max(configuration.checkpointEvery, 1), 1 << 59)),
      bytes: Int64(min(max(configuration.checkpointBytes, 1), 1 << 59)))
  }

  /// Waits until a commit is published, or so many bytes of commits are, or the given time has passed, or the engine
  /// stops. For one caller at a time.
  private func wait(until end: CheckpointExtent, atMost duration: Duration? = nil) async {
    await withTaskGroup(of: Void.self) { group in
      await withCheckedContinuation { continuation in
        let isOver = state.withLock { state in
          if state.isStopping || state.hasReached(end) { return true }
          state.checkpointWait = CheckpointWait(end: end, continuation: continuation)
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

/// A place in the journal: a commit, or the bytes of all commits that this engine has made.
struct CheckpointExtent {
  var sequence: Int64
  var bytes: Int64

  static func + (first: Self, second: Self) -> Self {
    CheckpointExtent(
      sequence: first.sequence + second.sequence, bytes: first.bytes + second.bytes)
  }
}

/// A checkpoint that is not due yet, or that rests.
struct CheckpointWait {
  /// The commit, or the bytes, that end the wait.
  var end: CheckpointExtent
  var continuation: CheckedContinuation<Void, Never>
}

extension Engine.State {
  /// Whether the commit is published, or so many bytes of commits are.
  func hasReached(_ end: CheckpointExtent) -> Bool {
    currentSequence >= end.sequence || textBytes >= end.bytes
  }

  /// Removes and returns the continuation of a checkpoint that waited for the current commit, or an earlier one, or for
  /// as many bytes or fewer.
  mutating func endedCheckpointWait() -> CheckedContinuation<Void, Never>? {
    guard let wait = checkpointWait, hasReached(wait.end) else { return nil }
    checkpointWait = nil
    return wait.continuation
  }
}
