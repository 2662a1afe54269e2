public import CanopyEngine
internal import Logging

/// Runs an engine during `body`, then stops it and waits until it has ended.
///
/// - Parameters:
///   - clock: the clock of commits.
///   - waits: the clock of the waits of checkpoints.
///   - seed: the seed of the push ids.
public func withEngine<R: Sendable>(
  _ journal: any Journal = InMemoryJournal(), configuration: Engine.Configuration = .forTests,
  clock: ManualClock = ManualClock(), waits: StepClock = StepClock(), seed: UInt64 = 1,
  _ body: @escaping @Sendable (Engine) async throws -> R
) async throws -> R {
  let engine = try await Engine.forTests(
    journal, configuration: configuration, clock: clock, waits: waits, seed: seed)
  return try await withThrowingTaskGroup(of: Void.self) { group in
    group.addTask { await engine.run() }
    let result: Result<R, any Error>
    do { result = .success(try await body(engine)) } catch { result = .failure(error) }
    engine.stop()
    try await group.waitForAll()
    return try result.get()
  }
}

extension Engine {
  /// Creates an engine that does not run yet and has no log.
  public static func forTests(
    _ journal: any Journal, configuration: Configuration = .forTests,
    clock: ManualClock = ManualClock(), waits: StepClock = StepClock(), seed: UInt64 = 1
  ) async throws -> Engine {
    let random = SeededBytes(seed: seed)
    return try await Engine(
      journal: journal, configuration: configuration, now: { clock.now },
      clock: waits, random: { random.word() },
      logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
  }
}

extension Engine.Configuration {
  /// The defaults with a clock that stands still, so that a batch never ends because a busy machine was slow.
  public static var forTests: Engine.Configuration {
    var configuration = Engine.Configuration()
    configuration.elapsed = { .zero }
    return configuration
  }
}
