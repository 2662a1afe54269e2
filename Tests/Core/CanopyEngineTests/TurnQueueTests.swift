import CanopyEngine
import CanopyTesting
import Synchronization
import Testing

/// Tasks of which a few work at a time.
@Suite(.timeLimit(.minutes(20))) struct TurnQueueTests {
  /// A substitute for a connection.
  private final class Group: Sendable {
    let network: String?

    init(_ network: String? = nil) {
      self.network = network
    }

    var turns: TurnGroup { TurnGroup(network: network, connection: ObjectIdentifier(self)) }
  }

  /// Begins a task of a group that waits for a turn, and returns when it waits.
  ///
  /// - Parameter work: the rest of the turn, after its name was added.
  private func wait(
    _ queue: TurnQueue, _ name: String, _ group: Group?, cost: Int = 1, _ done: Answers<String>,
    _ work: @escaping @Sendable () async -> Void = {}
  ) async throws -> Task<Void, any Error> {
    let waiting = queue.waiting
    let task = Task {
      try await queue.withTurn(of: group?.turns, cost: cost) {
        done.add(name)
        await work()
      }
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

  @Test func `a network that has had a long turn waits for those that have had short ones`()
    async throws
  {
    let time = Mutex(Duration.zero)
    let queue = TurnQueue(width: 1, charging: { time.withLock { $0 } })
    let (long, short) = (Group("a"), Group("b"))
    // A turn of two seconds, whose network leaves the queue.
    try await queue.withTurn(of: long.turns) { time.withLock { $0 += .seconds(2) } }
    let gate = Gate()
    let working = Task { try await queue.withTurn { await gate.pass() } }
    await gate.reached()
    let done = Answers<String>()
    var tasks = [try await wait(queue, "a", long, done)]
    for number in 0..<3 { tasks.append(try await wait(queue, "b\(number)", short, done)) }
    gate.open()
    #expect(await done.wait(for: 4) == ["b0", "b1", "b2", "a"])
    for task in tasks { try await task.value }
    try await working.value
    // After sixteen times the time, the long turn no longer counts.
    time.withLock { $0 += .seconds(33) }
    let second = Gate()
    let other = Task { try await queue.withTurn { await second.pass() } }
    await second.reached()
    tasks = [try await wait(queue, "a", long, done), try await wait(queue, "b", short, done)]
    second.open()
    #expect(await done.wait(for: 6).suffix(2) == ["a", "b"])
    for task in tasks { try await task.value }
    try await other.value
  }

  @Test func `a network that had the queue alone is behind later ones by its last turn only`()
    async throws
  {
    let time = Mutex(Duration.zero)
    let queue = TurnQueue(width: 1, charging: { time.withLock { $0 } })
    let (early, late) = (Group("a"), Group("b"))
    for _ in 0..<20 {
      try await queue.withTurn(of: early.turns) { time.withLock { $0 += .seconds(2) } }
    }
    let gate = Gate()
    let working = Task { try await queue.withTurn { await gate.pass() } }
    await gate.reached()
    let done = Answers<String>()
    var tasks = [try await wait(queue, "a", early, done)]
    for number in 0..<10 {
      tasks.append(
        try await wait(queue, "b\(number)", late, done) { time.withLock { $0 += .seconds(1) } })
    }
    gate.open()
    let order = await done.wait(for: 11)
    #expect(order == ["b0", "b1", "a"] + (2..<10).map { "b\($0)" })
    for task in tasks + [working] { try await task.value }
  }

  @Test func `a network that comes when many others wait has a turn before their next ones`()
    async throws
  {
    let time = Mutex(Duration.zero)
    let queue = TurnQueue(width: 1, charging: { time.withLock { $0 } })
    let gate = Gate()
    let working = Task { try await queue.withTurn { await gate.pass() } }
    await gate.reached()
    let done = Answers<String>()
    let middle = Gate()
    let networks = 32
    let groups = (0..<networks).map { Group("n\($0)") }
    var tasks: [Task<Void, any Error>] = []
    for round in 0..<4 {
      for group in groups {
        tasks.append(
          try await wait(queue, "\(round)", group, done) {
            time.withLock { $0 += .seconds(1) }
            if done.values.count == 2 * networks { await middle.pass() }
          })
      }
    }
    gate.open()
    await middle.reached()
    // All of them have had two turns, and two of each wait.
    tasks.append(try await wait(queue, "new", Group("new"), done))
    middle.open()
    let order = await done.wait(for: 4 * networks + 1)
    #expect(order.firstIndex(of: "new") == 2 * networks)
    for task in tasks + [working] { try await task.value }
  }

  @Test func `a network has one turn before another's second, however many connections it opens`()
    async throws
  {
    let queue = TurnQueue(width: 1)
    let gate = Gate()
    let working = Task { try await queue.withTurn { await gate.pass() } }
    await gate.reached()
    let done = Answers<String>()
    let flood = (0..<6).map { _ in Group("a") }
    let (honest, local, other) = (Group("b"), Group(), Group())
    var tasks: [Task<Void, any Error>] = []
    for (index, group) in flood.enumerated() {
      tasks.append(try await wait(queue, "a\(index)", group, done))
    }
    // The second task of a connection waits for the first ones of its neighbours.
    tasks.append(try await wait(queue, "a0 again", flood[0], done))
    for (name, group) in [
      ("b", honest), ("local", local), ("local again", local), ("other", other),
      ("b again", honest),
    ] {
      tasks.append(try await wait(queue, name, group, done))
    }
    // The first of a network may leave, and so may the only one of a connection.
    let late = Group("c")
    let cancelled = [
      try await wait(queue, "c", late, done), try await wait(queue, "c again", late, done),
    ]
    #expect(queue.waiting == 14)
    for task in cancelled {
      task.cancel()
      await #expect(throws: CancellationError.self) { try await task.value }
    }
    #expect(queue.waiting == 12)
    gate.open()
    let order = await done.wait(for: 12)
    #expect(
      order == [
        "a0", "b", "local", "other", "a1", "b again", "local again", "a2", "a3", "a4", "a5",
        "a0 again",
      ])
    for task in tasks + [working] { try await task.value }
    #expect(queue.waiting == 0)
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
    gate.hold()
    let late = Task {
      await gate.pass()
      try await queue.withTurn { done.add("late") }
    }
    late.cancel()
    gate.open()
    await #expect(throws: CancellationError.self) { try await late.value }
    #expect(done.values.count == 2)
  }

  @Test
  func `a cheap task passes expensive ones that came before it, and networks have equal costs`()
    async throws
  {
    let queue = TurnQueue(width: 1)
    let gate = Gate()
    let working = Task { try await queue.withTurn { await gate.pass() } }
    await gate.reached()
    let done = Answers<String>()
    let flood = (0..<3).map { _ in Group() }
    let (cheap, many) = (Group("a"), Group("b"))
    var tasks: [Task<Void, any Error>] = []
    for (index, group) in flood.enumerated() {
      tasks.append(try await wait(queue, "large \(index)", group, cost: 60, done))
      tasks.append(try await wait(queue, "large \(index) again", group, cost: 60, done))
    }
    tasks.append(try await wait(queue, "cheap", cheap, cost: 6, done))
    // A network that has had as much as one large task waits for the others.
    for index in 0..<12 { tasks.append(try await wait(queue, "b\(index)", many, cost: 6, done)) }
    gate.open()
    let order = await done.wait(for: 19)
    #expect(
      order == ["cheap"] + (0..<9).map { "b\($0)" } + (0..<3).map { "large \($0)" } + ["b9"]
        + ["b10", "b11"] + (0..<3).map { "large \($0) again" })
    for task in tasks + [working] { try await task.value }
  }
}
