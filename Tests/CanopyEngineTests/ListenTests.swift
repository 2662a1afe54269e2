import CanopyEngine
import CanopyTesting
import CanopyTree
import Synchronization
import Testing

/// What a listener makes of what it is told.
private final class Replica: Sendable {
  struct State {
    var children: [(key: Key, node: Node)] = []
    var arrived: [ChildChange] = []
    var value = Node.absent
    var copy = Tree()
    var sequences: [Int64] = []
    var problem: String?
  }

  let listening: Listening
  private let state = Mutex(State())
  private let started = Answers<ListenerID?>()

  init(_ listening: Listening) {
    self.listening = listening
  }

  /// Begins to listen, and returns when that has begun.
  func start(_ engine: Engine) async -> ListenerID? {
    engine.listen(listening) { [self] in
      take($0)
    } started: { [self] id, start in
      reset(start)
      started.add(id)
    }
    return await started.wait(for: 1).first ?? nil
  }

  private func reset(_ start: ListenStart) {
    state.withLock { state in
      state.children = listening.query.children(of: start.node)
      state.value = listening.query.value(of: start.node)
      state.copy = Tree(root: listening.query.value(of: start.node))
      state.sequences = [start.sequence]
    }
  }

  /// Begins to listen again, with what it has, and is told what it missed.
  ///
  /// - Returns: the id, and whether everything was told anew.
  func resume(_ engine: Engine) async throws -> (id: ListenerID, isAnew: Bool) {
    let starts = Answers<(ListenerID?, ListenStart)>()
    engine.listen(listening) { [self] in
      take($0)
    } started: {
      starts.add(($0, $1))
    }
    let (id, start) = try #require(await starts.wait(for: 1).first)
    let since = try #require(sequences.last)
    let changes = try await engine.changes(since: since, to: start)
    if let changes {
      state.withLock { state in
        state.take(changes)
        state.sequences.append(start.sequence)
      }
    } else {
      reset(start)
    }
    return (try #require(id), changes == nil)
  }

  var sequences: [Int64] { state.withLock { $0.sequences } }

  private func take(_ notification: Notification) {
    state.withLock { state in
      if let last = state.sequences.last, last >= notification.sequence {
        state.problem = "commit \(notification.sequence) came after \(last)"
      }
      state.sequences.append(notification.sequence)
      state.take(notification.events)
    }
  }

  /// What is wrong with the replica, given the tree; nil if nothing is.
  func problem(_ root: Node) -> String? {
    state.withLock { state in
      let node = root.at(listening.path)
      let isRight =
        switch listening.form {
        case .child:
          state.children.elementsEqual(listening.query.children(of: node)) {
            $0.key == $1.key && $0.node == $1.node
          }
        case .value: state.value == listening.query.value(of: node)
        case .sync: state.copy.root == listening.query.value(of: node)
        }
      return state.problem ?? (isRight ? nil : "the replica of \(listening) differs")
    }
  }
}

extension Replica.State {
  mutating func take(_ events: [ListenEvent]) {
    for event in events {
      switch event {
      case .child(let change): take(change)
      case .value(let node): value = node
      case .put(let puts): copy.apply(puts)
      }
    }
    insertArrived()
  }

  /// Children that arrived in this commit wait until all that leave have left.
  mutating func take(_ change: ChildChange) {
    switch change.kind {
    case .removed: children.removeAll { $0.key == change.key }
    case .moved, .added:
      children.removeAll { $0.key == change.key }
      arrived.append(change)
    case .changed:
      if let i = children.firstIndex(where: { $0.key == change.key }) {
        children[i].node = change.node
      }
    }
  }

