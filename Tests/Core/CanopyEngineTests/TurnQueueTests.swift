import CanopyEngine
import CanopyTesting
import Testing

/// Tasks of which a few work at a time.
@Suite(.timeLimit(.minutes(5))) struct TurnQueueTests {
  /// A substitute for a connection.
  private final class Group: Sendable {}

  /// Begins a task of a group that waits for a turn, and returns when it waits.
  private func wait(
    _ queue: TurnQueue, _ name: String, _ group: Group?, _ done: Answers<String>
  ) async throws -> Task<Void, any Error> {
    let waiting = queue.waiting
    let task = Task {
      try await queue.withTurn(of: group.map { ObjectIdentifier($0) }) { done.add(name) }
    }
    try await eventually { queue.waiting != waiting }
    return task
  }

  @Test func `no more work at a time than may, and a group has one turn before another's second`()
    async throws
  {
    let queue = TurnQueue(width: 2)
    let gates = [Gate(), Gate()]
    let working = gates.map { gate in Task { try await queue.withTurn { await gate.pass() } } }
    for gate in gates { await gate.reached() }
    let done = Answers<String>()
    let (a, b) = (Group(), Group())
    var tasks: [Task<Void, any Error>] = []
    for (name, group) in [
      ("a1", a), ("a2", a), ("a3", a), ("b1", b), ("c", nil), ("b2", b), ("d", nil),
    ] as [(String, Group?)] {
      tasks.append(try await wait(queue, name, group, done))
    }
    #expect(queue.waiting == 7)
    #expect(done.values.isEmpty)
    gates[0].open()
    #expect(await done.wait(for: 7) == ["a1", "b1", "c", "d", "a2", "b2", "a3"])
    gates[1].open()
    for task in tasks + working { try await task.value }
    #expect(queue.waiting == 0)
    // All turns are free again.
    try await queue.withTurn { try await queue.withTurn {} }
  }

  @Test func `one that is cancelled while it waits has no turn, and takes none from others`()
    async throws
  {
    let queue = TurnQueue(width: 1)
    let gate = Gate()
    let working = Task { try await queue.withTurn { await gate.pass() } }
    await gate.reached()
    let done = Answers<String>()
    let group = Group()
    var tasks: [Task<Void, any Error>] = []
    for name in ["1", "2", "3"] { tasks.append(try await wait(queue, name, group, done)) }
    let single = try await wait(queue, "4", nil, done)
    tasks[0].cancel()
    single.cancel()
    for task in [tasks[0], single] {
      await #expect(throws: CancellationError.self) { try await task.value }
    }
    #expect(queue.waiting == 2)
    gate.open()
    try await working.value
    #expect(await done.wait(for: 2) == ["2", "3"])
    struct Failure: Error {}
    await #expect(throws: Failure.self) { try await queue.withTurn { throw Failure() } }
    try await queue.withTurn {}
    let late = Task {
      await gate.pass()
      try await queue.withTurn { done.add("late") }
    }
    late.cancel()
    await #expect(throws: CancellationError.self) { try await late.value }
    #expect(done.values.count == 2)
  }
}
