internal import CanopyEngine
internal import CanopyTree
internal import Synchronization
internal import Testing

/// The requirements of checkpoints, the same for every store.
package enum CheckpointContract<Fixture: StoreFixture> {
  /// The checks.
  package static var checks: [ContractCheck<Fixture>] {
    [
      ContractCheck(
        "the priority of a branch in several rows is added, changed and removed", checkPriorities),
      ContractCheck("the next checkpoint completes the work of a failed one", checkFailed),
      ContractCheck(
        "after an end at any step, all appended commits exist", checkRandom),
    ]
  }

  private static func append(
    _ store: Fixture.Store, _ writes: [(String, Node)]
  ) async throws -> JournalState {
    for (location, value) in writes {
      let last = try await store.load().sequence
      try await store.append([contractCommit(last + 1, location, value)], after: last)
    }
    return try await store.load()
  }

  private static func big(_ count: Int, _ bytes: Int = 400) -> Node {
    let text = Node(String(repeating: "b", count: bytes))
    return Node(children: (0..<count).map { (Key(index: Int32($0)), text) })
  }

  private static func checkPriorities(_ fixture: Fixture) async throws {
    for writes in [
      [("a", big(40)), ("a/.priority", 5)], [("a/.priority", "p")], [("a/x", 1)],
      [("a/.priority", .absent)], [("a", big(50).withPriority(6))], [("a", big(50))],
      [("a", big(2).withPriority(6))], [("a", 5)], [("a/b/c", big(30).withPriority(1))],
      [(".priority", 7)], [("a/b/.priority", 2)], [("a/b/c", .absent)],
    ] as [[(String, Node)]] {
      try await fixture.withStore { store in
        let state = try await append(store, writes)
        try await store.checkpoint(state.tree.root, through: state.sequence)
        let loaded = try await store.load()
        #expect(loaded.checkpoint == state.sequence)
        #expect(loaded.tree.root == state.tree.root)
        #expect(try await fixture.problems(of: store).isEmpty)
      }
    }
  }

  private static func checkFailed(_ fixture: Fixture) async throws {
    let steps = Mutex(0)
    var settings = StoreSettings()
    settings.stepRows = 1
    settings.afterStep = {
      let step = steps.withLock { steps in
        steps += 1
        return steps
      }
      if step == 3 { throw PlannedFailure() }
    }
    try await fixture.withStore(settings) { store in
      let state = try await append(store, [("a", big(30)), ("b", 1), ("c", 2)])
      await #expect(throws: PlannedFailure.self) {
        try await store.checkpoint(state.tree.root, through: state.sequence)
      }
      #expect(try await store.load().checkpoint == 0)
      #expect(try await store.load().tree.root == state.tree.root)
      try await store.checkpoint(state.tree.root, through: state.sequence)
      #expect(try await store.load().checkpoint == state.sequence)
      #expect(try await store.load().tree.root == state.tree.root)
    }
  }

  /// Random commits with checkpoints in between and at the same time, in small steps and small batches, which end at any
  /// step. The next life of the store continues.
  private static func checkRandom(_ fixture: Fixture) async throws {
    var random = SeededGenerator(printingSeedFor: "CheckpointContract")
    for _ in 0..<8 {
      let run = Run(try await Fixture(), &random)
      for _ in 0..<4 { try await run.live() }
    }
  }

  private struct Ending: Error {}

  /// A store and a simple model of its tree.
  private final class Run: Sendable {
    private struct State {
      var random: SeededGenerator
      var model = ModelTree()
    }

    private let fixture: Fixture
    private let state: Mutex<State>
    private let base: StoreSettings
    private let writes: RandomWrites

    init(_ fixture: Fixture, _ random: inout SeededGenerator) {
      self.fixture = fixture
      var settings = StoreSettings()
      settings.stepRows = Int.random(in: 1...10, using: &random)
      settings.batchLocations = random.pick([1, 2, 3, 5, 10, 1_000])
      settings.retainedCommits = Int64.random(in: 0...5, using: &random)
      base = settings
      writes = .varied(&random)
      state = Mutex(State(random: SeededGenerator(seed: random.next())))
    }

    private func chance(_ n: Int) -> Bool { state.withLock { $0.random.oneIn(n) } }

    /// Uses the store for a random time, or until a checkpoint ends at some step.
    func live() async throws {
      let hook = Mutex<(@Sendable () async throws -> Void)?>(nil)
      var settings = base
      settings.afterStep = { try await hook.withLock { $0 }?() }
      try await fixture.withStore(settings) { store in
        try await withEngine(store) { engine in
          #expect(engine.root == self.state.withLock { $0.model.root })
          hook.withLock {
            $0 = {
              if self.chance(6) { try await self.write(1...2, engine) }
              if self.chance(9) { try await self.check(store) }
              if self.chance(40) { throw Ending() }
            }
          }
          for _ in 0..<3 {
            try await self.write(1...10, engine)
            let snapshot = engine.snapshot
            let (root, sequence) = (snapshot.root, snapshot.sequence)
            do {
              try await store.checkpoint(root, through: sequence)
              #expect(try await store.load().checkpoint == sequence)
            } catch is Ending {
              return
            }
          }
        }
      }
      try await fixture.withStore(base) { try await check($0) }
    }

    private func write(_ count: ClosedRange<Int>, _ engine: Engine) async throws {
      let next = state.withLock { state in
        (0..<Int.random(in: count, using: &state.random)).map { _ in writes.next(&state.random) }
      }
      for write in next {
        _ = try await engine.transact { _ in Decision(write, ()) }
        let root = state.withLock { state in
          state.model.apply(write.items.map { Assignment($0.location, $0.value.node) })
          return state.model.root
        }
        #expect(engine.root == root)
      }
    }

    private func check(_ store: Fixture.Store) async throws {
      #expect(try await fixture.problems(of: store).isEmpty)
      let loaded = try await store.load().tree.root
      #expect(loaded == state.withLock { $0.model.root })
      #expect(loaded.brokenInvariant() == nil)
    }
  }
}
