import CanopyEngine
import CanopyTesting
import CanopyTree
import Synchronization
import Testing

/// The times and the rests of checkpoints, by a clock that only the test advances.
@Suite(.timeLimit(.minutes(20))) struct CheckpointPaceTests {
  let store = InMemoryJournal()
  let clock = StepClock()
  let after = Duration.seconds(300)

  private func configuration(every: Int = 1_000) -> Engine.Configuration {
    var configuration = Engine.Configuration()
    configuration.checkpointEvery = every
    configuration.checkpointAfter = after
    return configuration
  }

  /// Lets everybody else do what they can do.
  private func waitUntilIdle() async {
    for _ in 0..<1_000 { await Task.yield() }
  }

  @Test func `so many commits are needed, or so much time`() {
    let defaults = Engine.Configuration()
    #expect(defaults.checkpointEvery == 1_000_000)
    #expect(defaults.checkpointBytes == 256 * 1024 * 1024)
    #expect(defaults.checkpointAfter == .seconds(300))
  }

  @Test func `a checkpoint is due by count with one commit more, and not before`() async throws {
    let journal = SteppedJournal(store, clock, steps: [])
    try await withEngine(journal, configuration: configuration(every: 5), waits: clock) {
      [self] engine in
      for number in 1...4 { try await engine.set("n", Node(Int64(number))) }
      await waitUntilIdle()
      #expect(journal.ends.isEmpty)
      try await engine.set("n", 5)
      await journal.ended(1)
    }
    #expect(store.checkpoints == [5])
  }

  @Test func `a checkpoint is due by bytes with the commit that has the last of them`() async throws
  {
    let journal = SteppedJournal(store, clock, steps: [])
    var configuration = configuration()
    configuration.checkpointBytes = 3_000
    let value = Node(String(repeating: "v", count: 990))
    try await withEngine(journal, configuration: configuration, waits: clock) {
      [self] engine in
      for place in ["a", "b"] { try await engine.set(place, value) }
      await waitUntilIdle()
      #expect(journal.ends.isEmpty)
      try await engine.set("c", value)
      await journal.ended(1)
      // The bytes of the next one count from there.
      for place in ["d", "e"] { try await engine.set(place, value) }
      await waitUntilIdle()
      #expect(journal.ends.count == 1)
      try await engine.set("f", value)
      await journal.ended(2)
    }
    #expect(store.checkpoints == [3, 6])
  }

  @Test func `a checkpoint is due by age, though nothing more is written`() async throws {
    let journal = SteppedJournal(store, clock, steps: [])
    try await withEngine(journal, configuration: configuration(), waits: clock) {
      [clock, after] engine in
      try await engine.set("n", 1)
      await clock.slept(1)
      #expect(clock.sleeps == [after])
      // It counts from the first commit.
      clock.advance(by: after / 2)
      try await engine.set("n", 2)
      clock.advance(by: after / 2 - .milliseconds(1))
      #expect(clock.sleepers == 1)
      #expect(journal.ends.isEmpty)
      clock.advance(by: .milliseconds(1))
      await journal.ended(1)
    }
    #expect(store.checkpoints == [2])
  }

  @Test func `without commits no checkpoint is due, however long it takes`() async throws {
    let journal = SteppedJournal(store, clock, steps: [])
    try await withEngine(journal, configuration: configuration(every: 1), waits: clock) {
      [self] engine in
      for made in 0...2 {
        await waitUntilIdle()
        clock.advance(by: after * 10)
        await waitUntilIdle()
        #expect(journal.ends.count == made)
        try await engine.set("n", Node(Int64(made)))
        await journal.ended(made + 1)
      }
    }
    #expect(store.checkpoints == [1, 2, 3])
  }

  @Test func `commits that are found in the journal are folded after the same time`() async throws {
    try await withEngine(store) { engine in _ = try await engine.set("n", 1) }
    let journal = SteppedJournal(store, clock, steps: [])
    try await withEngine(journal, configuration: configuration(), waits: clock) {
      [clock, after] _ in
      await clock.slept(1)
      clock.advance(by: after)
      await journal.ended(1)
    }
    #expect(store.checkpoints == [1])
  }

  @Test func `a checkpoint that failed is tried again after the same time`() async throws {
    let journal = SteppedJournal(store, clock, steps: [])
    let faulty = FaultyJournal(journal)
    faulty.planCheckpoint(.failBefore)
    faulty.planCheckpoint(.failBefore)
    try await withEngine(faulty, configuration: configuration(), waits: clock) {
      [clock, after] engine in
      try await engine.set("n", 1)
      for tries in 1...3 {
        await clock.slept(tries)
        clock.advance(by: after)
      }
      await journal.ended(1)
    }
    #expect(store.checkpoints == [1])
    #expect(clock.sleeps == [after, after, after])
  }

  @Test func `after each step it rests three times as long, up to a tenth of a second`()
    async throws
  {
    let steps = [2, 0, 33, 34, 500, 1].map { Duration.milliseconds($0) }
    let rests = [6, 99, 100, 100, 3].map { Duration.milliseconds($0) }
    let journal = SteppedJournal(store, clock, steps: steps)
    try await withEngine(journal, configuration: configuration(), waits: clock) {
      [clock, after] engine in
      try await engine.set("n", 1)
      await clock.slept(1)
      clock.advance(by: after)
      for (index, rest) in rests.enumerated() {
        await clock.slept(index + 2)
        clock.advance(by: rest - .microseconds(1))
        #expect(clock.sleepers == 1)
        clock.advance(by: .microseconds(1))
      }
      await journal.ended(1)
    }
    #expect(clock.sleeps == [after] + rests)
  }

  @Test func `an engine that stops ends the rest, and leaves the checkpoint as it is`() async throws
  {
    let journal = SteppedJournal(
      store, clock, steps: Array(repeating: .milliseconds(2), count: 50))
    try await withEngine(journal, configuration: configuration(), waits: clock) {
      [clock, after] engine in
      try await engine.set("n", 1)
      await clock.slept(1)
      clock.advance(by: after)
      await clock.slept(2)
    }
    #expect(store.checkpoints.isEmpty)
    #expect(journal.ends.isEmpty)
    #expect(clock.sleeps.count == 2)
  }

  @Test func `commits that pile up end the rest, and let there be no more`() async throws {
    let journal = SteppedJournal(
      store, clock, steps: Array(repeating: .milliseconds(2), count: 50))
    try await withEngine(journal, configuration: configuration(every: 3), waits: clock) {
      [self] engine in
      try await engine.set("n", 1)
      await clock.slept(1)
      clock.advance(by: after)
      await clock.slept(2)
      // Twice as many as make a checkpoint due are not too many yet.
      for number in 2...6 { try await engine.set("n", Node(Int64(number))) }
      await waitUntilIdle()
      #expect(clock.sleepers == 1)
      #expect(journal.ends.isEmpty)
      try await engine.set("n", 7)
      await journal.ended(1)
    }
    #expect(store.checkpoints.first == 1)
    #expect(journal.ends.first == 2)
  }

  @Test func `a number of commits that no journal reaches is no trouble`() async throws {
    try await withEngine(configuration: configuration(every: .max), waits: clock) {
      [clock, after] engine in
      try await engine.set("n", 1)
      await clock.slept(1)
      clock.advance(by: after)
    }
  }
}

