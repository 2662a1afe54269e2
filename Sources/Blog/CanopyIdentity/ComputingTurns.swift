internal import Synchronization

/// Admits requests to the steps that compute and do not wait: the decoding of a body, and the verification of a signature.
///
/// While a step runs, no other request can use its thread. A server with many clients therefore lets them take turns;
/// it decides how by the bytes of the step.
///
///     let turns = ComputingTurns { bytes, step in try await queue.withTurn { step() } }
///     let identity = try await service.verify(token, in: turns)
public struct ComputingTurns: Sendable {
  private let run:
    @Sendable (_ bytes: Int, _ step: @escaping @Sendable () -> Void) async throws -> Void

  /// Runs each step at once.
  public static let immediate = ComputingTurns { _, step in step() }

  /// Creates turns.
  ///
  /// - Parameter run: runs a step once, when its turn comes, or throws without running it. Takes the bytes from which the
  ///   step computes.
  public init(
    _ run:
      @escaping @Sendable (_ bytes: Int, _ step: @escaping @Sendable () -> Void) async throws ->
      Void
  ) {
    self.run = run
  }

  /// Runs `body` in a turn.
  ///
  /// - Parameter bytes: the bytes from which `body` computes.
  /// - Throws: the error of `body`; an error of the turns, such as a `CancellationError`.
  func take<R: Sendable>(bytes: Int, _ body: @escaping @Sendable () throws -> R) async throws -> R {
    let result = StepResult<R>()
    try await run(bytes) { result.set(Result { try body() }) }
    return try result.get()
  }
}

/// The result of a step. Safe to use from any thread.
private final class StepResult<R: Sendable>: Sendable {
  private let value = Mutex<Result<R, any Error>?>(nil)

  func set(_ result: Result<R, any Error>) { value.withLock { $0 = result } }

  /// - Throws: the error of the step; `CancellationError` if the step did not run.
  func get() throws -> R {
    guard let result = value.withLock({ $0 }) else { throw CancellationError() }
    return try result.get()
  }
}
