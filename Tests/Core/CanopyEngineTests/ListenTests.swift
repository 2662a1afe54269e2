import CanopyEngine
import CanopyTesting
import CanopyTree
import Testing

@Suite(.timeLimit(.minutes(20))) struct ListenTests {
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
      for round in 0..<500 {
        if round % 10 == 0 {
          let replica = Replica(try .random(&random))
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
      for round in 0..<400 {
        if round % 20 == 0 {
          let replica = Replica(try .random(&random))
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
          let (id, isAnew) = try #require(try await replica.resume(engine))
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
      #expect(resumptions > 60)
    }
  }

  @Test func `a replica gets the whole state if the journal no longer reaches back to its commit`()
    async throws
  {
    let journal = InMemoryJournal()
    try await withEngine(journal) { engine in
      let replicas = EventForm.allCases.map { Replica(Listening(.root, form: $0)) }
      for replica in replicas {
        let id = try #require(await replica.start(engine))
        engine.unlisten(id)
      }
      for i in 1...10 { try await engine.set("n\(i % 3)", Node(Int64(i))) }
      journal.forget(through: 1)
      for replica in replicas {
        let (id, isAnew) = try #require(try await replica.resume(engine))
        #expect(isAnew)
        #expect(replica.problem(engine.root) == nil)
        engine.unlisten(id)
        // It has the tenth commit now, and the journal has all later ones.
        try await engine.set("later", Node(engine.snapshot.sequence))
        #expect(try await replica.resume(engine)?.isAnew == false)
        #expect(replica.problem(engine.root) == nil)
      }
    }
  }

  @Test func `a client cannot resume from a commit that does not exist yet`() async throws {
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
        // Half of them listen to the root and must see every commit, the others to the place of one writer.
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

  @Test
  func `a listener is notified before the writer gets its answer, and not of a write that fails`()
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
      } completion: { _ in
        order.add("answer")
      }
      _ = await order.wait(for: 3)
      journal.plan(.failBefore)
      await #expect(throws: EngineError.journalFailed) { try await engine.set("a", 2) }
      #expect(order.values == ["start 0", "event 1", "answer"])
      #expect(engine.value("a") == 1)
    }
  }

  @Test func `listeners with the same target share a view, and leave nothing behind`() async throws
  {
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

  @Test func `a listener is not notified of a write that changes nothing for it`() async throws {
    try await withEngine { engine in
      try await engine.set("a", json(#"{"x":1,"y":2}"#))
      let replicas = EventForm.allCases.map {
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

  @Test func `a listener cannot begin when the engine has stopped`() async throws {
    let engine = try await withEngine { engine in
      try await engine.set("a", 1)
      return engine
    }
    #expect(await Replica(Listening(.root)).start(engine) == nil)
    #expect(engine.listenerCounts == (0, 0))
  }
}
