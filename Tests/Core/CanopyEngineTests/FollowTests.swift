import CanopyTesting
import CanopyTree
import Synchronization
import Testing

@testable import CanopyEngine

/// Engines adopt the commits of others on the same journal.
@Suite(.timeLimit(.minutes(20))) struct FollowTests {
  @Test func `listeners of every node get each commit once, in one order, with the same numbers`()
    async throws
  {
    try await withNodes { nodes in
      let replicas = nodes.engines.map { _ in
        EventForm.allCases.map { Replica(Listening(.root, form: $0)) }
      }
      for (engine, replicas) in zip(nodes.engines, replicas) {
        for replica in replicas { _ = await replica.start(engine) }
      }
      for number in 1...30 {
        try await nodes.engines[number % 3].set("log/\(number)", Node(Int64(number)))
      }
      try await nodes.waitUntilQuiet()
      for (engine, replicas) in zip(nodes.engines, replicas) {
        // The notifications of a commit are made on the engine's thread.
        _ = try await engine.transact { _ in Decision(nil, ()) }
        for replica in replicas {
          #expect(replica.problem(engine.root) == nil)
          #expect(replica.sequences == Array(0...30))
        }
      }
      #expect(Set(nodes.engines.map { $0.root.hash }).count == 1)
    }
  }

  @Test func `a lost message costs one poll interval`() async throws {
    let waits = StepClock()
    try await withDeafNodes(waits: waits, followAfter: .milliseconds(250)) { nodes in
      try await nodes.engines[0].set("n", 1)
      #expect(nodes.engines[1].snapshot.sequence == 0)
      waits.advance(by: .milliseconds(249))
      #expect(nodes.engines[1].snapshot.sequence == 0)
      waits.advance(by: .milliseconds(1))
      try await eventually { nodes.engines[1].snapshot.sequence == 1 }
      #expect(nodes.engines[1].value("n") == 1)
    }
  }

  @Test func `a reader waits for a commit of another node, and not for ever`() async throws {
    let waits = StepClock()
    try await withDeafNodes(waits: waits, followAfter: .seconds(1_000)) { nodes in
      let sequence = try await nodes.engines[0].set("n", 1)
      try await nodes.engines[1].wait(for: sequence, atMost: .seconds(2))
      #expect(nodes.engines[1].value("n") == 1)
      // The node has the commit already.
      try await nodes.engines[1].wait(for: sequence, atMost: .zero)
      let late = Task { try await nodes.engines[1].wait(for: 2, atMost: .seconds(3)) }
      try await eventually { waits.sleeps.contains(.seconds(3)) }
      waits.advance(by: .seconds(3))
      await #expect(throws: EngineError.behind) { try await late.value }
    }
  }

  @Test func `a commit is in force when the batch observers have its snapshot, and not before`()
    async throws
  {
    try await withNodes(offsets: [0, 0]) { nodes in
      let observers = nodes.engines.map { InForceObserver($0) }
      for (engine, observer) in zip(nodes.engines, observers) { _ = engine.add(observer) }
      for number in 1...20 {
        let sequence = try await nodes.engines[number % 2].set("n", Node(Int64(number)))
        #expect(nodes.engines[number % 2].isInForce(sequence))
      }
      try await nodes.waitUntilQuiet()
      for (engine, observer) in zip(nodes.engines, observers) {
        #expect(observer.found.withLock { $0 }.allSatisfy { !$0 })
        #expect(!observer.found.withLock { $0 }.isEmpty)
        #expect(engine.isInForce(20) && !engine.isInForce(21))
      }
    }
  }

  @Test func `an engine that is alone on its journal does not wait for a missing commit`()
    async throws
  {
    try await withEngine { engine in
      try await engine.set("n", 1)
      try await engine.wait(for: 1, atMost: .seconds(60))
      await #expect(throws: EngineError.behind) {
        try await engine.wait(for: 2, atMost: .seconds(60))
      }
    }
  }

  @Test func `a wait for a commit ends when the engine stops`() async throws {
    try await withNodes(offsets: [0], waits: StepClock()) { nodes in
      let wait = Task { try await nodes.engines[0].wait(for: 1, atMost: .seconds(60)) }
      try await eventually { nodes.engines[0].state.withLock { !$0.sequenceWaits.isEmpty } }
      nodes.engines[0].stop()
      await #expect(throws: EngineError.behind) { try await wait.value }
    }
  }

  @Test func `a client resumes on another node over the commits of all`() async throws {
    try await withNodes(offsets: [0, 0]) { nodes in
      let replica = Replica(Listening(.root, form: .child))
      let id = try #require(await replica.start(nodes.engines[0]))
      try await nodes.engines[1].set("a", 1)
      try await nodes.waitUntilQuiet()
      try await eventually { replica.sequences.last == 1 }
      replica.leave(nodes.engines[0], id)
      try await nodes.engines[0].set("b", 1)
      try await nodes.engines[1].set("a", .absent)
      try await nodes.waitUntilQuiet()
      let (_, isAnew) = try #require(try await replica.resume(nodes.engines[1]))
      #expect(!isAnew)
      #expect(replica.problem(nodes.engines[1].root) == nil)
    }
  }

  @Test func `a node that is behind what the journal keeps loads the tree again`() async throws {
    let waits = StepClock()
    try await withDeafNodes(waits: waits, followAfter: .seconds(1_000)) { nodes in
      let replicas = EventForm.allCases.map { Replica(Listening(.root, form: $0)) }
      for replica in replicas { _ = await replica.start(nodes.engines[1]) }
      let events = Answers<Int64?>()
      _ = nodes.engines[1].takeMarks { event in
        if case .reloaded(let rules) = event { events.add(rules?.sequence) }
      }
      for number in 1...9 { try await nodes.engines[0].set("n\(number)", 1) }
      nodes.memory.forget(through: 8)
      try await nodes.engines[1].wait(for: 9, atMost: .seconds(60))
      #expect(nodes.engines[1].root == nodes.engines[0].root)
      _ = try await nodes.engines[1].transact { _ in Decision(nil, ()) }
      for replica in replicas {
        #expect(replica.problem(nodes.engines[1].root) == nil)
        #expect(replica.sequences == [0, 9])
      }
      #expect(events.values == [nil])
      // A lost race also makes a node load the tree again.
      try await nodes.engines[0].set("m", 1)
      nodes.memory.forget(through: 10)
      #expect(try await nodes.engines[1].increment("m") == 2)
    }
  }

  @Test
  func
    `an observer of commits gets those of all nodes in order, and a tree that was loaded again as one`()
    async throws
  {
    try await withDeafNodes(waits: StepClock()) { nodes in
      let observer = CommitLog(nodes.engines[1])
      try await nodes.engines[0].set("a", 1)
      try await nodes.engines[0].set("b", 2)
      try await nodes.engines[1].wait(for: 2, atMost: .seconds(60))
      try await nodes.engines[1].set("c", 3)
      #expect(try observer.locations == ["a", "b", "c"].map { try Location($0) })
      #expect(observer.root == nodes.engines[1].root)
      for number in 1...9 { try await nodes.engines[0].set("n\(number)", 1) }
      nodes.memory.forget(through: 11)
      try await nodes.engines[1].wait(for: 12, atMost: .seconds(60))
      #expect(observer.locations.suffix(1) == [Location(.root)])
      #expect(observer.root == nodes.engines[0].root)
      #expect(observer.gaps == 0)
    }
  }

  @Test func `a mark is in force on all nodes before any later commit is decided or adopted`()
    async throws
  {
    try await withNodes { nodes in
      // The rules in force on each node, with the number of its last commit when they came.
      let marks = nodes.engines.map { _ in Answers<[Int64]>() }
      for (engine, marks) in zip(nodes.engines, marks) {
        _ = engine.takeMarks { [weak engine] event in
          guard case .marked(.rules(let text), let sequence) = event, let engine else { return }
          marks.add([Int64(text?.utf8.count ?? 0), sequence, engine.snapshot.sequence])
        }
      }
      try await withThrowingTaskGroup(of: Void.self) { group in
        for (index, engine) in nodes.engines.enumerated() {
          group.addTask {
            for number in 0..<20 {
              if number % 5 == index {
                _ = try await engine.commit(
                  .rules(String(repeating: "x", count: index * 20 + number)))
              }
              try await engine.increment("n")
            }
          }
        }
        try await group.waitForAll()
      }
      try await nodes.waitUntilQuiet()
      for engine in nodes.engines { _ = try await engine.transact { _ in Decision(nil, ()) } }
      let expected = nodes.memory.commits.compactMap { commit -> [Int64]? in
        guard case .rules(let text?) = commit.note?.mark else { return nil }
        return [Int64(text.utf8.count), commit.sequence, commit.sequence]
      }
      #expect(expected.count == 12)
      for marks in marks { #expect(marks.values == expected) }
      #expect(nodes.memory.commits.folded() == json(#"{"n":60}"#))
    }
  }

  @Test func `a new node starts with the rules that the journal has in force`() async throws {
    let memory = SharedMemory()
    try await withNodes(memory, offsets: [0]) { nodes in
      _ = try await nodes.engines[0].commit(.rules("old"))
      _ = try await nodes.engines[0].commit(.rules("new"))
      try await nodes.engines[0].set("n", 1)
    }
    try await withNodes(memory, offsets: [0]) { nodes in
      let start = nodes.engines[0].takeMarks { _ in }
      #expect(start.rules == JournaledRules(text: "new", sequence: 2))
      #expect(start.sequence == 3)
    }
  }

  @Test func `indexes that are built while others write are complete`() async throws {
    try await withNodes(offsets: [0, 0]) { nodes in
      try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask {
          for number in 0..<200 {
            try await nodes.engines[0].set("list/\(number)/rank", Node(Int64(-number)))
          }
        }
        group.addTask {
          var plan = IndexPlan()
          plan.declare(.child(try Path("rank")), at: ["list"])
          try await nodes.engines[1].keepIndexes(of: plan)
        }
        try await group.waitForAll()
      }
      try await nodes.waitUntilQuiet()
      let list = nodes.engines[1].value("list")
      let query = try Query(order: .child(try Path("rank")), limit: .first(3))
      #expect(query.isIndexed(in: list))
      #expect(query.children(of: list).map { $0.key.text } == ["199", "198", "197"])
      #expect(nodes.engines[1].root.brokenInvariant() == nil)
    }
  }

  @Test func `the note of a commit reads back, and one of a later version is refused`() throws {
    let marks: [CommitMark?] = [
      nil, .rules(nil), .rules("{\"rules\":{}}\n"), .account(uid: "u"),
      .account(uid: "é"),
    ]
    for mark in marks {
      for keyTime in [nil, 0, Int64(1) << 47] {
        let note = CommitNote(writer: .min, keyTime: keyTime, mark: mark)
        #expect(try CommitNote(text: note.text) == note)
      }
    }
    for text in [
      "", "{}", "1", #"{"writer":"x"}"#, #"{"writer":"1","later":true}"#,
      #"{"writer":"1","rules":1}"#, #"{"writer":"1","rules":"","initialRules":true}"#,
    ] {
      #expect(throws: JournalError.self) { try CommitNote(text: text) }
    }
  }
}

/// Notes whether each snapshot that it gets is in force already.
private final class InForceObserver: BatchObserver {
  private let engine: Engine
  let found = Mutex<[Bool]>([])

  init(_ engine: Engine) { self.engine = engine }

  func batchEnded(_ snapshot: Snapshot) {
    let isInForce = engine.isInForce(snapshot.sequence)
    found.withLock { $0.append(isInForce) }
  }
}

/// Keeps the locations that an observer of commits receives, and checks that the trees follow each other.
private final class CommitLog: CommitObserver {
  private struct State {
    var locations: [Location] = []
    var root: Node?
    var gaps = 0
  }

  private let state = Mutex(State())

  init(_ engine: Engine) {
    state.withLock { $0.root = engine.add(self).root }
  }

  var locations: [Location] { state.withLock { $0.locations } }
  var root: Node? { state.withLock { $0.root } }
  /// The number of commits that did not begin at the tree after the last ones.
  var gaps: Int { state.withLock { $0.gaps } }

  func committed(_ commits: [Commit], from before: Node, to after: Node) {
    state.withLock { state in
      if state.root != before { state.gaps += 1 }
      state.root = after
      state.locations += commits.flatMap(\.assignments).map(\.location)
    }
  }
}
