import CanopyEngine
import CanopyTesting
import CanopyTree
import Testing

@Suite(.timeLimit(.minutes(20))) struct DurabilityTests {
  let store = InMemoryJournal()

  @Test func `nothing is answered or seen before the journal has it, then all in order`()
    async throws
  {
    let journal = FaultyJournal(store)
    let gate = journal.holdNextAppend()
    try await withEngine(journal) { engine in
      let answers = Answers<Outcome>()
      engine.submitSet("a", 1, answers)
      await gate.reached()
      engine.submitSet("b", 2, answers)
      engine.submitRead(answers)
      engine.submitRefused(answers)
      engine.submitSet("c", 3, answers)
      #expect(answers.values.isEmpty)
      #expect(engine.root.isAbsent)
      #expect(engine.snapshot.sequence == 0)
      gate.open()
      #expect(
        await answers.wait(for: 5)
          == [.committed(1), .committed(2), .committed(2), .refused, .committed(3)])
      #expect(engine.root == json(#"{"a":1,"b":2,"c":3}"#))
    }
    #expect(store.groups == [1, 2])
  }

  @Test func `writes that wait while the journal is busy share one append`() async throws {
    let journal = FaultyJournal(store)
    let gate = journal.holdNextAppend()
    try await withEngine(journal) { engine in
      let answers = Answers<Outcome>()
      engine.submitSet("n", 0, answers)
      await gate.reached()
      for number in 1...500 { engine.submitSet("n", Node(Int64(number)), answers) }
      gate.open()
      #expect(await answers.wait(for: 501) == (1...501).map { .committed($0) })
    }
    #expect(store.groups == [1, 500])
  }

  @Test func `the tree of a group is the one of its last commit, never one between`()
    async throws
  {
    let journal = FaultyJournal(store)
    let first = journal.holdNextAppend()
    let second = journal.holdNextAppend()
    try await withEngine(journal) { engine in
      let answers = Answers<Outcome>()
      engine.submitSet("n", 1, answers)
      await first.reached()
      engine.submitSet("n", 2, answers)
      engine.submitSet("n", 3, answers)
      first.open()
      await second.reached()
      #expect(engine.snapshot.sequence == 1)
      #expect(engine.value("n") == 1)
      second.open()
      _ = await answers.wait(for: 3)
      #expect(engine.snapshot.sequence == 3)
      #expect(engine.value("n") == 3)
    }
  }

  @Test func `refusals and reads write nothing`() async throws {
    try await withEngine(FaultyJournal(store)) { engine in
      let answers = Answers<Outcome>()
      engine.submitRefused(answers)
      engine.submitRead(answers)
      #expect(await answers.wait(for: 2) == [.refused, .committed(0)])
      try await engine.set("a", 1)
      engine.submitRefused(answers)
      #expect(await answers.wait(for: 3).last == .refused)
    }
    #expect(store.groups == [1])
  }

  @Test func `a snapshot that somebody holds never changes`() async throws {
    try await withEngine(store) { engine in
      try await engine.set("a/b", 1)
      let before = engine.snapshot
      try await engine.set("a/b", 2)
      try await engine.set("a", .absent)
      #expect(before.root == json(#"{"a":{"b":1}}"#))
      #expect(before.sequence == 1)
    }
  }
}
