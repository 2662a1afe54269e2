import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyEngine

/// Numbers and times at the bounds of what a journal can hold.
@Suite(.timeLimit(.minutes(20))) struct BoundTests {
  @Test(arguments: [Int64.min, -1, Engine.sequenceMax + 1, .max])
  func `a journal whose last commit has an impossible number is not opened`(_ sequence: Int64)
    async throws
  {
    await #expect(throws: JournalError.self) {
      _ = try await Engine.forTests(InMemoryJournal(checkpoint: sequence))
    }
  }

  @Test func `the engine commits and makes checkpoints after the greatest number`() async throws {
    let journal = InMemoryJournal(checkpoint: Engine.sequenceMax)
    var configuration = Engine.Configuration.forTests
    configuration.checkpointEvery = .max
    configuration.checkpointAfter = .zero
    let waits = StepClock()
    try await withEngine(journal, configuration: configuration, waits: waits) {
      engine async throws in
      #expect(try await engine.set("a", 1) == Engine.sequenceMax + 1)
      while journal.checkpoints.isEmpty {
        waits.advance(by: .seconds(1))
        await Task.yield()
      }
    }
    #expect(journal.checkpoints == [Engine.sequenceMax + 1])
  }

  private static let last = PushIDGenerator.timeMax - 1

  @Test(arguments: [Int64.min, .min + 1, -1, 0, last, last + 1, .max])
  func
    `commits and keys are made at any time that keys can contain, of the clock and of the journal`(
      _ time: Int64
    )
    async throws
  {
    let journal = InMemoryJournal()
    // The next engine starts with another time.
    let later: Int64 = time >= Self.last ? .min : Self.last
    for now in [time, later] {
      try await withEngine(journal, clock: ManualClock(now)) { engine async throws in
        for _ in 1...2 {
          let number = Int64(journal.commits.count + 1)
          let origin = try WriteOrigin(client: "c", number: number, seen: 0)
          await withCheckedContinuation { continuation in
            engine.submit(
              { proposal in
                let location = Location(Path.root.child(proposal.nextKey()))
                return Decision(try .set(location, WriteValue(1)), ())
              }, once: origin
            ) { _ in continuation.resume() }
          }
        }
      }
    }
    #expect(
      journal.commits.map(\.time) == [time, time, later, later].filter { $0 <= Self.last })
    let keys = journal.commits.compactMap { $0.assignments.first?.location.path.last }
    #expect(keys == keys.sorted() && Set(keys).count == journal.commits.count)
  }
}
