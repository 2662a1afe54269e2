import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyEngine

/// The lines of the log while the journal fails.
@Suite(.timeLimit(.minutes(20))) struct JournalLogTests {
  private let setting = Setting()

  private func engine(_ journal: FaultyJournal<InMemoryJournal>) async throws -> Engine {
    var configuration = Engine.Configuration()
    configuration.elapsed = setting.elapsed
    return try await Engine(
      journal: journal, configuration: configuration, now: { 1 }, clock: StepClock(),
      random: { 1 }, logger: setting.logger)
  }

  @Test func `a journal that fails has one line a second, and one when it works again`()
    async throws
  {
    let journal = FaultyJournal(InMemoryJournal())
    let engine = try await engine(journal)
    await withTaskGroup(of: Void.self) { [setting] group in
      group.addTask { await engine.run() }
      for _ in 0..<40 {
        journal.plan(.failBefore)
        await #expect(throws: EngineError.journalFailed) { try await engine.set("a", 1) }
        setting.advance(.milliseconds(40))
      }
      // The clock advances beside the engine, so there may be lines about work that took long as well.
      func messages() -> [String] { setting.messages.filter { $0.contains("journal") } }
      #expect(messages() == ["the journal failed", "the journal failed"])
      let lines = setting.logged().filter { $0.contains("error=") }
      #expect(lines.map { $0.contains("suppressed=24") } == [false, true], "\(lines)")
      _ = try? await engine.set("a", 1)
      _ = try? await engine.set("a", 2)
      #expect(messages().dropFirst(2) == ["the journal works again"])
      #expect(setting.logged().contains("failures=40"))
      // The next failure has a line at once.
      journal.plan(.failBefore)
      _ = try? await engine.set("a", 3)
      #expect(messages().last == "the journal failed")
      engine.stop()
    }
  }

  @Test func `a line is admitted when a second has passed, and not before`() {
    var pace = LogPace()
    #expect(pace.admit(at: .seconds(5)) == 0)
    #expect(pace.admit(at: .seconds(5)) == nil)
    #expect(pace.admit(at: .milliseconds(5_999)) == nil)
    #expect(pace.admit(at: .milliseconds(6_000)) == 2)
    #expect(pace.admit(at: .milliseconds(7_000)) == 0)
  }
}
