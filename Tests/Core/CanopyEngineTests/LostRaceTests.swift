import CanopyTesting
import CanopyTree
import Synchronization
import Testing

@testable import CanopyEngine

/// Batches that lose the race for their numbers are decided again, and no client sees it.
@Suite(.timeLimit(.minutes(20))) struct LostRaceTests {
  /// Follows only when asked, so that each append of a node that is behind loses a race.
  private static let never = Duration.seconds(1_000_000)

  /// Runs nodes that never look for commits. `body` plans the races that the first node loses.
  private func withOvertakenNode(
    _ memory: SharedMemory = SharedMemory(), offsets: [Int64],
    _ body: @escaping @Sendable (Nodes, _ victim: OvertakenJournal) async throws -> Void
  ) async throws {
    let journals = Mutex<[OvertakenJournal]>([])
    try await withNodes(
      memory, offsets: offsets, waits: StepClock(), followAfter: Self.never,
      wrapping: { base in
        let journal = OvertakenJournal(base)
        journals.withLock { $0.append(journal) }
        return journal
      }
    ) { nodes in
      let victim = journals.withLock { $0[0] }
      try await body(nodes, victim)
    }
  }

  @Test func `a transaction that lost the race is decided again on the winner's tree`()
    async throws
  {
    try await withDeafNodes { nodes async throws in
      let (one, two) = (nodes.engines[0], nodes.engines[1])
      for sum in stride(from: Int64(1), to: 21, by: 2) {
        #expect(try await one.increment("n") == sum)
        #expect(try await two.increment("n") == sum + 1)
      }
      #expect(one.races.lost == 9)
      #expect(two.races.lost == 10)
      #expect(one.races.mostInARow == 1)
    }
  }

  @Test func `all requests of a lost batch are decided again, refusals too`() async throws {
    try await withDeafNodes { nodes in
      let (one, two) = (nodes.engines[0], nodes.engines[1])
      try await one.set("name", "taken")
      let answers = Answers<Outcome>()
      let claim: @Sendable (inout Proposal) throws -> Decision<Void> = { proposal in
        guard proposal.root.child("name").isAbsent else { throw Refusal() }
        return Decision(try .set(Location("name"), WriteValue("mine")), ())
      }
      two.submitSet("a", 1, answers)
      two.submit(claim) { answers.add(Outcome($0)) }
      two.submitSet("b", 2, answers)
      #expect(await answers.wait(for: 3) == [.committed(2), .refused, .committed(3)])
      #expect(two.root == json(#"{"name":"taken","a":1,"b":2}"#))
    }
  }

  @Test func `a write that was sent to another node first is not made again`() async throws {
    try await withDeafNodes { nodes in
      let (one, two) = (nodes.engines[0], nodes.engines[1])
      let origin = try WriteOrigin(client: "abcdefghijklmnop", number: 1, seen: 0)
      @Sendable func once(_ engine: Engine) async throws -> Int64 {
        try await withCheckedThrowingContinuation { continuation in
          engine.submit(
            { proposal in
              let n = proposal.root.child("n").integerValue ?? 0
              return Decision(try .set(Location("n"), WriteValue(Node(n + 1))), ())
            }, once: origin
          ) { (result: Result<Committed<Void>, any Error>) in
            continuation.resume(with: result.map(\.sequence))
          }
        }
      }
      #expect(try await once(one) == 1)
      await #expect(throws: RepeatedWrite(sequence: 1)) { try await once(two) }
      await #expect(throws: RepeatedWrite(sequence: 1)) { try await once(one) }
      #expect(nodes.memory.commits.count == 1)
      #expect(two.races.lost == 1)
    }
  }

  @Test func `a write of a lost batch is not remembered as made`() async throws {
    try await withDeafNodes { nodes in
      let (one, two) = (nodes.engines[0], nodes.engines[1])
      let origin = try WriteOrigin(client: "abcdefghijklmnop", number: 1, seen: 0)
      try await one.set("n", 7)
      let answers = Answers<Result<Int64, any Error>>()
      two.submit(
        { proposal in
          guard proposal.root.child("n").isAbsent else { throw Refusal() }
          return Decision(try .set(Location("n"), WriteValue(1)), ())
        }, once: origin
      ) { (result: Result<Committed<Void>, any Error>) in answers.add(result.map(\.sequence)) }
      _ = await answers.wait(for: 1)
      #expect(throws: Refusal.self) { try answers.values[0].get() }
      // The client sends it again, and now it is made.
      two.submit({ _ in Decision(try .set(Location("n"), WriteValue(1)), ()) }, once: origin) {
        (result: Result<Committed<Void>, any Error>) in answers.add(result.map(\.sequence))
      }
      _ = await answers.wait(for: 2)
      #expect(try answers.values[1].get() == 2)
    }
  }

  @Test func `keys ascend with the commits, though the clocks of the nodes differ by minutes`()
    async throws
  {
    try await withDeafNodes(offsets: [0, 180_000, -300_000]) { nodes in
      var random = SeededGenerator(seed: 5)
      var keys: [Key] = []
      for _ in 0..<60 {
        let engine = random.pick(nodes.engines)
        let key = try await engine.transact { proposal in
          var key = proposal.nextKey()
          // Uses up some keys, so that the generators differ.
          for _ in 0..<2 { key = proposal.nextKey() }
          return Decision(
            try .set(Location(Path.root.child("log").child(key)), WriteValue(1)), key)
        }.result
        keys.append(key)
        random.pick(nodes.clocks).advance(Int64.random(in: 0...3, using: &random))
      }
      #expect(keys == keys.sorted())
      #expect(Set(keys).count == 60)
      let times = nodes.memory.commits.map(\.time)
      #expect(times == times.sorted(), "times of commits never go back from node to node")
    }
  }

  @Test func `writes that were submitted together are made once, whatever part was lost`()
    async throws
  {
    try await withDeafNodes { nodes in
      let (one, two) = (nodes.engines[0], nodes.engines[1])
      for round in 0..<5 {
        try await one.increment("other")
        let groups = try (0..<3).map { group in
          try (0..<2).map { part in
            Decision(
              try .set(Location("g/\(round)/\(group)-\(part)"), WriteValue(Node(Int64(part)))), ())
          } + [
            Decision(
              try .set(Location("denied"), WriteValue(1)), (),
              policy: TestPolicy(allows: { _ in false }))
          ]
        }
        let outcome = await withCheckedContinuation { continuation in
          two.submit(groups) { continuation.resume(returning: $0) }
        }
        #expect(outcome.decided == 9)
        #expect(outcome.denied == [2, 5, 8])
        #expect(outcome.failure == nil)
        #expect(two.value("g/\(round)").childCount == 6)
      }
      #expect(two.races.lost == 5)
      #expect(nodes.memory.commits.count == 5 * 4)
    }
  }

  @Test func `a decision knows that it is repeated`() async throws {
    try await withDeafNodes { nodes in
      try await nodes.engines[0].set("n", 1)
      let seen = Answers<Bool>()
      for _ in 0..<2 {
        _ = try await nodes.engines[1].transact { proposal in
          seen.add(proposal.isRepeat)
          return Decision(
            try .set(Location("m"), WriteValue(1)), (),
            policy: TestPolicy(derive: { write in
              seen.add(write.isRepeat)
              return nil
            }))
        }
      }
      #expect(seen.values == [false, false, true, true, false, false])
    }
  }

  @Test func `equal commits of two engines are distinguished when an append is resolved`()
    async throws
  {
    // Both increments lead to the same commit in the same millisecond.
    let memory = SharedMemory()
    try await withOvertakenNode(memory, offsets: [0, 0]) { nodes, victim in
      try await nodes.engines[1].set("n", 0)
      try await nodes.engines[0].set("m", 0)
      victim.plan(failing: true) { _ = try? await nodes.engines[1].increment("n") }
      #expect(try await nodes.engines[0].increment("n") == 2)
      #expect(memory.commits.folded().child("n") == 2)
      #expect(memory.commits[2].assignments == [Assignment(try Path("n"), 1)])
    }
  }

  @Test func `an on-disconnect write that another node has taken over is dropped, not doubled`()
    async throws
  {
    try await withNodes(offsets: [0, 0]) { nodes in
      let decisions = try [1, 2, 3].map { id in
        Decision(
          try .set(Location("online/\(id)"), WriteValue(Node(Int64(id)))), (),
          completedDisconnectWrite: DisconnectWriteID(id))
      }
      nodes.memory.addDisconnectWrites([1, 3], of: 0)
      nodes.memory.addDisconnectWrites([2], of: 1)
      let outcome = await withCheckedContinuation { continuation in
        nodes.engines[0].submit([decisions]) { continuation.resume(returning: $0) }
      }
      #expect(outcome.decided == 3)
      #expect(outcome.errors[1] as? EngineError == .takenOver)
      #expect(outcome.denied == [1])
      #expect(nodes.engines[0].root == json(#"{"online":{"1":1,"3":3}}"#))
      #expect(nodes.memory.disconnectWriteIDs == [2])
    }
  }

  @Test func `a conflict without a commit that was missed fails the batch`() async throws {
    struct Contradictory: ForwardingSharedJournal {
      let base: NodeJournal
      func append(_ commits: [Commit], after last: Int64) async throws {
        throw JournalError.conflict(missed: [])
      }
      func resolveAppend(after last: Int64) async throws -> [Commit] { [] }
      func commits(after sequence: Int64, bytesMax: Int) async throws -> [Commit] { [] }
    }
    try await withNodes(offsets: [0], wrapping: { Contradictory(base: $0) }) { nodes in
      await #expect(throws: EngineError.journalFailed) { try await nodes.engines[0].set("n", 1) }
    }
  }

  @Test func `a node that always loses asks for the turn, and loses three races at most`()
    async throws
  {
    try await withOvertakenNode(offsets: [0, 0, 0]) { nodes, victim in
      // Two rivals win a number before each append of the first node. Without turns it would never win.
      victim.plan(always: true) {
        for rival in nodes.engines[1...] { _ = try? await rival.increment("rivals") }
      }
      for sum in 1...20 {
        #expect(try await nodes.engines[0].increment("n") == Int64(sum))
      }
      #expect(nodes.engines[0].races == Engine.Races(lost: 60, mostInARow: Engine.lostRacesMax))
      #expect(victim.turns == 20)
      // A turn is no longer than one append.
      #expect(nodes.memory.winners.filter { $0 == 0 }.count == 20)
      victim.plan(always: false) {}
      try await nodes.waitUntilQuiet()
      #expect(nodes.engines.allSatisfy { $0.value("rivals") == 120 })
    }
  }

  @Test func `three nodes that write without a pause all go on, with few races for each commit`()
    async throws
  {
    try await withNodes { nodes in
      let perNode = 150
      try await withThrowingTaskGroup(of: Void.self) { group in
        for engine in nodes.engines {
          group.addTask {
            for _ in 0..<perNode { try await engine.increment("n") }
          }
        }
        try await group.waitForAll()
      }
      try await nodes.waitUntilQuiet()
      for engine in nodes.engines {
        #expect(engine.value("n") == Node(Int64(3 * perNode)))
        // It asks for the turn then, and the turns of the two others may come first.
        #expect(engine.races.mostInARow <= Engine.lostRacesMax)
      }
    }
  }
}

