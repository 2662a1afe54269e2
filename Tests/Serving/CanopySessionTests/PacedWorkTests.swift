import CanopyEngine
import CanopyTesting
import CanopyTree
import CanopyWire
import Synchronization
import Testing

@testable import CanopySession

/// Long work that gives its turn back from time to time.
@Suite(.timeLimit(.minutes(20))) struct PacedWorkTests {
  private struct Failure: Error {}

  /// Runs work until it ends, and returns the number of its turns.
  private func turns<R: Sendable>(_ work: PacedWork<R>) async throws -> (turns: Int, result: R) {
    var turns = 1
    while true {
      if let result = try await work.go() { return (turns, result) }
      turns += 1
    }
  }

  @Test func `work goes on in the next turn, and ends with its result`() async throws {
    // The clock is looked at after 64 calls.
    for (calls, expected) in [(0, 1), (63, 1), (64, 2), (200, 4)] {
      let work = PacedWork(turnMax: .zero) { pause in
        for _ in 0..<calls { try pause() }
        return calls
      }
      let (turns, result) = try await turns(work)
      #expect(turns == expected && result == calls)
    }
    let brief = PacedWork(turnMax: .seconds(3_600)) { pause in
      for _ in 0..<200 { try pause() }
    }
    #expect(try await turns(brief).turns == 1)
  }

  @Test func `the error of the work is thrown, and cancelled work ends`() async throws {
    let failing = PacedWork<Int>(turnMax: .zero) { pause in
      for _ in 0..<64 { try pause() }
      throw Failure()
    }
    #expect(try await failing.go() == nil)
    await #expect(throws: Failure.self) { try await failing.go() }
    let ended = AsyncStream<Bool>.makeStream()
    let cancelled = PacedWork(turnMax: .zero) { pause in
      do {
        for _ in 0..<1_000 { try pause() }
      } catch {
        ended.continuation.yield(error is CancellationError)
      }
    }
    #expect(try await cancelled.go() == nil)
    cancelled.cancel()
    for await isCancelled in ended.stream {
      #expect(isCancelled)
      break
    }
  }

  @Test func `hashing takes further turns after those of others, and one value at a time`()
    async throws
  {
    let operations = try await LineParts().operations
    let before = operations.longWork.turns
    let isDone = Mutex(false)
    let first = Task {
      try await operations.hashing(nil, in: { 1 }, turnMax: .zero) { number, pause in
        while !isDone.withLock({ $0 }) { try pause() }
        return number
      }
    }
    try await eventually { operations.longWork.turns > before }
    let second = Task { try await operations.hashing(nil, in: { 2 }) { number, _ in number } }
    try await eventually { operations.hashWork.waiting == 1 }
    // Other long work does not wait for the end of the first one, and the second one does.
    for _ in 0..<3 {
      let waiting = try await operations.longWork.withTurn { operations.hashWork.waiting }
      #expect(waiting == 1)
    }
    isDone.withLock { $0 = true }
    #expect(try await first.value == 1)
    #expect(try await second.value == 2)
    #expect(try await operations.hashing(nil, in: { nil as Int? }) { number, _ in number } == nil)
  }

  @Test func `a cancelled caller ends its work between two turns`() async throws {
    let operations = try await LineParts().operations
    let ended = AsyncStream<Void>.makeStream()
    let before = operations.longWork.turns
    let task = Task {
      try await operations.hashing(nil, in: { 1 }, turnMax: .zero) { _, pause in
        defer { ended.continuation.yield() }
        while true { try pause() }
      }
    }
    try await eventually { operations.longWork.turns > before + 2 }
    task.cancel()
    await #expect(throws: CancellationError.self) { try await task.value }
    for await _ in ended.stream { break }
    #expect(try await operations.etag(of: 1, nil) == Node(1).hash)
  }
}
