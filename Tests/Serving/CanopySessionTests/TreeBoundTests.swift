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

  private func engine(_ journal: InMemoryJournal) async throws -> Engine {
    try await Engine(
      journal: journal, configuration: .forTests, now: { 0 }, clock: StepClock(), random: { 1 },
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
  func `far below the bound commits add their texts, and nothing is counted before it is near`()
    async throws
  {
    let bytesMax = 200_000
    let bound = TreeBound(bytesMax: bytesMax, logger: log.logger)
    let engine = try await engine(InMemoryJournal())
    let count = TreeCount(of: engine, in: bound)
    let running = Task { await engine.run() }
    #expect(!count.isNear)
    var random = SeededGenerator(printingSeedFor: "the bound of a tree")
    var wasNear = false
    for number in 0..<4_000 {
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
