import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyEngine

/// Writes that are submitted together, a commit each, such as those of many connections.
@Suite(.timeLimit(.minutes(20))) struct SeveralWritesTests {
  /// Returns writes that make the places `0`, `1`… below `path` the numbers of the commits, in their order.
  private func writes(_ count: Int, at path: String) throws -> [[Decision<Void>]] {
    try (0..<count).map { [Decision(try .set(Location("\(path)/k\($0)"), WriteValue(1)), ())] }
  }

  /// The settings of an engine for which each request, and each write of several, takes the time of a batch.
  private func slow(_ setting: Setting) -> Engine.Configuration {
    var configuration = Engine.Configuration()
    configuration.elapsed = {
      setting.advance(.milliseconds(11))
      return setting.elapsed()
    }
    return configuration
  }

  @Test
  func `several writes that take long give way to other owners after each, and keep their order`()
    async throws
  {
    let journal = FaultyJournal(InMemoryJournal())
    try await withEngine(journal, configuration: slow(Setting())) { engine async throws in
      let gate = journal.holdNextAppend()
      let answers = Answers<Outcome>()
      engine.submitSet("first", 1, answers)
      await gate.reached()
      let outcomes = Answers<WritesOutcome>()
      engine.submit(try writes(5, at: "flood"), of: .address("a")) { outcomes.add($0) }
      engine.submit(try writes(5, at: "flood2"), of: .address("a")) { outcomes.add($0) }
      let sequences = Answers<Int64>()
      for (owner, name) in [(WriteOwner.address("b"), "b"), (.address("a"), "last")] {
        engine.submit(
          { _ in Decision(try .set(Location(name), WriteValue(1)), ()) }, of: owner
        ) { result in
          sequences.add((try? result.get().sequence) ?? -1)
        }
      }
      gate.open()
      _ = await outcomes.wait(for: 2)
      // The other owner waits for one write of the five, and not for all; later requests of the owner wait for all.
      #expect(await sequences.wait(for: 2) == [3, 13])
      #expect(outcomes.values == [WritesOutcome(decided: 5), WritesOutcome(decided: 5)])
      let places = try await journal.resolveAppend(after: 0).flatMap {
        $0.assignments.map(\.location.text)
      }
      #expect(
        places
          == ["first", "flood/k0", "b"] + (1..<5).map { "flood/k\($0)" }
          + (0..<5).map { "flood2/k\($0)" } + ["last"])
    }
  }

  @Test func `two owners of several writes have their turns, and a third one waits for both`()
    async throws
  {
    let journal = FaultyJournal(InMemoryJournal())
    try await withEngine(journal, configuration: slow(Setting())) { engine async throws in
      let gate = journal.holdNextAppend()
      let answers = Answers<Outcome>()
      engine.submitSet("first", 1, answers)
      await gate.reached()
      let outcomes = Answers<WritesOutcome>()
      for owner in ["a", "b", "c"] {
        engine.submit(try writes(owner == "c" ? 1 : 3, at: owner), of: .address(owner)) {
          outcomes.add($0)
        }
      }
      gate.open()
      _ = await outcomes.wait(for: 3)
      let places = try await journal.resolveAppend(after: 0).flatMap {
        $0.assignments.map(\.location.text)
      }
      #expect(places == ["first", "a/k0", "b/k0", "c/k0", "a/k1", "b/k1", "a/k2", "b/k2"])
    }
  }

  @Test func `after a failure no later write is made, and the outcome counts the durable ones`()
    async throws
  {
    let journal = FaultyJournal(InMemoryJournal())
    try await withEngine(journal, configuration: slow(Setting())) { engine async throws in
      journal.plan()
      journal.plan()
      journal.plan(.failBefore)
      var decisions = try writes(6, at: "a")
      decisions[0][0].policy = TestPolicy(allows: { _ in false })
      let outcomes = Answers<WritesOutcome>()
      engine.submit(decisions, of: .address("a")) { outcomes.add($0) }
      #expect(
        await outcomes.wait(for: 1)
          == [WritesOutcome(decided: 3, denied: [0], failure: .journalFailed)])
      _ = try await engine.set("b", 1)
      #expect(engine.root == (try WriteValue(json: "{\"a\":{\"k1\":1,\"k2\":1},\"b\":1}").node))
      #expect(outcomes.values.count == 1)
    }
  }

  @Test func `writes that fit in a batch share an append`() async throws {
    let journal = FaultyJournal(InMemoryJournal())
    var configuration = Engine.Configuration()
    configuration.elapsed = Setting().elapsed
    try await withEngine(journal, configuration: configuration) { engine async throws in
      let outcomes = Answers<WritesOutcome>()
      engine.submit(try writes(100, at: "a")) { outcomes.add($0) }
      engine.submit([]) { outcomes.add($0) }
      #expect(await outcomes.wait(for: 2) == [WritesOutcome(decided: 100), WritesOutcome()])
      #expect(journal.groups == [100])
    }
  }
}
