internal import Synchronization

/// Readers that wait for a commit of another engine.
extension Engine {
  /// Whether a commit is in force: it is in the current tree, so are the rules that it may have replaced, and the batch
  /// observers have its snapshot. O(1).
  public func isInForce(_ sequence: Int64) -> Bool {
    guard shared != nil else { return snapshot.sequence >= sequence }
    return state.withLock { $0.sequenceInForce >= sequence }
  }

  /// Waits until a commit is in force: it is in the current tree, and so are the rules that it may have replaced. Returns
  /// at once if it is.
  ///
  /// If several engines write the journal, the engine looks for commits of the others at once.
  ///
  /// - Parameters:
  ///   - sequence: the number of the commit.
  ///   - duration: the longest time to wait.
  /// - Throws: `EngineError.behind` when the time is up, the task is cancelled or the engine stops, and at once if only
  ///   this engine writes the journal, because it has all commits.
  public func wait(for sequence: Int64, atMost duration: Duration) async throws(EngineError) {
    if isInForce(sequence) { return }
    guard shared != nil else { throw .behind }
    let isPresent = await withTaskGroup(of: Void.self) { group in
      let number = state.withLock { state in
        state.lastSequenceWait += 1
        return state.lastSequenceWait
      }
      group.addTask { [clock] in
        // A cancelled wait ends as well.
        try? await clock.sleep(for: duration)
        self.endWait(number)
      }
      let isPresent = await withCheckedContinuation { continuation in
        let isOver: Bool? = state.withLock { state in
          if state.sequenceInForce >= sequence { return true }
          if state.isStopping || Task.isCancelled { return false }
          state.sequenceWaits.append(
            SequenceWait(number: number, sequence: sequence, continuation: continuation))
          return nil
        }
        if let isOver { continuation.resume(returning: isOver) } else { followRequest.make() }
      }
      group.cancelAll()
      return isPresent
    }
    if !isPresent { throw .behind }
  }

  /// Notes that the current commit is in force, and ends the waits for it and for earlier ones.
  func endSequenceWaits() {
    for wait in state.withLock({ $0.endedSequenceWaits() }) {
      wait.continuation.resume(returning: true)
    }
  }

  private func endWait(_ number: Int) {
    let wait = state.withLock { state -> SequenceWait? in
      guard let index = state.sequenceWaits.firstIndex(where: { $0.number == number }) else {
        return nil
      }
      return state.sequenceWaits.remove(at: index)
    }
    wait?.continuation.resume(returning: false)
  }
}

/// A caller that waits for a commit.
struct SequenceWait {
  let number: Int
  let sequence: Int64
  /// Resumed with true if the commit is in the tree, else with false.
  let continuation: CheckedContinuation<Bool, Never>
}

extension Engine.State {
  /// Notes that the current commit is in force. Removes and returns the waits for it and for earlier ones.
  mutating func endedSequenceWaits() -> [SequenceWait] {
    sequenceInForce = currentSequence
    if sequenceWaits.isEmpty { return [] }
    let ended = sequenceWaits.filter { $0.sequence <= currentSequence }
    sequenceWaits.removeAll { $0.sequence <= currentSequence }
    return ended
  }
}

/// A request that one task waits for. A request that is made while the task does not wait counts for its next wait.
final class FollowRequest: Sendable {
  private struct State {
    var isMade = false
    var waiting: CheckedContinuation<Void, Never>?
  }

  private let state = Mutex(State())

  /// Makes the request.
  func make() {
    let waiting = state.withLock { state in
      state.isMade = state.waiting == nil
      return state.waiting.take()
    }
    waiting?.resume()
  }

  /// Waits for a request, or until the task is cancelled.
  func wait() async {
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let isOver = state.withLock { state in
          if state.isMade || Task.isCancelled {
            state.isMade = false
            return true
          }
          state.waiting = continuation
          return false
        }
        if isOver { continuation.resume() }
      }
    } onCancel: {
      state.withLock { $0.waiting.take() }?.resume()
    }
  }
}

extension Engine {
  /// Waits until the engine's thread has carried out the requests that were accepted before, or has refused them because
  /// the journal fails. Returns at once when the engine is stopping.
  ///
  /// It does not return while the thread is stuck, for instance in an append that does not end.
  public func answer() async {
    await withCheckedContinuation { continuation in
      let isAccepted = enqueueBarrier(named: "watchdog") { continuation.resume() }
      if !isAccepted { continuation.resume() }
    }
  }
}
