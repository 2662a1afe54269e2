import CanopyEngine
import CanopySystem
import CanopyTesting
import CanopyTree
import Synchronization
import Testing

/// The watchdog with an engine: it reports as long as the engine answers.
@Suite(.timeLimit(.minutes(5))) struct WatchdogTests {
  private final class Reports: Sendable {
    private let number = Atomic(0)
    var count: Int { number.load(ordering: .relaxed) }
    func add() { number.add(1, ordering: .relaxed) }
  }

  private static func write(to engine: Engine) async throws {
    _ = try await engine.transact { _ in
      Decision(try .set(Location("a"), WriteValue(1)), ())
    }
  }

  /// Runs a watchdog of an engine during `body`.
  private func withWatchdog(
    of engine: Engine, _ body: (StepClock, Reports) async throws -> Void
  ) async throws {
    let (clock, reports) = (StepClock(), Reports())
    let watchdog = Watchdog(timeout: .seconds(60)) { reports.add() }
    let running = Task { await watchdog.run(clock: clock) { await engine.answer() } }
    let result: Result<Void, any Error>
    do { result = .success(try await body(clock, reports)) } catch { result = .failure(error) }
    running.cancel()
    await running.value
    try result.get()
  }

  @Test func `an engine that answers is reported at once, and after each half of the timeout`()
    async throws
  {
    try await withEngine { [self] engine in
      try await withWatchdog(of: engine) { clock, reports in
        for number in 1...5 {
          await clock.slept(number)
          #expect(reports.count == number)
          clock.advance(by: .seconds(30))
        }
        #expect(clock.sleeps.allSatisfy { $0 == .seconds(30) })
      }
    }
  }

  @Test func `an engine that is stuck in an append is not reported until the append ends`()
    async throws
  {
    let journal = FaultyJournal()
    try await withEngine(journal) { [self] engine in
      try await withWatchdog(of: engine) { clock, reports in
        await clock.slept(1)
        let gate = journal.holdNextAppend()
        let write = Task { try await Self.write(to: engine) }
        try await eventually { engine.hasCommitsUnderWay }
        clock.advance(by: .seconds(30))
        for _ in 0..<1_000 { await Task.yield() }
        clock.advance(by: .seconds(3_000))
        for _ in 0..<1_000 { await Task.yield() }
        #expect(reports.count == 1 && clock.sleeps.count == 1)
        gate.open()
        await clock.slept(2)
        #expect(reports.count == 2)
        try await write.value
      }
    }
  }

  @Test func `an engine whose journal fails is reported, because it goes on later`()
    async throws
  {
    let journal = FaultyJournal()
    let waits = StepClock()
    try await withEngine(journal, waits: waits) { [self] engine in
      try await withWatchdog(of: engine) { clock, reports in
        await clock.slept(1)
        journal.failResolving(true)
        journal.plan(.failBefore)
        let write = Task { try await Self.write(to: engine) }
        clock.advance(by: .seconds(30))
        // The engine asks the journal again after each wait.
        try await eventually {
          waits.advance(by: .seconds(1))
          return reports.count == 2
        }
        _ = await write.result
        journal.failResolving(false)
        try await eventually {
          waits.advance(by: .seconds(1))
          return (try? await Self.write(to: engine)) != nil
        }
      }
    }
  }

  @Test func `an engine that has stopped answers`() async throws {
    let engine = try await Engine.forTests(InMemoryJournal())
    engine.stop()
    await engine.answer()
    await engine.run()
    await engine.answer()
  }
}
