import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyEngine

@Suite(.timeLimit(.minutes(20))) struct TransactionTests {
  let store = InMemoryJournal()

  @Test func `increments that wait together count each other`() async throws {
    let journal = FaultyJournal(store)
    let gate = journal.holdNextAppend()
    try await withEngine(journal) { engine in
      let sums = try await withThrowingTaskGroup(of: Int64.self) { group in
        group.addTask { try await engine.increment("n") }
        await gate.reached()
        for _ in 0..<200 { group.addTask { try await engine.increment("n") } }
        group.addTask {
          gate.open()
          return try await engine.increment("n")
        }
        return try await group.reduce(into: []) { $0.append($1) }
      }
      #expect(sums.sorted() == Array(1...202))
      #expect(engine.value("n") == 202)
    }
  }

  @Test func `a transaction sees the latest pending tree and readers the current one`()
    async throws
  {
    let journal = FaultyJournal(store)
    let gate = journal.holdNextAppend()
    try await withEngine(journal) { engine in
      let answers = Answers<Outcome>()
      engine.submitSet("a", 1, answers)
      await gate.reached()
      engine.submitSet("a", 2, answers)
      engine.submit { proposal in
        #expect(proposal.root.child("a") == 2)
        return Decision(try .set(Location("a"), WriteValue(3)), ())
      } completion: {
        answers.add(Outcome($0))
      }
      #expect(engine.root.isAbsent)
      gate.open()
      #expect(await answers.wait(for: 3) == [.committed(1), .committed(2), .committed(3)])
      #expect(engine.value("a") == 3)
    }
  }

  @Test func `server values are resolved against pending writes, and journaled resolved`()
    async throws
  {
    let journal = FaultyJournal(store)
    let gate = journal.holdNextAppend()
    let clock = ManualClock(7_000)
    try await withEngine(journal, clock: clock) { engine in
      let answers = Answers<Outcome>()
      engine.submitSet("n", 40, answers)
      await gate.reached()
      for text in [
        #"{".sv":{"increment":1}}"#, #"{".sv":{"increment":1}}"#, #"{".sv":"timestamp"}"#,
      ] {
        clock.advance(1)
        let path = text.contains("timestamp") ? "t" : "n"
        engine.submit { _ in
          Decision(try .set(Location(path), try WriteValue(json: text)), ())
        } completion: {
          answers.add(Outcome($0))
        }
      }
      gate.open()
      _ = await answers.wait(for: 4)
      #expect(engine.root == json(#"{"n":42,"t":7003}"#))
    }
    #expect(store.commits.map { $0.assignments.map(\.value) } == [[40], [41], [42], [7003]])
    #expect(store.commits.folded() == json(#"{"n":42,"t":7003}"#))
  }

  @Test func `an update is one commit, all or none`() async throws {
    try await withEngine(store) { engine in
      try await engine.set("a", json(#"{"x":1,"y":2}"#))
      _ = try await engine.transact { _ in
        let changes = [
          (try Location("x"), WriteValue(.absent)), (try Location("z/deep"), WriteValue(3)),
        ]
        return Decision(try .update(Path("a"), changes), ())
      }
      #expect(engine.root == json(#"{"a":{"y":2,"z":{"deep":3}}}"#))
      await #expect(throws: TreeError.self) {
        try await engine.transact { _ in
          let changes = [(try Location("y"), WriteValue(1)), (try Location("y/z"), WriteValue(3))]
          return Decision(try .update(Path("a"), changes), ())
        }
      }
    }
    #expect(store.commits.count == 2)
  }

  @Test func `values that are equal and one stay one in memory`() async throws {
    try await withEngine(store) { engine in
      let value = json(#"{"x":{"y":1}}"#)
      // Values under push ids may stand in several places.
      let (a, b) = (try Path("a/-OaBcDeFgHiJkLmNoPqR"), try Path("b/-OaBcDeFgHiJkLmNoPqR"))
      _ = try await engine.transact { _ in
        Decision(try Write([.init(a, value), .init(b, value)]), ())
      }
      _ = try await engine.transact { _ in
        Decision(
          try Write([.init(a.child("x").child("y"), 2), .init(b.child("x").child("y"), 2)]), ())
      }
      #expect(engine.root.at(a.child("x").child("y")) == 2)
      #expect(engine.root.at(a).isIdentical(to: engine.root.at(b)))
    }
  }

  @Test func `writes that are large together do not go to the journal in one append`() async throws
  {
    let store = InMemoryJournal()
    let journal = FaultyJournal(store)
    try await withEngine(journal) { engine in
      let first = journal.holdNextAppend()
      let answers = Answers<Outcome>()
      engine.submitSet("first", 1, answers)
      await first.reached()
      let part = 500_000
      let count = 3 * Engine.batchBytesMax / part
      for i in 0..<count {
        engine.submitSet("n\(i % 3)", Node(String(repeating: "x", count: part)), answers)
      }
      for i in 0..<100 { engine.submitSet("small\(i)", 1, answers) }
      first.open()
      _ = await answers.wait(for: 1 + count + 100)
      // Each ends with the write that exceeds the bound.
      let most = Engine.batchBytesMax / part + 1
      #expect(store.groups.dropFirst().allSatisfy { $0 <= most || $0 >= 100 })
      #expect(store.groups.count >= 1 + count / most)
      #expect(store.groups.count <= 3 + count / (most - 1))
      #expect(store.groups.last.map { $0 >= 100 } == true)
    }
  }

  /// A transaction that reports when it is decided, refused and completed.
  private struct Reporting: Transaction {
    let place: String
    var error: EngineError?
    let events: Answers<String>

    func decide(_ proposal: inout Proposal) throws -> Decision<Void> {
      events.add("decide \(place)")
      if let error { throw error }
      return Decision(try Write(setting: [Assignment(try Path(place), 1)]), ())
    }

    func refused(_ error: any Error) { events.add("refuse \(place)") }

    func complete(_ outcome: Swift.Result<Committed<Void>, any Error>) {
      events.add("complete \(place)")
    }
  }

  @Test func `a refusal is reported before the next request of the batch is decided`() async throws
  {
    let journal = FaultyJournal(store)
    try await withEngine(journal) { engine in
      let first = journal.holdNextAppend()
      engine.submitSet("first", 1, Answers<Outcome>())
      await first.reached()
      let events = Answers<String>()
      engine.submit(Reporting(place: "a", error: .denied, events: events))
      engine.submit(Reporting(place: "b", events: events))
      first.open()
      let expected = ["decide a", "refuse a", "decide b", "complete a", "complete b"]
      #expect(await events.wait(for: expected.count) == expected)
    }
  }
}
