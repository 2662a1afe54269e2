import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyEngine

/// The bounds on the assignments of one commit, whatever they follow from.
@Suite(.timeLimit(.minutes(20))) struct CommitSizeTests {
  /// Runs a test with an engine whose commits have bounds.
  private func withBounds(
    locations: Int = .max, bytes: Int = .max, _ journal: InMemoryJournal = InMemoryJournal(),
    _ body: @escaping @Sendable (Engine) async throws -> Void
  ) async throws {
    var configuration = Engine.Configuration.forTests
    configuration.commitLocationsMax = locations
    configuration.commitBytesMax = bytes
    try await withEngine(journal, configuration: configuration, body)
  }

  /// Makes a write.
  private func make(
    _ items: [(String, String)], derive: [(String, String)]? = nil, in engine: Engine
  ) async throws {
    let write = try Write(
      items.map { .init(try Location($0.0), try WriteValue(json: $0.1)) })
    let derived = try derive?.map { Assignment(try Location($0.0), try Node(json: $0.1)) }
    _ = try await engine.transact { _ in
      Decision(write, (), policy: derived.map { derived in TestPolicy(derive: { _ in derived }) })
    }
  }

  /// Expects that a write is refused and leaves no trace.
  private func expectRefusal(_ engine: Engine, _ write: () async throws -> Void) async {
    let before = engine.snapshot
    await #expect(throws: EngineError.commitTooLarge) { try await write() }
    #expect(engine.snapshot.sequence == before.sequence && engine.root == before.root)
    #expect(engine.root.brokenInvariant() == nil)
  }

  @Test func `a commit has the bytes of its bound, and no more`() async throws {
    let text = #"[[["a"],"0123456789"],[["b"],1]]"#
    for isAllowed in [true, false] {
      let journal = InMemoryJournal()
      try await withBounds(bytes: text.utf8.count - (isAllowed ? 0 : 1), journal) { engine in
        let write = { try await make([("a", #""0123456789""#), ("b", "1")], in: engine) }
        guard isAllowed else { return await expectRefusal(engine, write) }
        try await write()
        #expect(engine.root == json(#"{"a":"0123456789","b":1}"#))
      }
      #expect(journal.commits.count == (isAllowed ? 1 : 0))
    }
  }

  @Test func `a commit has the locations of its bound, and no more`() async throws {
    try await withBounds(locations: 2) { engine in
      try await make([("a", "1"), ("b", "2")], in: engine)
      await expectRefusal(engine) {
        try await make([("a", "3"), ("b", "4"), ("c", "5")], in: engine)
      }
      // The engine goes on.
      try await make([("c", "5")], in: engine)
      #expect(engine.root == json(#"{"a":1,"b":2,"c":5}"#))
    }
  }

  @Test func `locations that follow from a write count`() async throws {
    try await withBounds(locations: 2) { engine in
      try await make([("a", "1")], derive: [("a", "1"), ("copy", "1")], in: engine)
      await expectRefusal(engine) {
        try await make(
          [("a", "2")], derive: [("a", "2"), ("copy", "2"), ("other", "2")], in: engine)
      }
      #expect(engine.root == json(#"{"a":1,"copy":1}"#))
    }
  }

  @Test func `the priorities above a write count`() async throws {
    let tree = #"{"a":{"b":{"c":1,".priority":2},".priority":1}}"#
    for locations in [3, 2] {
      try await withBounds(locations: locations) { engine in
        try await make([("a", try Node(json: tree).child("a").json(.export))], in: engine)
        let write = { try await make([("a/b/c", "2")], in: engine) }
        guard locations == 3 else { return await expectRefusal(engine, write) }
        try await write()
        #expect(engine.value("a/b/c") == 2)
      }
    }
  }

  @Test
  func `a commit has the priorities of their bound besides one for each location, and no more`()
    async throws
  {
    // 16 further priorities follow from each location.
    let (count, depth) = (Limits.commitPrioritiesMax / 16, 17)
    var chain: Node = 1
    for _ in 0..<depth { chain = Node(children: [("k", chain)]).withPriority(1) }
    let chains = Node(children: (0..<count).map { (Key(index: Int32($0)), chain) })
    let below = String(repeating: "/k", count: depth)
    let update = (0..<count).map { ("a/\($0)\(below)", "2") }
    for isAllowed in [true, false] {
      let journal = InMemoryJournal()
      try await withBounds(journal) { engine in
        try await engine.set("a", isAllowed ? chains : chains.withPriority(1))
        let group = {
          let write = try Write(
            update.map { .init(try Location($0.0), try WriteValue(json: $0.1)) })
          let small = try Write([.init(try Location("b"), WriteValue(1))])
          return [[Decision(small, ()), Decision(write, ())]]
        }
        guard isAllowed else {
          await expectRefusal(engine) { try await make(update, in: engine) }
          // The same assignments may follow from a small write, and may be an on-disconnect write.
          await expectRefusal(engine) { try await make([("b", "1")], derive: update, in: engine) }
          let decisions = try group()
          let outcome = await withCheckedContinuation { continuation in
            engine.submit(decisions) { continuation.resume(returning: $0) }
          }
          #expect(outcome.errors.mapValues { $0 as? EngineError } == [1: .commitTooLarge])
          #expect(engine.value("b") == 1 && engine.value("a/7\(below)") == 1)
          return
        }
        try await make(update, in: engine)
        #expect(engine.value("a/7\(below)") == 2)
      }
      if isAllowed {
        #expect(journal.commits.last?.assignments.count == count + count * depth)
      }
    }
  }

  @Test func `paths of priorities count, many times longer than the write`() async throws {
    let keys = (0..<30).map { String(repeating: "k", count: 100) + "\($0)" }
    var node: Node = 1
    for key in keys.reversed() {
      node = Node(children: [(try Key(key), node)]).withPriority(1)
    }
    let tree = node
    // The paths have 30 + 29 + … + 1 keys.
    try await withBounds(bytes: 30 * 30 / 2 * 100) { engine in
      try await engine.set("a", tree)
      await expectRefusal(engine) {
        try await make([("a/" + keys.joined(separator: "/"), "2")], in: engine)
      }
    }
  }

  @Test func `server values count with the values that they become`() async throws {
    // The time has 13 digits.
    let text = #"[[["a"],1000000000000]]"#
    for isAllowed in [true, false] {
      try await withBounds(bytes: text.utf8.count - (isAllowed ? 0 : 1)) { engine in
        try await engine.set("n", 1)
        let write = {
          try await make([("a", #"{".sv":{"increment":1000000000000}}"#)], in: engine)
        }
        guard isAllowed else { return await expectRefusal(engine, write) }
        try await write()
        #expect(engine.value("a") == 1_000_000_000_000)
      }
    }
  }

  @Test func `writes that are too large for one commit are made one by one, and one is refused`()
    async throws
  {
    let journal = InMemoryJournal()
    try await withBounds(locations: 2, journal) { engine in
      func decision(_ keys: [String], _ id: DisconnectWriteID) throws -> Decision<Void> {
        Decision(
          try Write(keys.map { .init(try Location($0), WriteValue(1)) }), (),
          completedDisconnectWrite: id)
      }
      let group = [
        try decision(["a", "b"], 1), try decision(["c", "d", "e"], 2), try decision(["f"], 3),
      ]
      let outcome = await withCheckedContinuation { continuation in
        engine.submit([group]) { continuation.resume(returning: $0) }
      }
      #expect(outcome.decided == 3 && outcome.failure == nil)
      #expect(outcome.errors.mapValues { $0 as? EngineError } == [1: .commitTooLarge])
      #expect(engine.root == json(#"{"a":1,"b":1,"f":1}"#))
    }
    #expect(journal.commits.map(\.completedDisconnectWrites) == [[1], [3]])
  }

  @Test func `a text ends soon behind the bound`() throws {
    let value = Node(children: (0..<100_000).map { (Key(index: $0), Node(true)) })
    let assignments = try (0..<10).map { Assignment(try Path("a\($0)"), value) }
    for items in [[Assignment(Path.root, value)], assignments] {
      var output = JSONOutput()
      #expect(!AssignmentCodec.encode(items, to: &output, bytesMax: 1_000))
      #expect(output.count < 1_100)
    }
  }
}