  mutating func insertArrived() {
    while !arrived.isEmpty {
      let ready = arrived.firstIndex { change in
        change.previous.map { key in children.contains { $0.key == key } } ?? true
      }
      guard let ready else {
        problem = "a neighbour is not there"
        return
      }
      let change = arrived.remove(at: ready)
      let index = change.previous.flatMap { key in children.firstIndex { $0.key == key } }
      children.insert((change.key, change.node), at: index.map { $0 + 1 } ?? 0)
    }
  }
}

@Suite(.timeLimit(.minutes(2))) struct ListenTests {
  private static func listening(_ random: inout SeededGenerator) throws -> Listening {
    let keys = RandomWrites.keys.prefix(4)
    let count = Int.random(in: 0...2, using: &random)
    let path = (0..<count).reduce(Path.root) { path, _ in path.child(random.pick(keys)) }
    let form = random.pick(Listening.Form.allCases)
    if random.oneIn(2) { return Listening(path, form: form) }
    let order: Order = random.pick([.key, .value, .priority, .child(Path.root.child(keys[0]))])
    let n = Int.random(in: 1...3, using: &random)
    let limit: Query.Limit? = random.pick([nil, .first(n), .last(n)])
    var lower: Query.Bound?
    if random.oneIn(3) {
      lower = Query.Bound(.absent, key: random.pick(keys), isInclusive: random.oneIn(2))
    }
    return Listening(path, try Query(order: order, lower: lower, limit: limit), form: form)
  }

  @Test(arguments: [false, true])
  func `every replica equals its query's answer after every commit`(fails: Bool) async throws {
    let random = SeededGenerator(printingSeedFor: "ListenTests.replicas")
    let journal = FaultyJournal(InMemoryJournal())
    try await withEngine(journal) { engine in
      var random = random
      var writes = RandomWrites()
      writes.keysMax = 4
      writes.bigOnceIn = 1000
      var replicas: [(replica: Replica, id: ListenerID)] = []
      for round in 0..<1500 {
        if round % 10 == 0 {
          let replica = Replica(try Self.listening(&random))
          let id = try #require(await replica.start(engine))
          replicas.append((replica, id))
          if replicas.count > 40 { engine.unlisten(replicas.removeFirst().id) }
        }
        if fails, random.oneIn(20) { journal.plan(random.oneIn(2) ? .failBefore : .failAfter) }
        let write = writes.next(&random)
        _ = try? await engine.transact { _ in Decision(write, ()) }
        for (replica, _) in replicas {
          if let problem = replica.problem(engine.root) {
            Issue.record("round \(round): \(problem)")
            return
          }
        }
      }
      for (_, id) in replicas { #expect(engine.unlisten(id)) }
      #expect(engine.listenerCounts == (0, 0))
    }
  }

  @Test(arguments: [1, 2, 3, 4])
  func `a replica that was away and resumes equals one that never left`(turn: Int) async throws {
    let random = SeededGenerator(printingSeedFor: "ListenTests.resuming")
    let journal = InMemoryJournal()
    try await withEngine(journal) { engine in
      var random = random
      var writes = RandomWrites()
      writes.keysMax = 4
      writes.bigOnceIn = 1000
      var present: [(replica: Replica, id: ListenerID)] = []
      var away: [Replica] = []
      var resumptions = 0
      for round in 0..<1000 {
        if round % 20 == 0 {
          let replica = Replica(try Self.listening(&random))
          present.append((replica, try #require(await replica.start(engine))))
        }
        if !present.isEmpty, random.oneIn(3) {
          let (replica, id) = present.remove(at: Int.random(in: present.indices, using: &random))
          engine.unlisten(id)
          away.append(replica)
        }
        let write = writes.next(&random)
        _ = try? await engine.transact { _ in Decision(write, ()) }
        if !away.isEmpty, random.oneIn(3) {
          let replica = away.remove(at: Int.random(in: away.indices, using: &random))
          let (id, isAnew) = try await replica.resume(engine)
          #expect(!isAnew)
          present.append((replica, id))
          resumptions += 1
        }
        for (replica, _) in present {
          if let problem = replica.problem(engine.root) {
            Issue.record("round \(round): \(problem)")
            return
          }
        }
      }
      #expect(resumptions > 200)
    }
  }

  @Test func `where the journal no longer reaches, everything is told anew`() async throws {
    let journal = InMemoryJournal()
    try await withEngine(journal) { engine in
      let replicas = Listening.Form.allCases.map { Replica(Listening(.root, form: $0)) }
      for replica in replicas {
        let id = try #require(await replica.start(engine))
        engine.unlisten(id)
      }
      for i in 1...10 { try await engine.set("n\(i % 3)", Node(Int64(i))) }
      journal.forget(through: 1)
      for replica in replicas {
        let (id, isAnew) = try await replica.resume(engine)
        #expect(isAnew)
        #expect(replica.problem(engine.root) == nil)
        engine.unlisten(id)
        // They have the tenth commit now, and the journal has all that follow.
        try await engine.set("later", Node(engine.snapshot.sequence))
        #expect(try await !replica.resume(engine).isAnew)
        #expect(replica.problem(engine.root) == nil)
      }
    }
  }

  @Test func `nobody can resume from a commit that is yet to come`() async throws {
    try await withEngine { engine in
      let starts = Answers<ListenStart>()
      engine.listen(Listening(.root)) { _ in
      } started: {
        starts.add($1)
      }
      let start = try #require(await starts.wait(for: 1).first)
      #expect(try await engine.changes(since: 0, to: start) == [])
      #expect(try await engine.changes(since: 1, to: start) == nil)
    }
  }

  @Test func `eight writers and a hundred listeners: one order, no gap, nothing twice`()
    async throws
  {
    let commits = 10_000
    try await withEngine { engine in
      let replicas = try (0..<100).map { i in
        // Half of them listen to all, and must see every commit; the others to one writer's.
        let path = i % 2 == 0 ? Path.root : try Path("w\(i % 8)")
        return Replica(Listening(path, form: i % 3 == 0 ? .sync : .value))
      }
      for replica in replicas { _ = await replica.start(engine) }
      await withTaskGroup(of: Void.self) { group in
        for writer in 0..<8 {
          group.addTask {
            for i in 0..<commits / 8 {
              _ = try? await engine.set("w\(writer)", Node(Int64(i)))
            }
          }
        }
      }
      #expect(engine.snapshot.sequence == Int64(commits))
      for replica in replicas {
        #expect(replica.problem(engine.root) == nil)
        let expected = replica.listening.path.isRoot ? commits : commits / 8
        #expect(replica.sequences.count == expected + 1)
        if replica.listening.path.isRoot {
          #expect(replica.sequences == Array(0...Int64(commits)))
        }
      }
    }
  }

  @Test func `a listener is told before the writer is answered, and of nothing that fails`()
    async throws
  {
    let journal = FaultyJournal(InMemoryJournal())
    try await withEngine(journal) { engine in
      let order = Answers<String>()
      engine.listen(Listening(.root, form: .value)) {
        order.add("event \($0.sequence)")
      } started: { _, start in
        order.add("start \(start.sequence)")
      }
      _ = await order.wait(for: 1)
      engine.submit { _ in
        Decision(try .set(Location(try Path("a")), WriteValue(1)), ())
      } answer: { _ in
        order.add("answer")
      }
      _ = await order.wait(for: 3)
      journal.plan(.failBefore)
      await #expect(throws: EngineError.journalFailed) { try await engine.set("a", 2) }
      #expect(order.values == ["start 0", "event 1", "answer"])
      #expect(engine.value("a") == 1)
    }
  }

  @Test func `listeners with one wish share a view, and leave nothing behind`() async throws {
    try await withEngine { engine in
      var ids: [ListenerID] = []
      for i in 0..<1000 {
        let replica = Replica(Listening(try Path("a/b/\(i % 2)"), form: .value))
        ids.append(try #require(await replica.start(engine)))
      }
      #expect(engine.listenerCounts == (1000, 2))
      for id in ids.shuffled() { #expect(engine.unlisten(id)) }
      #expect(engine.listenerCounts == (0, 0))
      #expect(!engine.unlisten(ids[0]))
    }
  }

  @Test func `a write that changes nothing for a listener is not told`() async throws {
    try await withEngine { engine in
      try await engine.set("a", json(#"{"x":1,"y":2}"#))
      let replicas = Listening.Form.allCases.map {
        Replica(Listening(Path.root.child("a"), form: $0))
      }
      for replica in replicas { _ = await replica.start(engine) }
      try await engine.set("a/x", 1)
      try await engine.set("b", 5)
      try await engine.set("a", json(#"{"x":1,"y":2}"#))
      for replica in replicas { #expect(replica.sequences == [1]) }
      try await engine.set("a/x", 2)
      for replica in replicas { #expect(replica.sequences == [1, 5]) }
    }
  }

  @Test func `nobody can begin to listen to an engine that has stopped`() async throws {
    let engine = try await withEngine { engine in
      try await engine.set("a", 1)
      return engine
    }
    #expect(await Replica(Listening(.root)).start(engine) == nil)
    #expect(engine.listenerCounts == (0, 0))
  }
}
