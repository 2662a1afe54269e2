#if PostgreSQL
  import CanopyEngine
  import CanopyTesting
  import CanopyTree
  import Testing

  @testable import CanopyPostgres

  /// Leases of nodes, and the work that one node at a time does.
  @Suite(.timeLimit(.minutes(20)), .enabled(if: Database.url != nil, Database.isMissing))
  struct NodeTests {
    private func add(_ store: PostgresStore, _ request: String) async throws -> DisconnectWriteID {
      try #require(
        try await store.changeDisconnectWrites(
          adding: ("u", request), exceptions: [:], removing: []))
    }

    private func claim(_ store: PostgresStore) async throws -> [DisconnectWriteID] {
      try await store.takeOverDisconnectWrites(countMax: .max, bytesMax: .max).map(\.id)
    }

    @Test func `the writes of a dead node are taken over by exactly one other`() async throws {
      try await withNodes(["a", "b", "c", "d"]) { stores async throws in
        var ids: [DisconnectWriteID] = []
        for number in 0..<20 { ids.append(try await add(stores[0], "r\(number)")) }
        let own = try await add(stores[1], "own")
        #expect(try await claim(stores[1]) == [])
        try await stores[0].damage(
          """
          UPDATE canopy.nodes SET expires = clock_timestamp() - interval '1 second'
          WHERE namespace = $1 AND node = 'a'
          """)
        #expect(try await stores[1].liveNodes() == ["b", "c", "d"])
        let claimed = try await withThrowingTaskGroup(of: [DisconnectWriteID].self) { group in
          for store in stores[1...] { group.addTask { try await claim(store) } }
          return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(claimed.filter { !$0.isEmpty } == [ids])
        #expect(try await stores[0].disconnectWrites().isEmpty)
        var all: [DisconnectWriteID] = []
        for store in stores { all += try await store.disconnectWrites().map(\.id) }
        #expect(all.sorted() == (ids + [own]).sorted())
        // The node was only slow. It cannot make the writes any more.
        var commit = try commit(1, "n", 1)
        commit.completedDisconnectWrites = [ids[3], ids[1]]
        do {
          try await stores[0].append([commit], after: 0)
          Issue.record("the append has succeeded")
        } catch JournalError.disconnectWritesTaken(let taken) {
          #expect(taken == [ids[1], ids[3]])
        }
        commit.completedDisconnectWrites = []
        try await stores[0].append([commit], after: 0)
      }
    }

    @Test func `a node that starts again has the writes of its earlier life`() async throws {
      let namespace = Database.namespace()
      let id = try await withNodes(["a"], namespace: namespace) { try await add($0[0], "r") }
      try await withNodes(["a"], namespace: namespace) { stores async throws in
        #expect(try await stores[0].disconnectWrites().map(\.id) == [id])
      }
      // A closed node needs no time to count as dead.
      try await withNodes(["b"], namespace: namespace) { stores async throws in
        #expect(try await claim(stores[0]) == [id])
        #expect(try await stores[0].disconnectWrites().map(\.request) == ["r"])
      }
    }

    @Test func `one node folds at a time, and another one goes on when its lease has run out`()
      async throws
    {
      let namespace = Database.namespace()
      let gate = Gate()
      let reached = Gate()
      var configuration = Database.configuration(namespace)
      configuration.checkpointStepRows = 1
      configuration.afterStep = {
        reached.open()
        await gate.pass()
      }
      let a = try await PostgresStore(configuration)
      try await withNodes(["b"], namespace: namespace) { stores async throws in
        let b = stores[0]
        let commits = try (1...30).map { try commit($0, "n/\($0 % 7)", Node($0)) }
        try await a.append(Array(commits[..<20]), after: 0)
        let folding = Task { try await a.checkpoint(commits[..<20].folded(), through: 20) }
        await reached.pass()
        try await b.append(Array(commits[20...]), after: 20)
        // Another node folds.
        try await b.checkpoint(commits.folded(), through: 30)
        #expect(try await b.load().checkpoint == 0)
        try await b.damage(
          """
          UPDATE canopy.checkpoints SET folder_expires = clock_timestamp() - interval '1 second'
          WHERE namespace = $1
          """)
        // A tree that is older than one from which rows were written must not be folded.
        try await b.checkpoint(commits[..<19].folded(), through: 19)
        #expect(try await b.load().checkpoint == 0)
        try await b.checkpoint(commits.folded(), through: 30)
        #expect(try await b.load().checkpoint == 30)
        gate.open()
        try await folding.value
        let state = try await b.load()
        #expect(state.checkpoint == 30 && state.tree.root == commits.folded())
        #expect(try await b.problems().isEmpty)
      }
      await a.close()
    }

    @Test func `a path that is longer than an index allows is folded and read`() async throws {
      try await withNodes(["a"]) { stores async throws in
        let long = String(repeating: "k", count: 768)
        let path = Array(repeating: long, count: 10).joined(separator: "/")
        let text = Node(String(repeating: "v", count: 9_000))
        let commits = try [
          commit(1, path + "/a", text), commit(2, path + "/b", text), commit(3, path + "/c", 3),
          commit(4, path + "/a", .absent), commit(5, path + "/.priority", 5),
        ]
        for (index, commit) in commits.enumerated() {
          try await stores[0].append([commit], after: Int64(index))
          let root = commits[...index].folded()
          try await stores[0].checkpoint(root, through: Int64(index + 1))
          #expect(try await stores[0].load().tree.root == root)
          #expect(try await stores[0].problems().isEmpty)
        }
      }
    }

    @Test func `a row of the checkpoint that was altered or removed is found`() async throws {
      for sql in [
        "UPDATE canopy.leaves SET value = '7' WHERE namespace = $1 AND path = 'a'",
        "DELETE FROM canopy.leaves WHERE namespace = $1 AND path = 'a'",
        "INSERT INTO canopy.leaves SELECT * FROM canopy.leaves WHERE namespace = $1 AND path = 'a'",
      ] {
        try await withNodes(["a"]) { stores async throws in
          let commits = [try commit(1, "a", 1), try commit(2, "b/c", 2)]
          try await stores[0].append(commits, after: 0)
          try await stores[0].checkpoint(commits.folded(), through: 2)
          try await stores[0].damage(sql)
          await #expect(throws: PostgresError.self) { try await stores[0].load() }
          #expect(try await !stores[0].problems().isEmpty)
        }
      }
    }

    @Test func `a lease that has ended is not renewed by its run, but by the next one`()
      async throws
    {
      let namespace = Database.namespace()
      let first = try await PostgresStore(Database.configuration(namespace))
      let registration = first.bell.registration
      try await first.writer.run { try registration.endLease($0) }
      let renewal = try await first.writer.run { try registration.renew($0) }
      #expect(renewal == .replaced)
      await first.close()
      let next = try await PostgresStore(Database.configuration(namespace))
      #expect(try await next.renewLease())
      await next.close()
    }
  }
#endif
