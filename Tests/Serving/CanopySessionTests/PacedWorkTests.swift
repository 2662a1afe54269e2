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

  @Test func `a short hash does not wait for a long one that is under way or waits`() async throws {
    let operations = try await LineParts().operations
    let isDone = Mutex(false)
    let members = (0..<10_000).map { "\"k\($0)\":\($0)" }.joined(separator: ",")
    let long = try Node(json: "{\(members)}")
    let short = try Node(json: "{\"a\":\"\(String(repeating: "x", count: 8_000))\"}")
    let first = Task {
      try await operations.hashing(nil, in: { long }, of: { $0 }, turnMax: .zero) { _, pause in
        while !isDone.withLock({ $0 }) { try pause() }
        return 1
      }
    }
    try await eventually { operations.hashWork.turns == 1 }
    let second = Task { try await operations.etag(of: long, nil) }
    try await eventually { operations.hashWork.waiting == 1 }
    #expect(try await operations.etag(of: short, nil) == short.hash)
    #expect(operations.hashWork.turns == 1 && operations.hashWork.waiting == 1)
    // A version that is measured first may be missing as well.
    let none = try await operations.hashing(nil, in: { nil as Node? }, of: { $0 }) { _, _ in 1 }
    #expect(none == nil)
    isDone.withLock { $0 = true }
    #expect(try await first.value == 1)
    #expect(try await second.value == long.hash)
    #expect(operations.hashWork.turns == 2)
  }

  @Test func `a cancelled caller ends its work between two turns`() async throws {
    let operations = try await LineParts().operations
    try await expectEnd(in: operations) { body in
      _ = try await operations.hashing(nil, in: { 1 }, turnMax: .zero) { _, pause in
        try body(pause)
      }
    }
    #expect(try await operations.etag(of: 1, nil) == Node(1).hash)
  }

  @Test func `cancelled work that ignores the error of a pause gets it again, and ends`()
    async throws
  {
    let ended = AsyncStream<Int>.makeStream()
    let work = PacedWork(turnMax: .zero) { pause in
      var errors = 0
      for _ in 0..<1_000 {
        do { try pause() } catch { errors += 1 }
      }
      ended.continuation.yield(errors)
    }
    #expect(try await work.go() == nil)
    work.cancel()
    for await errors in ended.stream {
      // One of each 64 calls looks.
      #expect(errors == 15)
      break
    }
  }

  /// The answers of tasks, in their order.
  private final class Answers: Sendable {
    private let answers = Mutex<[String]>([])

    var values: [String] { answers.withLock { $0 } }

    func add(_ answer: String) { answers.withLock { $0.append(answer) } }
  }

  /// A substitute for a connection.
  private final class Connection: Sendable {
    let network: String?

    init(_ network: String?) {
      self.network = network
    }

    var turns: TurnGroup { TurnGroup(network: network, connection: ObjectIdentifier(self)) }
  }

  @Test func `hashing does not wait behind all other long work of its network`() async throws {
    let operations = try await LineParts().operations
    let connections = (0..<9).map { _ in Connection("a") }
    let gates = connections.map { _ in Gate() }
    let done = Answers()
    let gate = Gate()
    var tasks = [Task { try await operations.longWork.withTurn { await gate.pass() } }]
    await gate.reached()
    for (index, connection) in connections.enumerated() {
      tasks.append(
        Task {
          try await operations.longWork.withTurn(of: connection.turns) {
            done.add("read")
            await gates[index].pass()
          }
        })
      try await eventually { operations.longWork.waiting == index + 1 }
    }
    let turns = connections[0].turns
    tasks.append(
      Task {
        _ = try await operations.hashing(turns, in: { 1 }, turnMax: .zero) { _, pause in
          // Three turns.
          for _ in 0..<128 { try pause() }
          done.add("hash")
        }
      })
    try await eventually { operations.longWork.waiting == connections.count + 1 }
    gate.open()
    for index in gates.indices {
      await gates[index].reached()
      // The hash waits for its next turn.
      try await eventually {
        operations.longWork.waiting
          == gates.count - index - 1 + (done.values.contains("hash") ? 0 : 1)
      }
      gates[index].open()
    }
    for task in tasks { try await task.value }
    #expect(done.values.count == 10 && done.values.last == "read", "\(done.values)")
  }

  @Test func `a long text is decoded in turns, and one text of each network at a time`()
    async throws
  {
    let operations = try await LineParts().operations
    let bytes = Operations.hugeTextBytes
    let (first, same, other) = (Connection("a"), Connection("a"), Connection("b"))
    let isDone = Mutex(false)
    let done = Answers()
    func decode(
      _ name: String, _ connection: Connection, while goesOn: @escaping @Sendable () -> Bool
    ) -> Task<Void, any Error> {
      let turns = connection.turns
      return Task {
        try await operations.decodeBeside(bytes: bytes, turns, turnMax: .zero) { pause in
          repeat { try pause() } while goesOn()
          done.add(name)
        }
      }
    }
    let before = operations.longWork.turns
    var tasks = [decode("first", first) { !isDone.withLock { $0 } }]
    try await eventually { operations.longWork.turns > before + 3 }
    tasks.append(decode("same", same) { false })
    // Meanwhile other long work, and texts of other networks, have turns.
    try await operations.longWork.withTurn { done.add("read") }
    try await decode("other", other) { false }.value
    #expect(done.values == ["read", "other"])
    isDone.withLock { $0 = true }
    for task in tasks { try await task.value }
    #expect(done.values == ["read", "other", "first", "same"])
    #expect(operations.decodings.networks == 0)
  }

  @Test func `a caller that is cancelled ends the decoding of its text`() async throws {
    let operations = try await LineParts().operations
    try await expectEnd(in: operations) { body in
      try await operations.decodeBeside(bytes: Operations.hugeTextBytes, nil, turnMax: .zero, body)
    }
  }

  /// Gives work a body that never returns, cancels the caller after some turns, and expects that the body ends.
  private func expectEnd(
    in operations: Operations,
    _ work:
      @escaping @Sendable (
        _ body: @escaping @Sendable (_ pause: () throws -> Void) throws -> Void
      ) async throws -> Void
  ) async throws {
    let ended = AsyncStream<Void>.makeStream()
    let before = operations.longWork.turns
    let task = Task {
      try await work { pause in
        defer { ended.continuation.yield() }
        while true { try pause() }
      }
    }
    try await eventually { operations.longWork.turns > before + 2 }
    task.cancel()
    await #expect(throws: CancellationError.self) { try await task.value }
    for await _ in ended.stream { break }
  }
}
