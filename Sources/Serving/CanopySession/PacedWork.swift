internal import CanopyEngine
internal import CanopySystem
internal import CanopyWire
internal import Dispatch
internal import Synchronization

/// Work on a thread of its own that stops when its turn is over, and goes on in the next one.
///
///     let work = PacedWork { pause in … try pause() … }
///     while try await queue.withTurn({ try await work.go() }) == nil {}
///
/// The body calls `pause` often: it returns at once until `turnMax` is over. Then it blocks the thread, which no other
/// work uses, until the next call of `go`.
final class PacedWork<R: Sendable>: Sendable {
  /// Called often by the work. Throws `CancellationError` if the work is cancelled.
  typealias Body = @Sendable (_ pause: @escaping () throws -> Void) throws -> R

  private struct State {
    /// The caller of `go` that waits for the end of the turn.
    var caller: CheckedContinuation<R?, any Error>?
    var hasBegun = false
    var isCancelled = false
  }

  private let state = Mutex(State())
  /// Signalled at the beginning of each turn but the first, and when the work is cancelled.
  private let turn = DispatchSemaphore(value: 0)
  private let turnMax: Duration
  private let elapsed: @Sendable () -> Duration
  private let body: Body

  /// The calls of `pause` for one look at the clock.
  private static var callsPerLook: Int { 64 }

  /// Creates work that begins with the first call of `go`.
  ///
  /// - Parameter elapsed: the clock of the turns: see `Engine.Configuration.elapsed`.
  init(
    turnMax: Duration,
    elapsed: @escaping @Sendable () -> Duration = Engine.Configuration().elapsed,
    _ body: @escaping Body
  ) {
    self.turnMax = turnMax
    self.elapsed = elapsed
    self.body = body
  }

  /// Works in turns of a queue until the body has returned.
  ///
  /// - Parameter group: the group whose turns the work takes.
  /// - Throws: the error of the body; `WireError` if there is no thread; `CancellationError` if the task is cancelled
  ///   before a turn. Then the work ends.
  func run(in queue: TurnQueue, of group: TurnGroup?) async throws -> R {
    do {
      while true {
        if let result = try await queue.withTurn(of: group, { try await go() }) { return result }
      }
    } catch {
      cancel()
      throw error
    }
  }

  /// Works for a turn. Call it again when it has returned nil, or call `cancel`.
  ///
  /// - Returns: the result; nil if the turn is over before.
  /// - Throws: the error of the body; `WireError` if there is no thread.
  func go() async throws -> R? {
    try await withCheckedThrowingContinuation { continuation in
      let hasBegun = state.withLock { state in
        state.caller = continuation
        defer { state.hasBegun = true }
        return state.hasBegun
      }
      if hasBegun {
        turn.signal()
      } else if !WorkerThread.start(niceness: 5, run) {
        take()?.resume(throwing: WireError.noThread)
      }
    }
  }

  /// Ends work that has paused. Its result is dropped.
  func cancel() {
    state.withLock { $0.isCancelled = true }
    turn.signal()
  }

  @Sendable private func run() {
    var calls = 0
    var end = elapsed() + turnMax
    let result = Result {
      try body { [self] in
        calls += 1
        guard calls.isMultiple(of: Self.callsPerLook), elapsed() >= end else { return }
        // The body may go on after the error of an earlier call.
        if let caller = take() {
          caller.resume(returning: nil)
          turn.wait()
        }
        if state.withLock({ $0.isCancelled }) { throw CancellationError() }
        end = elapsed() + turnMax
      }
    }
    take()?.resume(with: result.map { $0 })
  }

  private func take() -> CheckedContinuation<R?, any Error>? {
    state.withLock { $0.caller.take() }
  }
}