/// A journal whose checkpoints take so many steps, of so long by a clock.
private final class SteppedJournal<Base: Journal>: ForwardingJournal {
  private struct State {
    var ends: [Int] = []
    var watchers: [(count: Int, continuation: CheckedContinuation<Void, Never>)] = []
  }

  let base: Base
  private let clock: StepClock
  private let steps: [Duration]
  private let state = Mutex(State())

  init(_ base: Base, _ clock: StepClock, steps: [Duration]) {
    self.base = base
    self.clock = clock
    self.steps = steps
  }

  /// The number of sleeps so far at the end of each checkpoint.
  var ends: [Int] { state.withLock { $0.ends } }

  /// Waits until so many checkpoints have ended.
  func ended(_ count: Int) async {
    await withCheckedContinuation { continuation in
      let isReached = state.withLock { state in
        if state.ends.count < count { state.watchers.append((count, continuation)) }
        return state.ends.count >= count
      }
      if isReached { continuation.resume() }
    }
  }

  func checkpoint(
    _ root: Node, through sequence: Int64, resting rest: @Sendable () async throws -> Void
  ) async throws {
    for step in steps {
      clock.advance(by: step)
      try await rest()
    }
    try await base.checkpoint(root, through: sequence)
    let reached = state.withLock { state in
      state.ends.append(clock.sleeps.count)
      let count = state.ends.count
      let reached = state.watchers.filter { $0.count <= count }
      state.watchers.removeAll { $0.count <= count }
      return reached
    }
    for watcher in reached { watcher.continuation.resume() }
  }
}
