import CanopyTesting
import CanopyTree
import Synchronization
import Testing

@testable import CanopyEngine

/// Policies of writes: their parameters, and the effect of a denial.
@Suite(.timeLimit(.minutes(20))) struct WriteAuthorizationTests {
  private func submit(
    _ engine: Engine, _ path: String, _ value: Node, _ answers: Answers<Outcome>,
    _ authorize: @escaping @Sendable (ProposedWrite) -> Bool
  ) {
    engine.submit { _ in
      Decision(try .set(Location(path), WriteValue(value)), (), authorize: authorize)
    } completion: {
      answers.add(Outcome($0))
    }
  }

  @Test
  func `an authorization sees the latest tree before and after, the assignments and the time`()
    async throws
  {
    let journal = FaultyJournal(InMemoryJournal())
    let clock = ManualClock()
    try await withEngine(journal, clock: clock) { engine in
      let gate = journal.holdNextAppend()
      let answers = Answers<Outcome>()
      engine.submitSet("a", 1, answers)
      await gate.reached()
      let seen = Answers<ProposedWrite>()
      engine.submit { _ in
        Decision(
          try .update(.root, [(Location("b"), WriteValue(2)), (Location("c/d"), WriteValue(3))]), ()
        ) {
          seen.add($0)
          return true
        }
      } completion: {
        answers.add(Outcome($0))
      }
      gate.open()
      _ = await answers.wait(for: 2)
      let write = try #require(seen.values.first)
      #expect(write.before == json(#"{"a":1}"#))
      #expect(write.after == json(#"{"a":1,"b":2,"c":{"d":3}}"#))
      #expect(write.assignments.map(\.location.text) == ["b", "c/d"])
      #expect(write.time == clock.now)
      #expect(answers.values == [.committed(1), .committed(2)])
    }
  }

  @Test func `a denied write leaves no trace, takes no number, and later writes do not see it`()
    async throws
  {
    let store = InMemoryJournal()
    try await withEngine(store) { engine in
      let answers = Answers<Outcome>()
      submit(engine, "a", 1, answers) { _ in true }
      submit(engine, "a/b", 2, answers) { _ in false }
      submit(engine, "c", 3, answers) { $0.before == json(#"{"a":1}"#) }
      #expect(
        await answers.wait(for: 3) == [.committed(1), .failed(.denied), .committed(2)])
      #expect(engine.root == json(#"{"a":1,"c":3}"#))
    }
    #expect(store.commits.map(\.sequence) == [1, 2])
    #expect(store.commits.allSatisfy { $0.beforeImage != nil })
  }

  @Test func `derived assignments are made in the write's commit, and an error refuses both`()
    async throws
  {
    let store = InMemoryJournal()
    try await withEngine(store) { engine in
      let answers = Answers<Outcome>()
      func submit(
        _ path: String, _ value: Node,
        _ derive: @escaping @Sendable (ProposedWrite) throws -> [Assignment]?
      ) {
        engine.submit { _ in
          Decision(
            try .set(Location(path), WriteValue(value)), (), authorize: { $0.after.childCount < 3 },
            derive: derive)
        } completion: {
          answers.add(Outcome($0))
        }
      }
      submit("b", 1) { write in
        try write.assignments + [Assignment(Path("c"), write.after.child("b"))]
      }
      submit("b", 2) { _ in nil }
      submit("b", 3) { _ in throw EngineError.denied }
      submit("d", 4) { _ in
        Issue.record("a denied write is not asked about")
        return nil
      }
      submit("b", .absent) { write in try [Assignment(Path("c"), .absent)] + write.assignments }
      #expect(
        await answers.wait(for: 5)
          == [.committed(1), .committed(2), .failed(.denied), .failed(.denied), .committed(3)])
      #expect(engine.root == .absent)
    }
    #expect(
      store.commits.map { $0.assignments.map(\.location.text) } == [
        ["b", "c"], ["b"], ["b", "c"],
      ])
    let image = try #require(store.commits.last?.beforeImage)
    #expect(image.map(\.value) == [2, 1])
  }

  @Test func `an authorized commit can be rolled back and resumed from as any other`() async throws
  {
    try await withEngine { engine in
      let replica = Replica(Listening(.root, form: .value))
      replica.leave(engine, try #require(await replica.start(engine)))
      let answers = Answers<Outcome>()
      submit(engine, "a", 1, answers) { _ in true }
      submit(engine, "a", 2, answers) { _ in true }
      _ = await answers.wait(for: 2)
      #expect(try await replica.resume(engine)?.isAnew == false)
      #expect(replica.problem(engine.root) == nil)
    }
  }

  @Test func `the denied ones of several writes are left out, and reported`() async throws {
    let store = InMemoryJournal()
    try await withEngine(store) { engine in
      let decisions = try ["a", "b", "c", "d"].map { path in
        Decision(try Write.set(Location(path), WriteValue(1)), ()) { write in
          // Each sees those before it.
          path == "a" || path == "c" && write.before == json(#"{"a":1}"#)
        }
      }
      let result = await withCheckedContinuation { continuation in
        engine.submit(decisions.map { [$0] }) { continuation.resume(returning: $0) }
      }
      #expect(result == WritesOutcome(decided: 4, denied: [1, 3]))
      #expect(engine.root == json(#"{"a":1,"c":1}"#))
    }
    #expect(store.groups == [2])
  }

  @Test func `a refusal waits for the commits that it was decided upon`() async throws {
    let journal = FaultyJournal(InMemoryJournal())
    try await withEngine(journal) { engine in
      let gate = journal.holdNextAppend()
      let answers = Answers<Outcome>()
      engine.submitSet("a", 1, answers)
      await gate.reached()
      submit(engine, "b", 1, answers) { _ in false }
      #expect(answers.values.isEmpty)
      gate.open()
      #expect(await answers.wait(for: 2) == [.committed(1), .failed(.denied)])
    }
  }
}
