import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyEngine

@Suite(.timeLimit(.minutes(20))) struct FailureTests {
  let store = InMemoryJournal()

  @Test func `writes that fit in a batch go to the journal in one append, or not at all`()
    async throws
  {
    let store = InMemoryJournal()
    let journal = FaultyJournal(store)
    try await withEngine(journal) { engine in
      let decisions = try ["a", "a/b", "c"].enumerated().map { i, path in
        Decision(try Write.set(Location(path), WriteValue(Node(Int64(i)))), ())
      }
      for fault in [JournalFault.failBefore, nil] {
        if let fault { journal.plan(fault) }
        let result = await withCheckedContinuation { continuation in
          engine.submit(decisions.map { [$0] }) { continuation.resume(returning: $0) }
        }
        #expect(
          result
            == (fault == nil ? WritesOutcome(decided: 3) : WritesOutcome(failure: .journalFailed)))
        #expect(engine.root == (fault == nil ? json(#"{"a":{"b":1},"c":2}"#) : .absent))
      }
      engine.stop()
      let result = await withCheckedContinuation { continuation in
        engine.submit(decisions.map { [$0] }) { continuation.resume(returning: $0) }
      }
      #expect(result == WritesOutcome(failure: .stopped))
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

  /// Listens to the value at a path, and collects the sequence numbers of its events.
  private func notifiedSequences(
    of path: String, _ engine: Engine
  ) async throws -> Answers<Int64> {
    let sequences = Answers<Int64>()
    let started = Answers<Bool>()
    engine.listen(Listening(try Path(path), form: .value)) {
      sequences.add($0.sequence)
    } started: { id, _ in
      started.add(id != nil)
    }
    #expect(await started.wait(for: 1) == [true])
    return sequences
  }

  @Test func `commits that were stored though the journal said no are answered as made`()
    async throws
  {
    let journal = FaultyJournal(store)
    try await withEngine(journal) { engine in
      try await engine.set("n", 1)
      let notified = try await notifiedSequences(of: "n", engine)
      journal.plan(.failAfter)
      #expect(try await engine.increment("n") == 2)
      #expect(engine.snapshot.sequence == 2)
      #expect(engine.value("n") == 2)
      #expect(try await engine.increment("n") == 3)
      #expect(notified.values == [2, 3])
    }
    #expect(store.commits.map(\.sequence) == [1, 2, 3])
    #expect(store.commits.folded() == json(#"{"n":3}"#))
  }

  @Test func `a whole group that was stored is answered as made, and the next write is made`()
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
      engine.submitRefused(answers)
      engine.submitSet("c", 3, answers)
      first.open()
      await second.reached()
      engine.submitSet("d", 4, answers)
      second.open()
      #expect(
        await answers.wait(for: 5)
          == [.committed(1), .committed(2), .refused, .committed(3), .committed(4)])
      #expect(engine.root == json(#"{"a":1,"b":2,"c":3,"d":4}"#))
    }
    #expect(store.commits.map(\.sequence) == [1, 2, 3, 4])
  }

  @Test(arguments: [true, false])
  func `a journal that cannot be read for a moment is asked again before anybody is answered`(
    isStored: Bool
  ) async throws {
    let journal = FaultyJournal(store)
    let waits = StepClock()
    try await withEngine(journal, waits: waits) { engine in
      try await engine.set("n", 1)
      journal.plan(isStored ? .failAfter : .failBefore)
      for _ in 0..<3 { journal.planResolve(.failBefore) }
      let answers = Answers<Outcome>()
      engine.submitSet("n", 2, answers)
      // The checkpoint waits by the same clock.
      let others = 1
      for attempt in 1...3 {
        await waits.slept(others + attempt)
        #expect(answers.values.isEmpty)
        #expect(engine.value("n") == 1)
        await #expect(throws: EngineError.journalFailed) { try await engine.set("more", 1) }
        waits.advance(by: .milliseconds(100 << (attempt - 1)))
      }
      #expect(
        await answers.wait(for: 1) == [isStored ? .committed(2) : .failed(.journalFailed)])
      #expect(engine.value("n") == (isStored ? 2 : 1))
      #expect(try await engine.set("next", 1) == (isStored ? 3 : 2))
    }
    #expect(store.commits.count == (isStored ? 3 : 2))
  }

  @Test(arguments: [true, false])
  func `a journal that cannot be read for long leaves the outcome unknown, and it shows later`(
    isStored: Bool
  ) async throws {
    let journal = FaultyJournal(store)
    let waits = StepClock()
    var configuration = Engine.Configuration()
    configuration.outcomeUnknownAfter = .milliseconds(300)
    try await withEngine(journal, configuration: configuration, waits: waits) { engine in
      try await engine.set("n", 1)
      let notified = try await notifiedSequences(of: "n", engine)
      let gate = Gate()
      journal.plan(.delay(gate), isStored ? .failAfter : .failBefore)
      // After 0, 100 and 300 milliseconds, and twice more.
      for _ in 0..<5 { journal.planResolve(.failBefore) }
      let answers = Answers<Outcome>()
      engine.submitSet("n", 2, answers)
      await gate.reached()
      engine.submitSet("waits", 1, answers)
      gate.open()
      for attempt in 1...2 {
        await waits.slept(1 + attempt)
        #expect(answers.values.isEmpty)
        waits.advance(by: .milliseconds(100 << (attempt - 1)))
      }
      #expect(
        await answers.wait(for: 2) == [.failed(.outcomeUnknown), .failed(.journalFailed)])
      #expect(notified.values.isEmpty)
      // Reads and listening go on meanwhile.
      #expect(engine.value("n") == 1)
      await waits.slept(4)
      let late = Answers<Int64>()
      let told = Answers<Int64>()
      engine.listen(Listening(.root)) {
        told.add($0.sequence)
      } started: {
        late.add($1.sequence)
      }
      waits.advance(by: .milliseconds(400))
      #expect(await late.wait(for: 1) == [1])
      await waits.slept(5)
      waits.advance(by: .milliseconds(800))
      await waits.slept(6)
      await #expect(throws: EngineError.journalFailed) { try await engine.set("more", 1) }
      waits.advance(by: .seconds(1))
      // When it is resolved, writes are accepted again.
      try await eventually { (try? await engine.set("after", 1)) != nil }
      #expect(engine.value("n") == (isStored ? 2 : 1))
      #expect(engine.value("waits").isAbsent)
      #expect(notified.values == (isStored ? [2] : []))
      // The commit in doubt was decided before this listener began.
      #expect(told.values == (isStored ? [2, 3] : [2]))
      #expect(answers.values.count == 2)
    }
    #expect(store.commits.count == (isStored ? 3 : 2))
  }

  @Test func `an engine that stops while the outcome is unknown says so and ends`() async throws {
    let journal = FaultyJournal(store)
    let waits = StepClock()
    let answers = Answers<Outcome>()
    try await withEngine(journal, waits: waits) { engine in
      try await engine.set("n", 1)
      journal.plan(.failBefore)
      for _ in 0..<2 { journal.planResolve(.failBefore) }
      engine.submitSet("n", 2, answers)
      await waits.slept(2)
    }
    #expect(answers.values == [.failed(.outcomeUnknown)])
  }

  @Test func `commits of another writer are not taken for those that failed`() async throws {
    let journal = FaultyJournal(store)
    try await withEngine(journal) { engine in
      try await engine.set("n", 1)
      let other = Commit(sequence: 2, time: 5, assignments: [Assignment(try Path("n"), 10)])
      journal.plan(.failBefore)
      journal.planResolve(.overtaken([other]))
      // They have its number, so it is decided again.
      #expect(try await engine.increment("n") == 11)
      // Stored, and followed by another's.
      let next = Commit(sequence: 5, time: 5, assignments: [Assignment(try Path("n"), 20)])
      journal.plan(.failAfter)
      journal.planResolve(.overtaken([next]))
      #expect(try await engine.increment("n") == 12)
      #expect(try await engine.increment("n") == 21)
    }
    #expect(store.commits.map(\.sequence) == [1, 2, 3, 4, 5, 6])
  }

  @Test func `a writer that lost a race decides again on the commits that it missed`() async throws
  {
    let journal = FaultyJournal(store)
    try await withEngine(journal) { engine in
      try await engine.set("n", 1)
      let others = [
        Commit(sequence: 2, time: 5, assignments: [Assignment(try Path("n"), 10)]),
        Commit(sequence: 3, time: 6, assignments: [Assignment(try Path("m"), 20)]),
      ]
      journal.plan(.overtaken(others))
      #expect(try await engine.increment("n") == 11)
      #expect(engine.root == json(#"{"n":11,"m":20}"#))
      #expect(engine.snapshot.sequence == 4)
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
          sums.append(try await engine.increment("n"))
        }
        #expect(sums == Array(1...40), "no increment was lost or made twice")
      }
    }
    let numbers = store.commits.map(\.sequence)
    #expect(numbers == Array(1...Int64(numbers.count)))
    #expect(store.commits.folded().child("n") == Node(Int64(numbers.count)))
  }

  @Test func `an engine whose journal cannot be read is not created`() async throws {
    struct Unreadable: Journal {
      func load(keeping indexes: IndexPlan) async throws -> JournalState {
        throw JournalError.unreadable("the disk is gone")
      }
      func append(_ commits: [Commit], after last: Int64) async throws {}
      func resolveAppend(after last: Int64) async throws -> [Commit] { [] }
      func history(
        after first: Int64, through last: Int64, where isAsked: @escaping HistoryFilter
      ) async throws -> HistoryPage { HistoryPage() }
      func checkpoint(
        _ root: Node, through sequence: Int64, resting rest: @Sendable () async throws -> Void
      ) async throws {}
    }
    await #expect(throws: JournalError.self) { try await Engine.forTests(Unreadable()) }
  }
}
