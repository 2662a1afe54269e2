import CanopyEngine
import CanopyTesting
import CanopyTree
import Testing

@Suite(.timeLimit(.minutes(20))) struct CheckpointTests {
  let store = InMemoryJournal()
  var configuration: Engine.Configuration {
    var configuration = Engine.Configuration()
    configuration.checkpointEvery = 5
    return configuration
  }

  @Test func `a checkpoint is made after so many commits, of a tree that is durable`()
    async throws
  {
    let journal = FaultyJournal(store)
    let gate = Gate()
    journal.planCheckpoint(.delay(gate))
    try await withEngine(journal, configuration: configuration) { engine in
      for number in 1...4 { try await engine.set("n", Node(Int64(number))) }
      try await engine.set("n", 5)
      await gate.reached()
      #expect(try await engine.set("n", 6) == 6, "writes go on meanwhile")
      gate.open()
      for number in 7...20 { try await engine.set("n", Node(Int64(number))) }
    }
    let made = store.checkpoints
    #expect(made.first == 5)
    #expect(zip(made, made.dropFirst()).allSatisfy { $1 - $0 >= 5 })
    let loaded = try await store.load()
    #expect(loaded.tree.root.child("n") == 20)
  }

  @Test func `a checkpoint that fails is tried again later, and writes do not notice`()
    async throws
  {
    let journal = FaultyJournal(store)
    journal.planCheckpoint(.failBefore)
    let gate = Gate()
    journal.planCheckpoint(.delay(gate))
    try await withEngine(journal, configuration: configuration) { engine in
      // The gate delays the second checkpoint, which comes although the first one failed.
      var number: Int64 = 0
      while number < 5 {
        number += 1
        try await engine.set("n", Node(number))
      }
      // On a busy machine the checkpoints begin late.
      while number < 20_000, store.checkpoints.isEmpty {
        number += 1
        try await engine.set("n", Node(number))
        if number > 10 { gate.open() }
      }
    }
    #expect(!store.checkpoints.isEmpty)
  }

  @Test func `stopping waits for the checkpoint that is being made`() async throws {
    let journal = FaultyJournal(store)
    let gate = Gate()
    journal.planCheckpoint(.delay(gate))
    let engine = try await Engine.forTests(journal, configuration: configuration)
    await withTaskGroup(of: Void.self) { group in
      group.addTask { await engine.run() }
      for number in 1...5 { _ = try? await engine.set("n", Node(Int64(number))) }
      await gate.reached()
      engine.stop()
      #expect(store.checkpoints.isEmpty)
      gate.open()
      await group.waitForAll()
    }
    #expect(store.checkpoints == [5])
  }
}
