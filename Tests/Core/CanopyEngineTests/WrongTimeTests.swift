import CanopyEngine
import CanopyTesting
import CanopyTree
import Testing

/// Writes after the last time that keys can contain.
struct WrongTimeTests {
  @Test func `a write after the last time of keys is refused, and leaves nothing`() async throws {
    let clock = ManualClock(PushIDGenerator.timeMax - 1)
    let journal = InMemoryJournal()
    try await withEngine(journal, clock: clock) { engine in
      try await engine.set("a", 1)
      for advance in [1, 1_000_000] as [Int64] {
        clock.advance(advance)
        await #expect(throws: EngineError.wrongTime) { try await engine.set("b", 2) }
        await #expect(throws: EngineError.wrongTime) {
          try await engine.transact { proposal in
            Decision(try .set(Location("c/" + proposal.nextKey().text), WriteValue(1)), ())
          }
        }
      }
      clock.advance(-2_000_000)
      try await engine.set("d", 3)
      #expect(engine.root == json(#"{"a":1,"d":3}"#))
    }
    #expect(journal.commits.allSatisfy { max($0.time, $0.keyTime ?? 0) < PushIDGenerator.timeMax })
  }
}
