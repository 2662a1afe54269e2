import CanopyEngine
import CanopyTesting
import CanopyTree
import Testing

@Suite(.timeLimit(.minutes(20))) struct OverloadAndStopTests {
  let store = InMemoryJournal()

  @Test func `writes wait up to the bound, one more is refused, and the journal makes room`()
    async throws
  {
    let journal = FaultyJournal(store)
    let gate = journal.holdNextAppend()
    var configuration = Engine.Configuration()
    configuration.queuedCommitsMax = 3
    try await withEngine(journal, configuration: configuration) { engine async throws in
      let answers = Answers<Outcome>()
      engine.submitSet("n", 0, answers)
      await gate.reached()
      for number in 1...3 { engine.submitSet("n", Node(Int64(number)), answers) }
      #expect(answers.values.isEmpty, "three may wait")
      engine.submitSet("n", 4, answers)
      #expect(answers.values == [.failed(.overloaded)])
      gate.open()
      #expect(await Array(answers.wait(for: 5)[1...]) == (1...4).map { .committed($0) })
      #expect(engine.value("n") == 3)
      #expect(try await engine.set("n", 5) == 5)
    }
  }

  @Test func `stopping answers the accepted requests and refuses others`() async throws {
    let journal = FaultyJournal(store)
    let gate = journal.holdNextAppend()
    let engine = try await Engine.forTests(journal)
    let answers = Answers<Outcome>()
    await withTaskGroup(of: Void.self) { group in
      group.addTask { await engine.run() }
      engine.submitSet("a", 1, answers)
      await gate.reached()
      engine.submitSet("b", 2, answers)
      engine.submitRefused(answers)
      engine.stop()
      engine.submitSet("c", 3, answers)
      engine.submitRead(answers)
      engine.submitRefused(answers)
      #expect(answers.values == [EngineError](repeating: .stopped, count: 3).map { .failed($0) })
      gate.open()
      await group.waitForAll()
    }
    #expect(answers.values[3...] == [.committed(1), .committed(2), .refused])
    #expect(engine.root == json(#"{"a":1,"b":2}"#))
    await #expect(throws: EngineError.stopped) { try await engine.set("d", 1) }
    await engine.keepIndex(.value, at: .root)
    #expect(store.commits.count == 2)
  }

  @Test
  func
    `requests accepted before the engine runs are carried out, even if it was stopped meanwhile`()
    async throws
  {
    let engine = try await Engine.forTests(store)
    let answers = Answers<Outcome>()
    engine.submitSet("a", 1, answers)
    engine.stop()
    await engine.run()
    #expect(answers.values == [.committed(1)])
  }

  @Test func `stopping while the journal fails still answers everybody`() async throws {
    let journal = FaultyJournal(store)
    let gate = Gate()
    journal.plan(.delay(gate), .failBefore)
    let engine = try await Engine.forTests(journal)
    let answers = Answers<Outcome>()
    await withTaskGroup(of: Void.self) { group in
      group.addTask { await engine.run() }
      engine.submitSet("a", 1, answers)
      await gate.reached()
      engine.submitSet("b", 2, answers)
      engine.stop()
      gate.open()
      await group.waitForAll()
    }
    #expect(answers.values == [.failed(.journalFailed), .committed(1)])
  }
}
