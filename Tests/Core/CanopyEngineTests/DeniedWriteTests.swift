import CanopySystem
import CanopyTesting
import CanopyTree
import Synchronization
import Testing

@testable import CanopyEngine

/// The cost of writes that are denied.
@Suite(.timeLimit(.minutes(20))) struct DeniedWriteTests {
  private func update(_ count: Int32) throws -> Write {
    try Write((0..<count).map { Write.Item(Path.root.child(Key(index: $0)), Node(Int64($0))) })
  }

  private func branch(_ count: Int32) -> Node {
    Node(children: (0..<count).map { (Key(index: $0), Node(String(repeating: "x", count: 9))) })
  }

  private func transact(_ engine: Engine, _ write: Write, _ policy: TestPolicy) async -> Outcome {
    await withCheckedContinuation { continuation in
      engine.submit { _ in
        Decision(write, (), policy: policy)
      } completion: {
        continuation.resume(returning: Outcome($0))
      }
    }
  }

  /// Runs an engine that measures time by a setting. Its first append waits at the gate, and its answer is the first one.
  private func withHeldEngine(
    _ body: @escaping @Sendable (Engine, Setting, Gate, Answers<Outcome>) async throws -> Void
  ) async throws {
    let journal = FaultyJournal(InMemoryJournal())
    let setting = Setting()
    var configuration = Engine.Configuration()
    configuration.elapsed = setting.elapsed
    try await withEngine(journal, configuration: configuration) { engine async throws in
      let gate = journal.holdNextAppend()
      let answers = Answers<Outcome>()
      engine.submitSet("first", 1, answers)
      await gate.reached()
      try await body(engine, setting, gate, answers)
    }
  }

  @Test func `a large write is denied before it is applied, and a small one is not asked for`()
    async throws
  {
    let asked = Answers<Int>()
    let policy = TestPolicy(
      denies: { write in
        asked.add(write.items.count)
        return write.items.count > 9
      },
      allows: {
        #expect($0.assignments.count <= 9, "a denied write was applied")
        return true
      })
    try await withEngine { engine async throws in
      #expect(try await transact(engine, update(8), policy) == .committed(1))
      #expect(try await transact(engine, update(9), policy) == .committed(2))
      #expect(try await transact(engine, update(10), policy) == .failed(.denied))
      #expect(
        try await transact(engine, Write([.init(Path("a"), branch(9))]), policy) == .committed(3))
      #expect(asked.values == [9, 10])
      #expect(
        try await transact(engine, Write([.init(Path("a"), branch(900))]), policy) == .committed(4))
      #expect(asked.values == [9, 10, 1])
      #expect(engine.root.childCount == 10)
    }
  }

  /// Notes where it is freed.
  private final class Freed: Sendable {
    let engine: Engine
    let threads: Answers<Bool>

    init(_ engine: Engine, _ threads: Answers<Bool>) {
      self.engine = engine
      self.threads = threads
    }

    deinit { threads.add(engine.thread.isCurrent) }
  }

  @Test func `a large denied write is freed beside the engine's thread, and a small one on it`()
    async throws
  {
    try await withEngine { engine async throws in
      for (count, isLarge) in [(Int32(8), false), (9, true)] {
        let write = try update(count)
        let threads = Answers<Bool>()
        let policy = TestPolicy(denies: { _ in true }, allows: { _ in false })
        await withCheckedContinuation { continuation in
          engine.submit { [freed = Freed(engine, threads)] _ in
            withExtendedLifetime(freed) { Decision(write, (), policy: policy) }
          } completion: { (_: Result<Committed<Void>, any Error>) in
            continuation.resume()
          }
        }
        #expect(await threads.wait(for: 1) == [!isLarge])
      }
    }
  }

  #if CANOPY_COUNT_WORK
    @Test func `a large denied write touches no more nodes than a small one`() async throws {
      func work(_ count: Int32, isDenied: Bool) async throws -> Int {
        try await WorkCounter.counting { counter in
          try await withEngine { engine async throws in
            let write = try update(count)
            let before = counter.count
            let policy = TestPolicy(denies: { _ in isDenied })
            _ = await transact(engine, write, policy)
            return counter.count - before
          }
        }
      }
      let allowed = try await work(2_048, isDenied: false)
      let denied = try await work(2_048, isDenied: true)
      #expect(allowed > 2_048 && denied < 20, "\(allowed) allowed, \(denied) denied")
    }
  #endif

  @Test func `requests that take long and are denied delay another owner by one turn`() async throws
  {
    try await withHeldEngine { engine, setting, gate, answers async throws in
      let order = Answers<String>()
      func submit(_ name: String, _ duration: Duration) {
        engine.submit(
          { _ -> Decision<Void> in
            order.add(name)
            setting.advance(duration)
            throw EngineError.denied
          }, of: .address(name)
        ) { answers.add(Outcome($0)) }
      }
      // One batch takes five of them.
      for _ in 0..<50 { submit("flood", .milliseconds(2)) }
      submit("honest", .zero)
      gate.open()
      _ = await answers.wait(for: 52)
      let index = try #require(order.values.firstIndex(of: "honest"))
      #expect((5...6).contains(index), "\(order.values)")
    }
  }

  @Test func `a client that sends one small request at a time has a turn in each batch`()
    async throws
  {
    try await withHeldEngine { engine, setting, gate, answers async throws in
      let order = Answers<Int>()
      @Sendable func submit(
        _ owner: Int, _ duration: Duration, then next: @escaping @Sendable () -> Void
      ) {
        engine.submit(
          { _ -> Decision<Void> in
            order.add(owner)
            setting.advance(duration)
            throw EngineError.denied
          }, of: .address("\(owner)")
        ) {
          answers.add(Outcome($0))
          next()
        }
      }
      // Three of these fit in a batch.
      for number in 0..<200 { submit(number % 20, .milliseconds(4)) {} }
      @Sendable func sendNext(_ number: Int) {
        if number < 30 { submit(-1, .microseconds(50)) { sendNext(number + 1) } }
      }
      sendNext(0)
      gate.open()
      _ = await answers.wait(for: 231)
      // In the first round, when no owner has used any time, it waits for one request of each.
      let honest = order.values.indices.filter { order.values[$0] == -1 }
      #expect(honest.count == 30 && honest[0] <= 20, "\(order.values)")
      let gaps = zip(honest, honest.dropFirst()).map { $1 - $0 }
      #expect((gaps.max() ?? 0) <= 4, "\(order.values)")
    }
  }

  @Test func `the requests of each owner keep their order when batches take long`() async throws {
    try await withHeldEngine { engine, setting, gate, answers async throws in
      let order = Answers<(owner: Int, number: Int)>()
      for number in 0..<90 {
        engine.submit(
          { _ -> Decision<Void> in
            order.add((number % 3, number))
            setting.advance(.milliseconds(number % 7))
            return Decision(try .set(Location("n\(number)"), WriteValue(1)), ())
          }, of: .address("\(number % 3)")
        ) { answers.add(Outcome($0)) }
      }
      gate.open()
      _ = await answers.wait(for: 91)
      for owner in 0..<3 {
        let numbers = order.values.filter { $0.owner == owner }.map(\.number)
        #expect(numbers == Array(stride(from: owner, to: 90, by: 3)))
      }
      #expect(answers.values.count { $0 == .refused } == 0 && engine.root.childCount == 91)
    }
  }

  @Test
  func `several writes of an owner are made after its earlier requests, however long they take`()
    async throws
  {
    try await withHeldEngine { engine, setting, gate, answers async throws in
      let owner = WriteOwner.address("a")
      for number in 0..<10 {
        engine.submit(
          { _ in
            setting.advance(.milliseconds(11))
            return Decision(try .set(Location("n"), WriteValue(Node(Int64(number)))), ())
          }, of: owner
        ) { answers.add(Outcome($0)) }
      }
      let decision = Decision(try Write.set(Location("n"), WriteValue("offline")), ())
      engine.submit([[decision]], of: owner) { outcome in
        answers.add(outcome == WritesOutcome(decided: 1) ? .committed(0) : .refused)
      }
      gate.open()
      #expect(await answers.wait(for: 12).last == .committed(0))
      #expect(engine.value("n") == "offline")
    }
  }
}
