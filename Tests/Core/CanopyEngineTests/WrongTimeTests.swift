import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyEngine

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

  @Test func `several writes at such a time are left for later, and none is refused for it`()
    async throws
  {
    let clock = ManualClock(PushIDGenerator.timeMax - 1)
    try await withEngine(InMemoryJournal(), clock: clock) { engine in
      func write(_ path: String) throws -> Decision<Void> {
        Decision(try .set(Location(path), WriteValue(1)), ())
      }
      func outcome(of groups: [[Decision<Void>]]) async -> WritesOutcome {
        await withCheckedContinuation { continuation in
          engine.submit(groups) { continuation.resume(returning: $0) }
        }
      }
      // The clock passes that time just after the first write is authorized.
      var last = try write("a")
      last.policy = TestPolicy(allows: { _ in
        clock.advance(1)
        return true
      })
      let groups = [[last], [try write("b"), try write("c")]]
      #expect(await outcome(of: groups) == WritesOutcome(decided: 1, failure: .wrongTime))
      #expect(
        await outcome(of: [[try write("b"), try write("c")]]) == WritesOutcome(failure: .wrongTime))
      #expect(await outcome(of: [[try write("b")]]) == WritesOutcome(failure: .wrongTime))
      #expect(engine.root == json(#"{"a":1}"#))
      clock.advance(-1)
      #expect(await outcome(of: [[try write("b"), try write("c")]]) == WritesOutcome(decided: 2))
      #expect(engine.root == json(#"{"a":1,"b":1,"c":1}"#))
    }
  }
}
