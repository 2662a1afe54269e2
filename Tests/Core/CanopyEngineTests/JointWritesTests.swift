import CanopyTesting
import CanopyTree
import Synchronization
import Testing

@testable import CanopyEngine

/// Groups of writes that are one commit, such as the on-disconnect writes of a connection.
@Suite(.timeLimit(.minutes(20))) struct JointWritesTests {
  /// Returns a decision that sets a location to JSON, or removes it.
  private func set(
    _ location: String, _ json: String?, completing id: DisconnectWriteID? = nil,
    policy: TestPolicy? = nil
  ) throws -> Decision<Void> {
    let value = try json.map { try WriteValue(json: $0) } ?? WriteValue(.absent)
    return Decision(
      try .set(Location(location), value), (), completedDisconnectWrite: id, policy: policy)
  }

  private func submit(_ groups: [[Decision<Void>]], to engine: Engine) async -> WritesOutcome {
    await withCheckedContinuation { continuation in
      engine.submit(groups) { continuation.resume(returning: $0) }
    }
  }

  @Test func `a group is one commit and one event, with each write on the tree after those before`()
    async throws
  {
    let store = InMemoryJournal()
    let clock = ManualClock()
    try await withEngine(store, clock: clock) { engine in
      try await engine.set("a", json(#"{"n":1,"old":true}"#))
      let replica = Replica(Listening(.root, form: .value))
      let id = try #require(await replica.start(engine))
      let now = #"{".sv":"timestamp"}"#
      let outcome = await submit(
        [
          [
            try set("a/n", #"{".sv":{"increment":2}}"#, completing: 7),
            try set("a", #"{"at":\#(now),"m":5}"#, completing: 8),
            try set("a/m", #"{".sv":{"increment":2}}"#, completing: 9),
            try set("b/at", now, completing: 12),
          ], [try set("c", "1", completing: 13)],
        ], to: engine)
      #expect(outcome == WritesOutcome(decided: 5))
      let time = clock.now
      #expect(engine.root == json(#"{"a":{"at":\#(time),"m":7},"b":{"at":\#(time)},"c":1}"#))
      replica.leave(engine, id)
      #expect(replica.problem(engine.root) == nil)
      #expect(replica.sequences == [1, 2, 3])
    }
    #expect(store.commits.map(\.completedDisconnectWrites) == [[], [7, 8, 9, 12], [13]])
    #expect(store.commits[1].assignments.map(\.location.text) == ["a", "b/at"])
    #expect(store.groups == [1, 2])
  }

  @Test func `a refused write of a group leaves no trace, and the commit removes it as well`()
    async throws
  {
    let store = InMemoryJournal()
    try await withEngine(store) { engine in
      let seen = Answers<Node>()
      let denies = TestPolicy(allows: { write in
        seen.add(write.before)
        return false
      })
      let throwing = TestPolicy(derive: { _ in throw Refusal() })
      let outcome = await submit(
        [
          [
            try set("a/x", "1", completing: 1), try set("a", "2", completing: 2, policy: denies),
            try set("c", "3", completing: 3, policy: throwing), try set("a/y", "4", completing: 4),
          ]
        ], to: engine)
      #expect(outcome == WritesOutcome(decided: 4, denied: [1, 2]))
      #expect(outcome.errors[1] as? EngineError == .denied)
      #expect(outcome.errors[2] as? Refusal == Refusal())
      #expect(seen.values == [json(#"{"a":{"x":1}}"#)])
      #expect(engine.root == json(#"{"a":{"x":1,"y":4}}"#))
      let none = await submit(
        [[try set("a", "2", policy: denies), try set("a", "3", policy: denies)]], to: engine)
      #expect(none == WritesOutcome(decided: 2, denied: [0, 1]))
    }
    #expect(store.commits.map(\.completedDisconnectWrites) == [[1, 2, 3, 4]])
  }

  @Test func `data that follow from a write of a group are seen by the next one`() async throws {
    try await withEngine { engine in
      let counting = TestPolicy(derive: { write in
        let count = write.after.child("list").childCount
        return [Assignment(try Path("count"), Node(Int64(count)))] + write.assignments
      })
      let limited = TestPolicy(allows: { $0.before.child("count").integerValue ?? 0 < 2 })
      let outcome = await submit(
        [
          [
            try set("list/a", "1", policy: counting), try set("list/b", "1", policy: limited),
            try set("list/c", "1", policy: counting), try set("list/d", "1", policy: limited),
          ]
        ], to: engine)
      #expect(outcome == WritesOutcome(decided: 4, denied: [3]))
      #expect(engine.root == json(#"{"count":3,"list":{"a":1,"b":1,"c":1}}"#))
    }
  }

  @Test(arguments: [
    // A leaf became a branch and was removed: it does not come back.
    (#"{"a":5}"#, ["a/c", "a/c"], ["1", nil], "null"),
    // A branch lost its priority with its last child.
    (#"{"a":{".priority":3,"b":1}}"#, ["a/b", "a/c"], [nil, "2"], #"{"a":{"c":2}}"#),
    (
      #"{"a":{".priority":3,"b":1}}"#, ["a/c", "a/b"], ["2", nil], #"{"a":{".priority":3,"c":2}}"#
    ),
    // A priority without a node has no effect.
    ("null", ["a/.priority", "a/b"], ["4", "1"], #"{"a":{"b":1}}"#),
    (#"{"a":{"b":1}}"#, ["a/.priority", "a/b"], ["4", nil], "null"),
  ])
  func `a group leads to the tree that its writes lead to one after the other`(
    before: String, places: [String], values: [String?], after: String
  ) async throws {
    let store = InMemoryJournal()
    try await withEngine(store) { engine in
      try await engine.set("", json(before))
      _ = await submit([try zip(places, values).map { try set($0, $1) }], to: engine)
      #expect(engine.root == json(after))
      #expect(engine.root.brokenInvariant() == nil)
      #expect(store.commits.folded() == engine.root && store.commits.count == 2)
    }
  }

  @Test func `random groups lead to the tree of a model that makes each write by itself`()
    async throws
  {
    let random = SeededGenerator(printingSeedFor: "JointWritesTests.random")
    let store = InMemoryJournal()
    let clock = ManualClock()
    try await withEngine(store, clock: clock) { engine in
      var random = random
      var writes = RandomWrites()
      writes.keysMax = 3
      writes.depthMax = 3
      writes.bigOnceIn = 1_000
      let policy = TestPolicy(allows: { $0.after.child("a").childCount < 3 })
      var model = ModelTree()
      let replica = Replica(Listening(.root, form: .value))
      let id = try #require(await replica.start(engine))
      for round in 0..<200 {
        var decisions: [Decision<Void>] = []
        var denied: [Int] = []
        for index in 0..<Int.random(in: 2...6, using: &random) {
          var write = writes.next(&random)
          if random.oneIn(4), let place = write.items.first?.location {
            write = try .set(place, WriteValue(json: #"{".sv":{"increment":\#(round)}}"#))
          }
          decisions.append(Decision(write, (), policy: policy))
          let (before, assignments) = (model, write.resolved(in: model.root, at: clock.now))
          model.apply(assignments)
          if model.root.child("a").childCount >= 3 {
            model = before
            denied.append(index)
          }
        }
        let outcome = await submit([decisions], to: engine)
        #expect(outcome == WritesOutcome(decided: decisions.count, denied: denied))
        #expect(engine.root == model.root, "round \(round)")
        if engine.root != model.root { return }
      }
      #expect(engine.root.brokenInvariant() == nil)
      #expect(store.commits.folded() == engine.root)
      // A run of commits may be applied again, whatever part of their effect is there already.
      #expect(store.commits.folded(onto: engine.root) == engine.root)
      #expect(store.commits.count <= 200)
      replica.leave(engine, id)
      #expect(replica.problem(engine.root) == nil)
      var tree = Tree(root: engine.root)
      for commit in store.commits.reversed() { tree.apply(try #require(commit.beforeImage)) }
      #expect(tree.root.isAbsent, "the before-images undo the commits")
    }
  }

  @Test func `a group with a write that does not read back is made singly, without that one`()
    async throws
  {
    let store = InMemoryJournal()
    try await withEngine(store) { engine in
      let unreadable = WriteValue(Node(1).withPriority(true))
      let decisions = [
        try set("a", "1", completing: 1),
        Decision(try .set(Location("b"), unreadable), (), completedDisconnectWrite: 2),
        try set("a/c", "3", completing: 3),
      ]
      let outcome = await submit([decisions], to: engine)
      #expect(outcome == WritesOutcome(decided: 3, denied: [1]))
      #expect(outcome.errors[1] as? EngineError == .unstorable)
      #expect(engine.root == json(#"{"a":{"c":3}}"#))
    }
    #expect(store.commits.map(\.completedDisconnectWrites) == [[1], [3]])
  }

  @Test(arguments: [false, true])
  func `when the journal fails, a group is made as a whole or not at all`(isMade: Bool)
    async throws
  {
    let journal = FaultyJournal()
    try await withEngine(journal) { engine in
      journal.plan(isMade ? .failAfter : .failBefore)
      let group = try ["a", "b", "c"].map { try set($0, "1") }
      let outcome = await submit([group], to: engine)
      #expect(
        outcome
          == (isMade ? WritesOutcome(decided: 3) : WritesOutcome(failure: .journalFailed)))
      #expect(engine.root == (isMade ? json(#"{"a":1,"b":1,"c":1}"#) : .absent))
    }
    #expect(journal.count <= 1)
  }

  @Test func `a group that takes long is several commits of whole writes, in their order`()
    async throws
  {
    let store = InMemoryJournal()
    let time = Setting()
    var configuration = Engine.Configuration()
    configuration.threadTime = {
      time.advance(.microseconds(2_700))
      return time.elapsed()
    }
    try await withEngine(store, configuration: configuration) { engine in
      let group = try (0..<7).map { try set("k\($0)", "{\"x\":1,\"y\":2}") }
      #expect(await submit([group], to: engine) == WritesOutcome(decided: 7))
      #expect(engine.root.childCount == 7)
    }
    // Two writes take 5.4 milliseconds, and three 8.1.
    #expect(
      store.commits.map { $0.assignments.map(\.location.text) } == [
        ["k0", "k1", "k2"], ["k3", "k4", "k5"], ["k6"],
      ])
  }

  @Test
  func `the writes that are made singly have a bound on their time, and the others are one commit`()
    async throws
  {
    let store = InMemoryJournal()
    // The decision of all writes together takes eight looks and no time, then each look takes four milliseconds.
    let looks = Mutex(0)
    var configuration = Engine.Configuration()
    configuration.threadTime = {
      looks.withLock { looks in
        looks += 1
        return .milliseconds(4 * max(0, looks - 8))
      }
    }
    try await withEngine(store, configuration: configuration) { engine in
      var group = try (0..<7).map { try set("k\($0)", "{\"x\":1,\"y\":2}") }
      let unreadable = WriteValue(Node(1).withPriority(true))
      group[1] = Decision(try .set(Location("k1"), unreadable), ())
      let outcome = await submit([group], to: engine)
      #expect(outcome == WritesOutcome(decided: 7, denied: [1]))
      #expect(engine.root.childCount == 6)
    }
    #expect(
      store.commits.map { $0.assignments.map(\.location.text) } == [
        ["k0"], ["k2", "k3"], ["k4", "k5"], ["k6"],
      ])
  }

  @Test func `reading back the commit of a large group compares each location with few others`()
    async throws
  {
    func compared(_ children: Int) async throws -> Int {
      var configuration = Engine.Configuration()
      configuration.threadTime = { .zero }
      return try await WorkCounter.counting { [configuration] counter in
        try await withEngine(configuration: configuration) { engine in
          let group = try (0..<8).map { number in
            let items = try (0..<children).map {
              Write.Item(try Path("a/b/c/d/e\(number)/\($0)"), Node(Int64($0 % 4)))
            }
            return Decision(try Write(items), ())
          }
          #expect(await submit([group], to: engine) == WritesOutcome(decided: 8))
          #expect(engine.snapshot.sequence == 1)
          return counter.locationsCompared
        }
      }
    }
    let (few, many) = (try await compared(8), try await compared(128))
    #expect(few >= 8 * 8 && many <= 16 * few + 8 * 128)
    #expect(many <= 10 * 8 * 128)
  }

  @Test func `a commit of a group has fewer locations if they are in indexes`() async throws {
    func commits(indexes: Int) async throws -> Int {
      var configuration = Engine.Configuration()
      configuration.threadTime = { .zero }
      for order in ["x", "y", "z"].prefix(indexes) {
        configuration.indexPlan.declare(.child(try Path(order)), at: ["a"])
      }
      return try await withEngine(configuration: configuration) { engine in
        let group = try (0..<16).map { number in
          let items = try (0..<64).map { Write.Item(try Path("a/\(64 * number + $0)"), 1) }
          return Decision(try Write(items), ())
        }
        #expect(await submit([group], to: engine) == WritesOutcome(decided: 16))
        return Int(engine.snapshot.sequence)
      }
    }
    #expect(try await commits(indexes: 0) == 1)
    #expect(try await commits(indexes: 3) == 4)
  }

  @Test func `a write with more entries than a commit of a group may have is made alone`()
    async throws
  {
    try await withEngine(configuration: Engine.Configuration()) { engine in
      func write(_ count: Int, at path: String) throws -> Decision<Void> {
        Decision(try Write(try (0..<count).map { Write.Item(try Path("\(path)/\($0)"), 1) }), ())
      }
      let max = Engine.jointMax.entries
      let group = [
        try write(max + 1, at: "a"), try write(1, at: "b"), try write(max - 1, at: "c"),
        try write(1, at: "d"), try write(max + 1, at: "e"), try write(1, at: "f"),
      ]
      #expect(await submit([group], to: engine) == WritesOutcome(decided: 6))
      #expect(engine.snapshot.sequence == 5)
      #expect(engine.root.childCount == 6)
    }
  }

  @Test func `a commit of a group ends with the write that reaches its size`() throws {
    func isFull(_ assignments: [Assignment], entries: Int = 1) throws -> Bool {
      var joint = JointWrite()
      joint.add([Assignment(try Path("x"), 1)], replacing: [], entries: 1)
      joint.add(assignments, replacing: [], entries: entries)
      return joint.isFull
    }
    #expect(try isFull([], entries: Engine.jointMax.entries - 1))
    #expect(try !isFull([], entries: Engine.jointMax.entries - 2))
    for (count, isLarge) in [(Engine.jointMax.bytes, true), (Engine.jointMax.bytes - 100, false)] {
      let text = Node(String(repeating: "x", count: count))
      #expect(try isFull([Assignment(try Path("y"), text)]) == isLarge)
    }
  }
}