/// A journal that runs a planned body before appends, while the engine does not have the turn.
private final class OvertakenJournal: ForwardingSharedJournal {
  private struct Plan {
    var body: (@Sendable () async -> Void)?
    var isAlways = false
    var isFailing = false
    var hasTurn = false
    var turns = 0
  }

  let base: NodeJournal
  private let state = Mutex(Plan())

  init(_ base: NodeJournal) { self.base = base }

  /// Plans the body to run before the next append, or before all of them.
  ///
  /// - Parameter fails: whether the append then fails without storing anything.
  func plan(
    always isAlways: Bool = false, failing fails: Bool = false,
    _ body: @escaping @Sendable () async -> Void
  ) {
    state.withLock {
      $0.body = body
      $0.isAlways = isAlways
      $0.isFailing = fails
    }
  }

  var turns: Int { state.withLock { $0.turns } }

  func append(_ commits: [Commit], after last: Int64) async throws {
    let (body, fails) = state.withLock { plan in
      if plan.hasTurn { return (nil, false) as ((@Sendable () async -> Void)?, Bool) }
      defer { if !plan.isAlways { plan = Plan(turns: plan.turns) } }
      return (plan.body, plan.isFailing)
    }
    await body?()
    if fails { throw PlannedFailure() }
    try await base.append(commits, after: last)
  }

  func takeTurn() async throws -> Bool {
    let hasTurn = try await base.takeTurn()
    state.withLock {
      $0.hasTurn = hasTurn
      $0.turns += 1
    }
    return hasTurn
  }

  func endTurn() async {
    state.withLock { $0.hasTurn = false }
    await base.endTurn()
  }

  func checkpoint(
    _ root: Node, through sequence: Int64, resting rest: @Sendable () async throws -> Void
  ) async throws {}
}
