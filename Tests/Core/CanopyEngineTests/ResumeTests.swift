import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyEngine

/// Replicas that resume receive the changes that they missed, once.
@Suite(.timeLimit(.minutes(20))) struct ResumeTests {
  static func writes() -> RandomWrites {
    var writes = RandomWrites()
    writes.keysMax = 4
    writes.bigOnceIn = 1000
    return writes
  }

  /// Makes a number of random writes.
  static func write(
    _ count: Int, _ random: SeededGenerator, _ engine: Engine
  ) async {
    var random = random
    for _ in 0..<count {
      let write = writes().next(&random)
      _ = try? await engine.transact { _ in Decision(write, ()) }
    }
  }

  /// Returns different generators for concurrent tasks.
  static func generators(_ count: Int, _ random: SeededGenerator) -> [SeededGenerator] {
    var random = random
    return (0..<count).map { _ in SeededGenerator(seed: random.next()) }
  }

  @Test(arguments: [false, true])
  func `a replica that leaves and resumes beside eight writers ends with the final state`(
    fails: Bool
  ) async throws {
    let random = SeededGenerator(printingSeedFor: "ResumeTests.concurrent")
    let journal = FaultyJournal(InMemoryJournal())
    let resumptions = Answers<ListenerID>()
    try await withEngine(journal) { engine in
      let generators = Self.generators(8 + 24, random)
      await withTaskGroup(of: Void.self) { group in
        for random in generators[..<8] {
          group.addTask { await Self.write(250, random, engine) }
        }
        for random in generators[8...] {
          group.addTask {
            do {
              try await Self.comeAndGo(random, fails ? journal : nil, engine) {
                resumptions.add($0)
              }
            } catch {
              Issue.record(error)
            }
          }
        }
      }
      #expect(engine.snapshot.sequence > 1000)
      #expect(engine.listenerCounts == (0, 0))
    }
    #expect(resumptions.values.count > 500)
  }

  /// Listens from time to time until the writers have ended, and then checks the replica.
  private static func comeAndGo(
    _ random: SeededGenerator, _ faulty: FaultyJournal<InMemoryJournal>?, _ engine: Engine,
    _ count: @Sendable (ListenerID) -> Void
  ) async throws {
    var random = random
    let replica = Replica(try .random(&random))
    var id = try #require(await replica.start(engine))
    // Ends when there are no more writes: then two visits begin at the same commit.
    var last: Int64 = -1
    for visit in 0..<2000 {
      // One write while it listens, with the notification before the answer, and perhaps one while it does not.
      let writes = [writes().next(&random), writes().next(&random)]
      if visit < 40 { _ = try? await engine.transact { _ in Decision(writes[0], ()) } }
      replica.leave(engine, id)
      if visit < 40, random.oneIn(2) {
        _ = try? await engine.transact { _ in Decision(writes[1], ()) }
      }
      if random.oneIn(5) { faulty?.planRead(.failBefore) }
      while true {
        do {
          let (newID, isAnew) = try #require(try await replica.resume(engine))
          #expect(!isAnew)
          id = newID
          break
        } catch is PlannedFailure {}
      }
      count(id)
      let sequence = engine.snapshot.sequence
      if visit >= 40, sequence == last { break }
      last = sequence
    }
    let ended = engine.snapshot
    // The commit is published, and the notification may not have come yet.
    _ = try await engine.transact { _ in Decision(nil, ()) }
    if let problem = replica.problem(ended.root), engine.snapshot.sequence == ended.sequence {
      Issue.record("\(problem)")
    }
    replica.leave(engine, id)
  }

  @Test func `events that come while the journal is read follow the changes, once`() async throws {
    let journal = FaultyJournal(InMemoryJournal())
    try await withEngine(journal) { engine in
      let replicas = EventForm.allCases.map { Replica(Listening(.root, form: $0)) }
      for replica in replicas {
        replica.leave(engine, try #require(await replica.start(engine)))
      }
      try await engine.set("a/x", 1)
      try await engine.set("b", 2)
      for replica in replicas {
        let gate = Gate()
        journal.planRead(.delay(gate))
        async let resumed = replica.resume(engine)
        await gate.reached()
        try await engine.set("c", Node(engine.snapshot.sequence))
        try await engine.set("b", .absent)
        try await engine.set("b", 3)
        #expect(replica.sequences == [0], "it is not told before it knows what it missed")
        gate.open()
        let (id, isAnew) = try #require(try await resumed)
        #expect(!isAnew)
        #expect(replica.problem(engine.root) == nil)
        let sequence = engine.snapshot.sequence
        #expect(replica.sequences == [0, sequence - 3, sequence - 2, sequence - 1, sequence])
        replica.leave(engine, id)
      }
    }
  }

  @Test func `one engine's listeners resume at the next one on the same journal`() async throws {
    let random = SeededGenerator(printingSeedFor: "ResumeTests.restarts")
    let journal = InMemoryJournal()
    var configuration = Engine.Configuration()
    configuration.checkpointEvery = 40
    let replicas = try Self.generators(60, random).map { random in
      var random = random
      return Replica(try .random(&random))
    }
    for (run, random) in Self.generators(8, random).enumerated() {
      try await withEngine(journal, configuration: configuration) { engine in
        for replica in replicas { try await replica.check(run, engine) }
        await Self.write(50, random, engine)
        for replica in replicas {
          if let problem = replica.problem(engine.root) { Issue.record("run \(run): \(problem)") }
        }
      }
      // Another engine writes while they are away, between two commits that they know.
      try await withEngine(journal) { await Self.write(30, random, $0) }
    }
  }

  @Test func `a journal that cannot be read gives an error, and listening goes on`()
    async throws
  {
    let journal = FaultyJournal(InMemoryJournal())
    try await withEngine(journal) { engine in
      for form in EventForm.allCases {
        let replica = Replica(Listening(.root, form: form))
        replica.leave(engine, try #require(await replica.start(engine)))
        try await engine.set("a", Node(engine.snapshot.sequence))
        journal.planRead(.failBefore)
        await #expect(throws: PlannedFailure.self) { try await replica.resume(engine) }
        #expect(engine.listenerCounts == (0, 0))
        try await engine.set("b", Node(engine.snapshot.sequence))
        let (id, isAnew) = try #require(try await replica.resume(engine))
        #expect(!isAnew)
        #expect(replica.problem(engine.root) == nil)
        try await engine.set("c", Node(engine.snapshot.sequence))
        #expect(replica.problem(engine.root) == nil)
        replica.leave(engine, id)
      }
    }
  }

  @Test func `one read finds that the journal no longer has a commit`() async throws {
    let store = InMemoryJournal()
    let journal = FaultyJournal(store)
    try await withEngine(journal) { engine in
      let replica = Replica(Listening(.root))
      replica.leave(engine, try #require(await replica.start(engine)))
      for i in 0..<20 { try await engine.set("n", Node(Int64(i))) }
      store.forget(through: 1)
      let gate = Gate()
      gate.open()
      journal.planRead(.delay(gate))
      journal.planRead(.failBefore)
      let (id, isAnew) = try #require(try await replica.resume(engine))
      #expect(isAnew)
      #expect(replica.problem(engine.root) == nil)
      replica.leave(engine, id)
    }
  }

  @Test func `after many commits a small place is sent as a whole, and a large one is resumed`()
    async throws
  {
    let journal = InMemoryJournal()
    try await withEngine(journal) { engine in
      // A little more bytes than 1,200 commits cost.
      let text = Node(String(repeating: "x", count: 1_200 * Limits.resumedBytesPerCommit))
      try await engine.set("large/text", text)
      let forms = EventForm.allCases
      let small = forms.map { Replica(Listening(.root.child("n"), form: $0)) }
      let large = forms.map { Replica(Listening(.root.child("large"), form: $0)) }
      for replica in small + large {
        replica.leave(engine, try #require(await replica.start(engine)))
      }
      let bound = Int(Limits.resumedCommitsMin)
      for (count, areAnew) in [
        (1, [false, false]), (bound, [false, false]), (bound + 1, [true, false]),
        (1_200, [true, false]), (1_202, [true, true]),
      ] {
        for i in 0..<count {
          try await engine.set(i % 2 == 0 ? "n/\(i % 7)" : "large/n", Node(Int64(i * count)))
        }
        for (replicas, isAnew) in zip([small, large], areAnew) {
          for replica in replicas {
            let resumed = try #require(try await replica.resume(engine))
            #expect(resumed.isAnew == isAnew, "\(replica.listening) after \(count)")
            #expect(replica.problem(engine.root) == nil)
            replica.leave(engine, resumed.id)
          }
        }
      }
    }
  }

  @Test func `commits to other places are skipped, and their bytes count`()
    async throws
  {
    let journal = InMemoryJournal()
    try await withEngine(journal) { engine in
      try await engine.set("a", 1)
      let large = Node(String(repeating: "x", count: 900_000))
      let counts = [5, Limits.resumedBytesMin / 900_000 + 2]
      for (count, isAnew) in zip(counts, [false, true]) {
        for form in EventForm.allCases {
          let replica = Replica(Listening(.root.child("a"), form: form))
          replica.leave(engine, try #require(await replica.start(engine)))
          let first = journal.pages.count
          for i in 0..<count { try await engine.set("other", i % 2 == 0 ? large : 1) }
          for _ in 0..<count { try await engine.set("other/deep", large) }
          try await engine.set("a", Node(engine.snapshot.sequence))
          let resumed = try #require(try await replica.resume(engine))
          #expect(resumed.isAnew == isAnew)
          #expect(replica.problem(engine.root) == nil)
          let pages = journal.pages.dropFirst(first)
          #expect(pages.allSatisfy { $0.bytes <= HistoryPage.bytesMax + 900_100 })
          #expect(pages.reduce(0) { $0 + $1.commits.count } == 1)
          #expect(
            pages.reduce(0) { $0 + $1.bytes }
              <= Limits.resumedBytesMin + HistoryPage.bytesMax + 1_800_000)
          replica.leave(engine, resumed.id)
        }
      }
    }
  }

  @Test func `a copy gets the whole state if too many locations were written`() async throws {
    try await withEngine(InMemoryJournal()) { engine in
      for (excess, isAnew) in [(0, false), (1, true)] {
        let replica = Replica(Listening(.root.child("n"), form: .sync))
        replica.leave(engine, try #require(await replica.start(engine)))
        let count = Engine.resumedLocationsMax + excess
        for first in stride(from: 0, to: count, by: 2_048) {
          let write = try Write(
            (first..<min(first + 2_048, count)).map {
              Write.Item(try Path("n/k\($0)"), Node(Int64($0 + excess)))
            })
          _ = try await engine.transact { _ in Decision(write, ()) }
        }
        // Locations elsewhere do not count.
        for number in 0..<10 { try await engine.set("other/\(number)", 1) }
        let resumed = try #require(try await replica.resume(engine))
        #expect(resumed.isAnew == isAnew)
        #expect(replica.problem(engine.root) == nil)
        replica.leave(engine, resumed.id)
      }
    }
  }

  @Test func `a cancelled resumption reads no further page, and gives its turn to others`()
    async throws
  {
    let store = InMemoryJournal()
    let journal = FaultyJournal(store)
    try await withEngine(journal) { engine in
      let replica = Replica(Listening(.root, form: .value))
      replica.leave(engine, try #require(await replica.start(engine)))
      let large = Node(String(repeating: "x", count: 900_000))
      for _ in 0..<6 { try await engine.set("a", large) }
      // The oldest commit and the first page have been read.
      var gates: [Gate] = []
      var tasks: [Task<Void, any Error>] = []
      for _ in 0..<Limits.resumptionsMax {
        journal.planRead(
          .delay(
            {
              let open = Gate(); open.open(); return open
            }()))
        let gate = Gate()
        journal.planRead(.delay(gate))
        tasks.append(Task { _ = try await replica.resume(engine) })
        await gate.reached()
        gates.append(gate)
      }
      for task in tasks { task.cancel() }
      let read = store.pages.count
      for gate in gates { gate.open() }
      for task in tasks {
        await #expect(throws: CancellationError.self) { try await task.value }
      }
      #expect(store.pages.count == read + gates.count)
      let (id, isAnew) = try #require(try await replica.resume(engine))
      #expect(!isAnew)
      #expect(replica.problem(engine.root) == nil)
      replica.leave(engine, id)
    }
  }
}
