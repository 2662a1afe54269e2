internal import CanopyEngine
internal import Synchronization

/// The on-disconnect writes of one connection that has ended, in the order in which they were armed.
struct EndedWrites: Sendable {
  var writes: [ArmedWrite]
  /// The writer of the connection's last requests: the on-disconnect writes are made after them.
  let owner: WriteOwner
  /// The connection and its network, in whose turns of long work the writes are encoded; nil for writes of the last
  /// process.
  var turns: TurnGroup?
  /// The charge for the writes, which their connection no longer has; nil for writes of the last process.
  var charge: MemoryBudget.Charge?
}

/// The connections that have ended and whose on-disconnect writes are prepared for the writer. The engine must not stop
/// before they are submitted: they would be made at the next start only. Safe to use from any thread.
final class PreparedEnds: Sendable {
  private struct State {
    var count = 0
    var waiting: [CheckedContinuation<Void, Never>] = []
  }

  private let state = Mutex(State())

  /// The number of connections.
  var count: Int { state.withLock { $0.count } }

  /// Adds a connection. Call `end` when its writes are submitted.
  func begin() { state.withLock { $0.count += 1 } }

  /// Removes a connection.
  func end() {
    let waiting = state.withLock { state -> [CheckedContinuation<Void, Never>] in
      state.count -= 1
      assert(state.count >= 0, "the writes of a connection were submitted twice")
      guard state.count == 0 else { return [] }
      defer { state.waiting = [] }
      return state.waiting
    }
    for waiter in waiting { waiter.resume() }
  }

  /// Waits until no connection is left.
  func wait() async {
    await withCheckedContinuation { continuation in
      let isDone = state.withLock { state in
        if state.count > 0 { state.waiting.append(continuation) }
        return state.count == 0
      }
      if isDone { continuation.resume() }
    }
  }
}

/// The on-disconnect writes of ended connections that the journal has failed to store.
///
/// The writes of all connections wait together for the next try. So while the journal fails, a try reads the
/// store once, however many connections have ended; and the log has one line when the writes begin to
/// fail and one when all are made. The writes of a connection stay together and in order.
///
/// Safe to use from any thread.
final class DisconnectRetries: Sendable {
  private struct State {
    /// The writes of each connection that wait for the next try.
    var waiting: [EndedWrites] = []
    var isScheduled = false
    /// The connections whose writes have failed and did not succeed since.
    var failing = 0
    /// The connections whose writes have failed since all had succeeded.
    var total = 0
  }

  private let state = Mutex(State())

  /// The number of connections whose writes have failed and did not succeed since.
  var count: Int { state.withLock { $0.failing } }

  /// The number of these connections whose writes wait for the next try.
  var waitingCount: Int { state.withLock { $0.waiting.count } }

  /// Adds the writes of a connection.
  ///
  /// - Parameter isRetry: whether they have failed before.
  /// - Returns: `isFirst`: whether no others had failed, so that the log has no line yet;
  ///   `mustSchedule`: whether the caller must schedule the next try.
  func add(
    _ ended: EndedWrites, isRetry: Bool
  ) -> (isFirst: Bool, mustSchedule: Bool) {
    state.withLock { state in
      if !isRetry {
        state.failing += 1
        state.total += 1
      }
      state.waiting.append(ended)
      defer { state.isScheduled = true }
      return (!isRetry && state.total == 1, !state.isScheduled)
    }
  }

  /// Notes that the writes of the last process have failed. They count as those of one connection, and do not wait here.
  ///
  /// - Returns: whether no others had failed, so that the log has no line yet.
  func noteAbandoned() -> Bool {
    state.withLock { state in
      state.failing += 1
      state.total += 1
      return state.total == 1
    }
  }

  /// Removes and returns the writes that wait, for a try.
  func take() -> [EndedWrites] {
    state.withLock { state in
      var taken: [EndedWrites] = []
      swap(&taken, &state.waiting)
      state.isScheduled = false
      return taken
    }
  }

  /// Notes that the writes of some connections need no further try.
  ///
  /// - Returns: the number of connections whose writes had failed, if all have succeeded now; otherwise nil.
  func succeed(_ count: Int) -> Int? {
    state.withLock { state in
      guard count > 0 else { return nil }
      state.failing -= count
      assert(state.failing >= 0, "more on-disconnect writes succeed than have failed")
      guard state.failing == 0 else { return nil }
      defer { state.total = 0 }
      return state.total
    }
  }
}
