import CanopyEngine
import CanopyTesting
import CanopyTree
import Testing

@Suite(.timeLimit(.minutes(5))) struct FailureTests {
  let store = InMemoryJournal()

  @Test func `writes that are made together go to the journal in one append, or not at all`()
    async throws
  {
    let store = InMemoryJournal()
    let journal = FaultyJournal(store)
    try await withEngine(journal) { engine in
      let decisions = try ["a", "a/b", "c"].enumerated().map { i, path in
        Decision(try Write.set(Location(path), WriteValue(Node(Int64(i)))), ())
      }
      for fault in [FaultyJournal.Fault.failBefore, nil] {
        if let fault { journal.plan(fault) }
        let result = await withCheckedContinuation { continuation in
          engine.submit(decisions) { continuation.resume(returning: $0) }
        }
        #expect(result == (fault == nil ? .success([]) : .failure(.journalFailed)))
        #expect(engine.root == (fault == nil ? json(#"{"a":{"b":1},"c":2}"#) : .absent))
      }
      engine.stop()
      let result = await withCheckedContinuation { continuation in
        engine.submit(decisions) { continuation.resume(returning: $0) }
      }
      #expect(result == .failure(.stopped))
    }
    #expect(store.groups == [3])
  }

  @Test
  func `when the journal fails, its group is answered with an error, and nothing of it is seen`()
    async throws
  {
    let journal = FaultyJournal(store)
    try await withEngine(journal) { engine in
      try await engine.set("kept", 1)
      let first = journal.holdNextAppend()
      let gate = Gate()
      journal.plan(.delay(gate), .failBefore)
      let answers = Answers<Outcome>()
      engine.submitSet("first", 1, answers)
      await first.reached()
      engine.submitSet("kept", 2, answers)
      engine.submitRead(answers)
      engine.submitSet("kept", .absent, answers)
      first.open()
      await gate.reached()
      engine.submitSet("more", 3, answers)
      gate.open()
      #expect(
        await answers.wait(for: 5) == [
          .committed(2), .failed(.journalFailed), .failed(.journalFailed), .failed(.journalFailed),
          .committed(3),
        ])
      #expect(engine.root == json(#"{"first":1,"kept":1,"more":3}"#))

      let seen = try await engine.transact { Decision(nil, $0.root) }
      #expect(seen.result == engine.root, "what failed is rolled back")
      #expect(seen.sequence == 3)
      #expect(try await engine.set("next", 4) == 4)
    }
    #expect(store.commits.map(\.sequence) == [1, 2, 3, 4])
    #expect(store.commits.folded() == json(#"{"first":1,"kept":1,"more":3,"next":4}"#))
  }

  @Test func `a refusal waits for what it was decided upon, and fails with it`() async throws {
    for fails in [false, true] {
      let journal = FaultyJournal(InMemoryJournal())
      try await withEngine(journal) { engine in
        let first = journal.holdNextAppend()
        let gate = Gate()
        if fails { journal.plan(.delay(gate), .failBefore) } else { journal.plan(.delay(gate)) }
        let answers = Answers<Outcome>()
        engine.submitSet("first", 1, answers)
        await first.reached()
        engine.submitSet("name", "taken", answers)
        engine.submitRefused(answers)
        first.open()
        await gate.reached()
        #expect(answers.values == [.committed(1)])
        gate.open()
        let outcomes = await answers.wait(for: 3)
        #expect(
          outcomes.dropFirst()
            == (fails
              ? [.failed(.journalFailed), .failed(.journalFailed)] : [.committed(2), .refused]))
      }
    }
  }

  @Test func `commits that were stored though the journal said no are found out and adopted`()
    async throws
  {
    let journal = FaultyJournal(store)
    try await withEngine(journal) { engine in
      try await engine.set("n", 1)
      journal.plan(.failAfter)
      await #expect(throws: EngineError.journalFailed) { try await engine.increment("n") }
      #expect(engine.value("n") == 1, "nobody was told that it is stored")
      await #expect(throws: EngineError.journalFailed) { try await engine.set("other", 5) }
      #expect(engine.snapshot.sequence == 2)
      #expect(engine.value("n") == 2, "the second append found it")
      #expect(engine.value("other").isAbsent)
      #expect(try await engine.increment("n") == 3)
      #expect(engine.snapshot.sequence == 3)
    }
    #expect(store.commits.map(\.sequence) == [1, 2, 3])
    #expect(store.commits.folded() == json(#"{"n":3}"#))
  }

  @Test func `a whole group of unknown fate is adopted, and what found it is not made`()
    async throws
  {
    let journal = FaultyJournal(store)
    try await withEngine(journal) { engine async throws in
      let first = journal.holdNextAppend()
      let second = Gate()
      journal.plan(.delay(second), .failAfter)
      let answers = Answers<Outcome>()
      engine.submitSet("a", 1, answers)
      await first.reached()
      engine.submitSet("b", 2, answers)
      engine.submitSet("c", 3, answers)
      first.open()
      await second.reached()
      engine.submitSet("d", 4, answers)
      second.open()
      let outcomes = await answers.wait(for: 4)
      #expect(outcomes[0] == .committed(1))
      #expect(outcomes[1...].allSatisfy { $0 == .failed(.journalFailed) })
      #expect(engine.snapshot.sequence == 3)
      #expect(engine.root == json(#"{"a":1,"b":2,"c":3}"#))
      #expect(try await engine.set("e", 5) == 4)
    }
    #expect(store.commits.map(\.sequence) == [1, 2, 3, 4])
  }

  @Test func `a writer that another one overtook learns what it missed`() async throws {
    let journal = FaultyJournal(store)
    try await withEngine(journal) { engine in
      try await engine.set("n", 1)
      let others = [
        Commit(sequence: 2, time: 5, assignments: [Assignment(try Path("n"), 10)]),
        Commit(sequence: 3, time: 6, assignments: [Assignment(try Path("m"), 20)]),
      ]
      journal.plan(.overtaken(others))
      await #expect(throws: EngineError.journalFailed) { try await engine.increment("n") }
      #expect(engine.root == json(#"{"n":10,"m":20}"#))
      #expect(engine.snapshot.sequence == 3)
      #expect(try await engine.increment("n") == 11)
    }
    #expect(store.commits.map(\.sequence) == [1, 2, 3, 4])
    #expect(store.commits.folded() == json(#"{"n":11,"m":20}"#))
  }

  @Test func `two engines on one journal never both win a number`() async throws {
    let store = store
    try await withEngine(store) { one in
      try await withEngine(store, seed: 2) { two in
        var sums: [Int64] = []
        for turn in 0..<40 {
          let engine = turn % 3 == 0 ? one : two
          if let sum = try? await engine.increment("n") { sums.append(sum) }
        }
        #expect(sums == Array(1...Int64(sums.count)), "no increment was lost or made twice")
        #expect(sums.count > 10)
      }
    }
    let numbers = store.commits.map(\.sequence)
    #expect(numbers == Array(1...Int64(numbers.count)))
    #expect(store.commits.folded().child("n") == Node(Int64(numbers.count)))
  }

  @Test func `an engine whose journal cannot be read does not come into being`() async throws {
    struct Unreadable: Journal {
      func load(keeping indexes: IndexPlan) async throws -> JournalState {
        throw JournalError.unreadable("the disk is gone")
      }
      func append(_ commits: [Commit], after last: Int64) async throws {}
      func commits(after first: Int64, through last: Int64) async throws -> [Commit] { [] }
      func checkpoint(
        _ root: Node, through sequence: Int64, resting rest: @Sendable () async throws -> Void
      ) async throws {}
    }
    await #expect(throws: JournalError.self) { try await Engine.forTests(Unreadable()) }
  }
}
