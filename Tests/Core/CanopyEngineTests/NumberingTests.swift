import CanopyEngine
import CanopyTesting
import CanopyTree
import Testing

@Suite(.timeLimit(.minutes(20))) struct NumberingTests {
  @Test func `commits are numbered from 1 without a gap`() async throws {
    let journal = InMemoryJournal()
    try await withEngine(journal) { engine async throws in
      for number in 1...20 {
        #expect(try await engine.set("n", Node(Int64(number))) == Int64(number))
      }
    }
    #expect(journal.commits.map(\.sequence) == Array(1...20))
  }

  @Test func `a transaction that writes nothing makes no commit and returns the last number`()
    async throws
  {
    let journal = InMemoryJournal()
    try await withEngine(journal) { engine in
      #expect(try await engine.transact { _ in Decision(nil, 7) }.sequence == 0)
      try await engine.set("a", 1)
      let nothing = try await engine.transact { _ in Decision(nil, 7) }
      #expect(nothing.sequence == 1)
      #expect(nothing.result == 7)
      #expect(try await engine.transact { _ in Decision(try Write([]), ()) }.sequence == 1)
      await #expect(throws: Refusal.self) {
        try await engine.transact { _ -> Decision<Void> in throw Refusal() }
      }
      #expect(try await engine.set("a", 2) == 2)
    }
    #expect(journal.commits.map(\.sequence) == [1, 2])
  }

  @Test func `an engine goes on from what its journal holds`() async throws {
    let journal = InMemoryJournal(root: try Node(json: #"{"a":1,"b":2}"#), checkpoint: 40)
    try await withEngine(journal) { engine async throws in
      #expect(engine.snapshot.sequence == 40)
      #expect(try await engine.set("b", 3) == 41)
      #expect(try await engine.set("c", 4) == 42)
    }
    try await withEngine(journal) { engine async throws in
      #expect(engine.snapshot.sequence == 42)
      #expect(engine.root == json(#"{"a":1,"b":3,"c":4}"#))
      #expect(try await engine.set("d", 5) == 43)
    }
  }

  @Test func `a commit has the time of the clock, and keys ascend though it steps back`()
    async throws
  {
    let journal = InMemoryJournal()
    let clock = ManualClock(1_000)
    let keys = try await withEngine(journal, clock: clock) { engine in
      var keys: [Key] = []
      for step in [0, 5, -800, 0, 2_000] as [Int64] {
        clock.advance(step)
        keys.append(
          try await engine.transact { proposal in
            let key = proposal.nextKey()
            return Decision(try Write([.init(Path.root.child(key), Node(proposal.now))]), key)
          }.result)
      }
      return keys
    }
    #expect(journal.commits.map(\.time) == [1_000, 1_005, 205, 205, 2_205])
    #expect(keys == keys.sorted() && Set(keys).count == 5)
  }

  @Test func `a refused transaction uses up its keys, so that none is made twice`() async throws {
    try await withEngine { engine in
      let given = Answers<Key>()
      await #expect(throws: Refusal.self) {
        try await engine.transact { proposal -> Decision<Void> in
          given.add(proposal.nextKey())
          throw Refusal()
        }
      }
      let next = try await engine.transact { Decision(nil, $0.nextKey()) }.result
      #expect(given.values[0] < next)
    }
  }
}
