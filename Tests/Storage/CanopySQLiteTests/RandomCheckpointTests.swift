import CanopyEngine
import CanopyTesting
import CanopyTree
import Synchronization
import Testing

@testable import CanopySQLite

/// Random commits with checkpoints in between and at the same time, in small steps and small batches, and
/// crashes after any step.
@Suite(.timeLimit(.minutes(20))) struct RandomCheckpointTests {
  @Test func `after a crash at any step, all appended commits exist`()
    async throws
  {
    var random = SeededGenerator(printingSeedFor: "RandomCheckpointTests")
    for _ in 0..<6 { try await Run(&random).carryOut() }
  }
}

/// A database and a simple model of its tree.
private final class Run: Sendable {
  private struct State {
    var random: SeededGenerator
    var model = ModelTree()
    var root = Node.absent
  }

  private struct Crash: Error {
    var folder: Folder
  }

  private let state: Mutex<State>
  private let stepRows: Int
  private let batchLocations: Int
  private let retained: Int64
  private let writes: RandomWrites

  init(_ random: inout SeededGenerator) {
    stepRows = Int.random(in: 1...10, using: &random)
    batchLocations = random.pick([1, 2, 3, 5, 10, 1_000])
    retained = Int64.random(in: 0...5, using: &random)
    writes = .varied(&random)
    state = Mutex(State(random: SeededGenerator(seed: random.next())))
  }

  private func chance(_ n: Int) -> Bool { state.withLock { $0.random.oneIn(n) } }

  private func nextWrites(_ range: ClosedRange<Int>) -> [Write] {
    state.withLock { state in
      let count = Int.random(in: range, using: &state.random)
      return (0..<count).map { _ in writes.next(&state.random) }
    }
  }

  func carryOut() async throws {
    var folder = try Folder()
    for _ in 0..<3 {
      do {
        try await live(in: folder)
      } catch let crash as Crash {
        folder = crash.folder
      }
    }
  }

  /// Opens the folder and uses it for a random time or until a crash.
  private func live(in folder: Folder) async throws {
    let hook = Mutex<(@Sendable () async throws -> Void)?>(nil)
    var configuration = SQLiteStore.Configuration()
    configuration.checkpointStepRows = stepRows
    configuration.checkpointBatchLocations = batchLocations
    configuration.retainedCommits = retained
    configuration.durability = .relaxed
    configuration.afterStep = { try await hook.withLock { $0 }?() }
    try await folder.withStore(configuration) { store in
      try await withEngine(store) { engine in
        #expect(engine.root == self.state.withLock { $0.root })
        hook.withLock {
          $0 = {
            if self.chance(6) { try await self.write(1...2, engine) }
            if self.chance(5) {
              let crashed = try folder.crashed()
              try await self.check(crashed)
              if self.chance(12) { throw Crash(folder: crashed) }
            }
          }
        }
        for _ in 0..<3 {
          try await self.write(1...10, engine)
          let snapshot = engine.snapshot
          let (root, sequence) = (snapshot.root, snapshot.sequence)
          try await store.checkpoint(root, through: sequence)
          if engine.snapshot.sequence == sequence {
            #expect(try await store.checkpointRoot() == root)
          }
          #expect(
            try await store.number("SELECT value FROM meta WHERE name = 'checkpoint'") == sequence)
        }
      }
    }
    try await check(folder)
  }

  private func write(_ count: ClosedRange<Int>, _ engine: Engine) async throws {
    for write in nextWrites(count) {
      _ = try await engine.transact { _ in Decision(write, ()) }
      let root = state.withLock { state in
        state.model.apply(write.items.map { Assignment($0.location, $0.value.node) })
        state.root = state.model.root
        return state.root
      }
      #expect(engine.root == root)
    }
  }

  /// Opens a folder that a crash has left.
  private func check(_ folder: Folder) async throws {
    let root = state.withLock { $0.root }
    try await folder.withStore { store in
      #expect(try await store.problems().isEmpty)
      let loaded = try await store.tree().root
      #expect(loaded == root)
      #expect(loaded.brokenInvariant() == nil)
    }
  }
}
