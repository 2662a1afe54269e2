import CanopyEngine
import CanopyTesting
import CanopyTree
import Testing

/// Indexes of a plan that comes while the engine runs.
@Suite(.timeLimit(.minutes(20))) struct KeepIndexesTests {
  private func plan() throws -> IndexPlan {
    var plan = IndexPlan()
    plan.declare(.child(try Path("n")), at: ["items"])
    plan.declare(.value, at: ["lists", nil])
    return plan
  }

  private func expectIndexed(_ engine: Engine) throws {
    let byN = Order.child(try Path("n"))
    #expect(Query.isIndexed(by: byN, engine.value("items")))
    #expect(Query.isIndexed(by: .value, engine.value("lists/a")))
    #expect(engine.root.brokenInvariant() == nil)
    let items = engine.value("items")
    let sorted = try Query(order: byN).children(of: items).map {
      $0.node.child("n").integerValue ?? 0
    }
    #expect(sorted == sorted.sorted())
    #expect(sorted.count == items.childCount)
  }

  @Test func `the indexes are there at once, also for later children`() async throws {
    let store = InMemoryJournal()
    try await withEngine(store) { engine in
      try await engine.set("items", json(#"{"a":{"n":2},"b":{"n":1}}"#))
      try await engine.set("lists", json(#"{"a":{"x":2,"y":1}}"#))
      try await engine.keepIndexes(of: try plan())
      try expectIndexed(engine)
      try await engine.set("items/c/n", 0)
      try await engine.set("lists/b", json(#"{"x":1,"y":2}"#))
      try expectIndexed(engine)
      #expect(Query.isIndexed(by: .value, engine.value("lists/b")))
      // An index that is kept already costs nothing.
      try await engine.keepIndexes(of: try plan())
    }
    #expect(store.groups == [1, 1, 1, 1], "indexes are no commits")
  }

  @Test func `writes made while the indexes are added are in them`() async throws {
    try await withEngine { engine in
      for i in 0..<2_000 {
        engine.submitSet("items/i\(i)/n", Node(Int64(i * 7_919 % 2_003)), Answers<Outcome>())
      }
      try await engine.set("lists/a/x", 1)
      try await withThrowingTaskGroup(of: Void.self) { group in
        for writer in 0..<4 {
          group.addTask {
            for i in 0..<500 {
              try await engine.set("items/i\(i * 4 + writer)/n", Node(Int64(i)))
              if i % 50 == 0 { try await engine.set("items/i\(i)", .absent) }
            }
          }
        }
        group.addTask { try await engine.keepIndexes(of: try plan()) }
        try await group.waitForAll()
      }
      try expectIndexed(engine)
    }
  }

  @Test func `they are made again when the journal fails meanwhile`() async throws {
    let journal = FaultyJournal(InMemoryJournal())
    try await withEngine(journal) { engine in
      try await engine.set("items", json(#"{"a":{"n":2},"b":{"n":1}}"#))
      try await engine.set("lists", json(#"{"a":{"x":2,"y":1}}"#))
      let gate = Gate()
      journal.plan(.delay(gate), .failBefore)
      let answers = Answers<Outcome>()
      engine.submitSet("items/c/n", 5, answers)
      await gate.reached()
      async let kept: Void = engine.keepIndexes(of: try plan())
      engine.submitSet("items/d/n", 6, answers)
      gate.open()
      try await kept
      _ = await answers.wait(for: 2)
      try expectIndexed(engine)
      try await engine.set("items/e/n", 0)
      try expectIndexed(engine)
    }
  }

  @Test func `an engine that stops makes none`() async throws {
    try await withEngine { engine in
      engine.stop()
      await #expect(throws: EngineError.stopped) { try await engine.keepIndexes(of: try plan()) }
    }
  }
}
