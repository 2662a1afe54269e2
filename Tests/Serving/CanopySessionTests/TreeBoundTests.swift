import CanopyEngine
import CanopyTesting
import CanopyWire
import Logging
import Testing

@testable import CanopySession
@testable import CanopyTree

/// The bytes of all trees, and the bytes that writes add.
@Suite(.timeLimit(.minutes(20))) struct TreeBoundTests {
  private let log = LineLog()

  private func engine(
    _ journal: InMemoryJournal, indexes plan: IndexPlan = IndexPlan()
  ) async throws -> Engine {
    var configuration = Engine.Configuration.forTests
    configuration.indexPlan = plan
    return try await Engine(
      journal: journal, configuration: configuration, now: { 0 }, clock: StepClock(), random: { 1 },
      logger: log.logger)
  }

  private func bytes(of root: Node) -> Int {
    var count = MemoryCount()
    count.add(root)
    return count.bytes
  }

  @Test
  func
    `near the bound the bytes are those of the tree after commits, large values, a new index and a restart`()
    async throws
  {
    let journal = InMemoryJournal()
    let bound = TreeBound(bytesMax: 1, logger: log.logger)
    let first = try await engine(journal)
    let count = TreeCount(of: first, in: bound)
    let running = Task { await first.run() }
    func write(_ path: String, _ json: String) async throws {
      let write = try Write.set(Location(path), WriteValue(json: json))
      _ = try await first.transact { _ in Decision(write, ()) }
      TreeCount.finish()
      #expect(count.bytes == bytes(of: first.root) && bound.bytes == count.bytes)
    }
    for number in 0..<200 {
      try await write(
        "/list/\(number * 7 % 100)", #"{"n":\#(number),"t":"a longer text \#(number)"}"#)
    }
    let large = "[" + (0..<10_000).map { "{\"n\":\($0)}" }.joined(separator: ",") + "]"
    try await write("/large", large)
    #expect(count.bytes > 10_000 * 40)
    await first.keepIndex(.child(Path.root.child("n")), at: Path.root.child("list"))
    TreeCount.finish()
    #expect(count.bytes == bytes(of: first.root))
    try await write("/list/5", "{\"n\":1}")
    try await write("/large", "null")
    first.stop()
    await running.value

    // Another server, such as after a restart or a restore.
    let second = try await engine(journal)
    do {
      let other = TreeCount(of: second, in: bound)
      #expect(other.bytes == bytes(of: second.root) && other.bytes > 0)
      #expect(bound.bytes == count.bytes + other.bytes)
    }
    // A namespace that is closed takes no memory.
    #expect(bound.bytes == count.bytes)
  }

  @Test
  func `far below the bound, commits add their bytes, and the tree is not counted`()
    async throws
  {
    let bytesMax = 100_000
    let bound = TreeBound(bytesMax: bytesMax, logger: log.logger)
    let engine = try await engine(InMemoryJournal())
    let count = TreeCount(of: engine, in: bound)
    let running = Task { await engine.run() }
    #expect(!count.isNear)
    var random = SeededGenerator(printingSeedFor: "the bound of a tree")
    var wasNear = false
    for number in 0..<2_000 {
      // Short texts take much memory for each byte, and long ones little.
      let value =
        random.next() % 2 == 0
        ? "1" : "\"\(String(repeating: "x", count: Int(random.next() % 90)))\""
      let write = try Write.set(Location("/list/\(number)"), WriteValue(json: value))
      _ = try await engine.transact { _ in Decision(write, ()) }
      TreeCount.finish()
      let bytes = bytes(of: engine.root)
      if bytes >= bytesMax { #expect(bound.isFull) }
      if bytes < bytesMax - bytesMax / 64 { #expect(!bound.isFull) }
      if count.isNear {
        wasNear = true
        #expect(count.bytes == bytes)
      } else {
        #expect(bytes < bytesMax / 8 * 7)
      }
    }
    #expect(wasNear && bound.isFull)
    // All is counted again when most is removed.
    let removal = try Write.set(Location("/list"), WriteValue(json: "null"))
    _ = try await engine.transact { _ in Decision(removal, ()) }
    TreeCount.finish()
    #expect(!count.isNear && !bound.isFull && count.bytes == 0)
    engine.stop()
    await running.value
  }

  @Test
  func
    `a large tree is counted as a whole once, and then by its differences until it is small again`()
    async throws
  {
    let children = 20_000
    let json =
      "{" + (0..<children).map { "\"\($0)\":\"text \($0)\"" }.joined(separator: ",") + "}"
    let journal = InMemoryJournal()
    let loading = try await engine(journal)
    let run = Task { await loading.run() }
    let load = try Write.set(Location("/list"), WriteValue(json: json))
    _ = try await loading.transact { _ in Decision(load, ()) }
    loading.stop()
    await run.value

    let engine = try await engine(journal)
    let size = bytes(of: engine.root)
    let bound = TreeBound(bytesMax: size / 10 * 15, logger: log.logger)
    let count = TreeCount(of: engine, in: bound)
    let running = Task { await engine.run() }
    #expect(count.wholeCounts == 0 && !count.isNear && count.bytes == size)
    func write(_ number: Int, _ json: String) async throws {
      let write = try Write.set(Location("/list/\(number)"), WriteValue(json: json))
      _ = try await engine.transact { _ in Decision(write, ()) }
      TreeCount.finish()
    }
    var random = SeededGenerator(printingSeedFor: "the differences of a large tree")
    for number in 0..<6_000 {
      let number = number < 5_000 ? Int(random.next() % UInt64(children)) : children + number
      try await write(number, "\"text \(random.next() % 100)\"")
    }
    // As a whole, it would have been counted after each few hundred commits.
    #expect(count.wholeCounts == 1)
    #expect(!count.isNear)
    #expect(abs(count.bytes - bytes(of: engine.root)) <= bound.bytesMax / 64)
    #expect(bound.bytes == count.bytes)

    let removal = try Write.set(Location("/list"), WriteValue(json: "{\"0\":1}"))
    _ = try await engine.transact { _ in Decision(removal, ()) }
    for number in 0..<6_000 { try await write(number % 10, "\"text \(number % 7)\"") }
    // The small tree is counted as a whole again, because that is cheap.
    #expect(count.wholeCounts > 1 && !count.isNear)
    #expect(abs(count.bytes - bytes(of: engine.root)) <= bound.bytesMax / 64)
    engine.stop()
    await running.value
  }

  /// The leaves of a large value, and how many times its memory the bound is.
  @Test(arguments: [(20_000, 40), (20_000, 6)], [0, 4])
  func `large writes far below the bound are not measured on the engine's thread`(
    sizes: (leaves: Int, times: Int), orders: Int
  ) async throws {
    var plan = IndexPlan()
    for number in 0..<orders { plan.declare(.child(try Path("n\(number)")), at: ["idx"]) }
    func write(_ round: Int) throws -> Write {
      let leaves = (0..<sizes.leaves).map { "\"k\($0)\":\($0 + round)" }
      var items = [
        Write.Item(try Path("idx"), try Node(json: "{\(leaves.joined(separator: ","))}"))
      ]
      for number in 0..<60 { items.append(.init(try Path("t/\(number)"), Node(Int64(round)))) }
      var write = try Write(items)
      write.addIndexes(of: plan, over: Operations.bytesEncodedAtOnceMax)
      write.encodeValues(over: Operations.bytesEncodedAtOnceMax)
      return write
    }
    let writes = [try write(0), try write(1)]
    var tree = Tree(indexPlan: plan)
    tree.apply(writes[0].assignments)
    let bound = TreeBound(bytesMax: bytes(of: tree.root) * sizes.times, logger: log.logger)
    let engine = try await engine(InMemoryJournal(), indexes: plan)
    let count = TreeCount(of: engine, in: bound)
    try await WorkCounter.counting { counter in
      let running = Task { await engine.run() }
      for round in 0..<50 {
        let write = writes[round % 2]
        let before = counter.count
        _ = try await engine.transact { _ in Decision(write, (), isBounded: true) }
        #expect(counter.count - before < 16 * 1_024, "round \(round)")
        TreeCount.finish()
        #expect(bound.bytes <= bytes(of: engine.root) + bound.bytesMax / 16)
      }
      engine.stop()
      await running.value
    }
    withExtendedLifetime(count) {}
  }

  @Test(arguments: [0, 1])
  func `a commit is made if it fits in the bound with its indexes, and not one byte beyond it`(
    missing: Int
  ) async throws {
    // The indexes are at a place below wildcards.
    var plan = IndexPlan()
    for key in ["a", "b", "c"] { plan.declare(.child(try Path(key)), at: ["list", nil, nil]) }
    let json = "{" + (100..<400).map { "\"z\($0)\":{\"a\":1}" }.joined(separator: ",") + "}"
    let write = try Write.set(Location("/list/g"), WriteValue(json: json))
    var tree = Tree(indexPlan: plan)
    tree.apply(write.resolved(in: .absent, at: 0))
    let size = bytes(of: tree.root)
    #expect(size > 10 * json.utf8.count)
    let bound = TreeBound(bytesMax: size - missing, logger: log.logger)
    let engine = try await engine(InMemoryJournal(), indexes: plan)
    let other = try await self.engine(InMemoryJournal())
    let counts = (TreeCount(of: engine, in: bound), TreeCount(of: other, in: bound))
    let running = [Task { await engine.run() }, Task { await other.run() }]
    @Sendable func make(
      _ write: Write, isBounded: Bool = true, in engine: Engine
    ) async throws {
      _ = try await engine.transact { _ in Decision(write, (), isBounded: isBounded) }
    }
    let removal = try Write.set(Location("/list"), WriteValue(json: "null"))
    let small = try Write.set(Location("/x"), WriteValue(json: "1"))
    if missing == 0 {
      try await make(write, in: engine)
      #expect(bytes(of: engine.root) == bound.bytesMax && bound.isFull)
      // The same value again, less, and nothing.
      try await make(write, in: engine)
      // Another tree has no place either, but for a write that has no bound.
      await #expect(throws: EngineError.treeFull) { try await make(small, in: other) }
      #expect(other.root.isAbsent && other.snapshot.sequence == 0)
      try await make(small, isBounded: false, in: other)
      TreeCount.finish()
      #expect(bound.bytes == bound.bytesMax + bytes(of: other.root))
      try await make(try Write.set(Location("/list/g/z100"), WriteValue(json: "null")), in: engine)
      try await make(removal, in: engine)
    } else {
      await #expect(throws: EngineError.treeFull) { try await make(write, in: engine) }
      #expect(engine.root.isAbsent && engine.snapshot.sequence == 0)
      // Several writes at once do not each get the same place.
      let ends: [Bool] = try await withThrowingTaskGroup(of: Bool.self) { group in
        for number in 0..<40 {
          group.addTask {
            let part = try Write.set(
              Location("/list/g\(number)"), WriteValue(json: "{\"z\":\(json)}"))
            do { try await make(part, in: number % 2 == 0 ? engine : other) } catch {
              return false
            }
            return true
          }
        }
        return try await group.reduce(into: []) { $0.append($1) }
      }
      #expect(ends.contains(false))
      #expect(bytes(of: engine.root) + bytes(of: other.root) <= bound.bytesMax)
      try await make(removal, in: engine)
      try await make(removal, in: other)
    }
    #expect(bound.refused > 0)
    TreeCount.finish()
    #expect(bound.bytes == bytes(of: engine.root) + bytes(of: other.root))
    for engine in [engine, other] { engine.stop() }
    for task in running { await task.value }
    withExtendedLifetime(counts) {}
  }

  @Test func `a batch that fails takes nothing of the bound`() async throws {
    let journal = FaultyJournal<InMemoryJournal>()
    let bound = TreeBound(bytesMax: 100_000, logger: log.logger)
    let engine = try await Engine(
      journal: journal, configuration: .forTests, now: { 0 }, clock: StepClock(), random: { 1 },
      logger: log.logger)
    let count = TreeCount(of: engine, in: bound)
    let running = Task { await engine.run() }
    let text = String(repeating: "x", count: 90_000)
    let write = try Write.set(Location("/x"), WriteValue(json: "\"\(text)\""))
    journal.plan(.failBefore)
    await #expect(throws: EngineError.journalFailed) {
      _ = try await engine.transact { _ in Decision(write, (), isBounded: true) }
    }
    #expect(bound.bytes == 0 && !bound.isFull)
    _ = try await engine.transact { _ in Decision(write, (), isBounded: true) }
    TreeCount.finish()
    #expect(bound.bytes == bytes(of: engine.root) && count.bytes == bound.bytes)
    engine.stop()
    await running.value
  }

  @Test func `a tree is added to the bound if it fits, and not one byte beyond it`() {
    let bound = TreeBound(bytesMax: 640, logger: log.logger)
    #expect(bound.bytesMaxOfOpening == 630)
    #expect(!bound.add(631, atMost: bound.bytesMaxOfOpening) && bound.bytes == 0)
    #expect(bound.add(630, atMost: bound.bytesMaxOfOpening) && bound.bytes == 630)
    #expect(!bound.add(1, atMost: bound.bytesMaxOfOpening) && !bound.isFull)
    #expect(!bound.add(.max, atMost: .max) && bound.bytes == 630)
  }

  @Test func `removals from an empty tree take nothing of the bound`() async throws {
    let bound = TreeBound(bytesMax: 1_000_000, logger: log.logger)
    let engine = try await engine(InMemoryJournal())
    let count = TreeCount(of: engine, in: bound)
    let running = Task { await engine.run() }
    let removal = try Write.set(Location("/list"), WriteValue(json: "null"))
    for _ in 0..<3 {
      _ = try await engine.transact { _ in Decision(removal, ()) }
      TreeCount.finish()
      #expect(count.bytes == 0 && bound.bytes == 0)
    }
    engine.stop()
    await running.value
  }

  @Test func `an import far below the bound is counted as a whole`() async throws {
    let bound = TreeBound(bytesMax: .max, logger: log.logger)
    let engine = try await engine(InMemoryJournal())
    let count = TreeCount(of: engine, in: bound)
    let running = Task { await engine.run() }
    let write = try Write.set(Location("/"), WriteValue(json: #"{"a":{"b":1},"c":"text"}"#))
    _ = try await engine.transact { _ in Decision(write, ()) }
    TreeCount.finish()
    #expect(count.bytes == bytes(of: engine.root) && !count.isNear)
    engine.stop()
    await running.value
  }

  @Test func `a write adds the bytes of new values less those that it replaces`() throws {
    let root = try Node(json: #"{"a":{"b":"a text of more than fifteen bytes","c":1},"n":5}"#)
    func growth(_ path: String, _ json: String) throws -> Int {
      TreeWrite.set(try Location(path), try WriteValue(json: json)).growth(
        over: root, atMost: 1_000_000)
    }
    #expect(try growth("/new", "1") > 0)
    #expect(try growth("/n", "6") == 0)
    #expect(try growth("/n", #"{".sv":{"increment":1}}"#) == 0)
    #expect(try growth("/n", #"{".sv":"timestamp"}"#) == 0)
    #expect(try growth("/a", "null") < 0)
    #expect(try growth("/none", "null") == 0)
    #expect(try growth("/a/b", "\"short\"") < 0)
    #expect(try growth("/a/b", "\"\(String(repeating: "x", count: 100))\"") > 0)
    #expect(try growth("/a", #"{"b":"a text of more than fifteen bytes","c":2}"#) == 0)
    #expect(try growth("/a/.priority", "1") > 0)
    #expect(
      try growth("/new", "[" + Array(repeating: "1", count: 50_000).joined(separator: ",") + "]")
        == 1_000_000)
    let move = TreeWrite.update(
      .root,
      [
        .init(location: try Location("/a"), value: try WriteValue(json: "null")),
        .init(
          location: try Location("/z"),
          value: try WriteValue(json: #"{"b":"a text of more than fifteen bytes","c":1}"#)),
      ])
    #expect(move.growth(over: root, atMost: 1_000_000) == 0)
  }
}
