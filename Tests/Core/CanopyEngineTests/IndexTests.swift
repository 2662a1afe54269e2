import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyEngine

@Suite(.timeLimit(.minutes(20))) struct IndexTests {
  let store = InMemoryJournal()
  let people = json(#"{"a":{"age":3},"b":{"age":1},"c":{"age":2}}"#)

  private func isKept(_ engine: Engine, at path: String) throws -> Bool {
    Query.isIndexed(by: try age, engine.value(path))
  }

  private var age: Order { get throws { .child(try Path("age")) } }

  private func byAge(_ engine: Engine) throws -> [Key] {
    try Query(order: age).children(of: engine.value("people")).map(\.key)
  }

  @Test func `a kept index is there at once, for later commits, and when all is replaced`()
    async throws
  {
    try await withEngine(store) { engine in
      try await engine.set("people", people)
      #expect(try !isKept(engine, at: "people"))
      await engine.keepIndex(try age, at: try Path("people"))
      #expect(try isKept(engine, at: "people"))
      #expect(try byAge(engine) == ["b", "c", "a"])
      try await engine.set("people/b/age", 9)
      #expect(try isKept(engine, at: "people"))
      #expect(try byAge(engine) == ["c", "a", "b"])
      try await engine.set("people", json(#"{"x":{"age":2},"y":{"age":1}}"#))
      #expect(try isKept(engine, at: "people"))
      #expect(try byAge(engine) == ["y", "x"])
      #expect(engine.root.brokenInvariant() == nil)
    }
    #expect(store.groups == [1, 1, 1], "an index is no commit")
  }

  @Test func `a kept index comes in its place among the commits that wait`() async throws {
    let journal = FaultyJournal(store)
    try await withEngine(journal) { engine in
      try await engine.set("people", people)
      let gate = journal.holdNextAppend()
      let answers = Answers<Outcome>()
      engine.submitSet("people/d/age", 0, answers)
      await gate.reached()
      async let kept: Void = engine.keepIndex(try age, at: try Path("people"))
      engine.submitSet("people/e/age", 7, answers)
      gate.open()
      try await kept
      _ = await answers.wait(for: 2)
      #expect(try isKept(engine, at: "people"))
      #expect(try byAge(engine) == ["d", "b", "c", "a", "e"])
    }
  }

  @Test func `no more indexes are added than may be`() async throws {
    var configuration = Engine.Configuration()
    configuration.addedIndexesMax = 2
    try await withEngine(store, configuration: configuration) { engine in
      for name in ["p", "q", "r"] { try await engine.set(name, people) }
      for name in ["p", "p", "nothing", "q", "r"] {
        await engine.keepIndex(try age, at: try Path(name))
      }
      #expect(try isKept(engine, at: "p"))
      #expect(try isKept(engine, at: "q"), "an index that is kept already does not count twice")
      #expect(try !isKept(engine, at: "r"))
    }
  }

  @Test func `an index that goes with a failed commit may be added again`() async throws {
    let journal = FaultyJournal(store)
    var configuration = Engine.Configuration()
    configuration.addedIndexesMax = 1
    try await withEngine(journal, configuration: configuration) { engine in
      try await engine.set("people", people)
      let first = journal.holdNextAppend()
      journal.plan(.failBefore)
      let answers = Answers<Outcome>()
      engine.submitSet("first", 0, answers)
      await first.reached()
      engine.submitSet("people/d/age", 0, answers)
      engine.keepIndexLater(try age, at: try Path("people"))
      first.open()
      #expect(await answers.wait(for: 2).last == .failed(.journalFailed))
      #expect(try !isKept(engine, at: "people"))
      await engine.keepIndex(try age, at: try Path("people"))
      #expect(try isKept(engine, at: "people"))
    }
  }

  @Test func `a location that fills after somebody listens there keeps the index of their order`()
    async throws
  {
    let many = Node(
      children: try (0..<300).map { i in
        (try Key("k\(i)"), Node(children: [(Key("age"), Node(Int64(i)))]))
      })
    try await withEngine(store) { engine in
      let query = try Query(order: age, limit: .last(2))
      let replica = Replica(Listening(try Path("people"), query))
      _ = try #require(await replica.start(engine))
      try await engine.set("people", people)
      try await engine.set("other", 1)
      #expect(try !isKept(engine, at: "people"), "few are sorted as fast")
      try await engine.set("people", many)
      try await engine.set("other", 2)
      #expect(try isKept(engine, at: "people"))
      #expect(replica.problem(engine.root) == nil)
    }
    #expect(store.groups == [1, 1, 1, 1], "an index is no commit")
  }

  @Test func `the plan's indexes are there after loading`() async throws {
    let store = InMemoryJournal(root: Node(children: [(Key("people"), people)]), checkpoint: 3)
    var configuration = Engine.Configuration()
    configuration.indexPlan.declare(try age, at: [Key("people")])
    try await withEngine(store, configuration: configuration) { engine async throws in
      #expect(try isKept(engine, at: "people"))
      #expect(try byAge(engine) == ["b", "c", "a"])
    }
  }
}
