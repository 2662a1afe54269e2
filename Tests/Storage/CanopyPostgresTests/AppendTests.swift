#if PostgreSQL
  import CanopyEngine
  import CanopyTesting
  import CanopyTree
  import Synchronization
  import Testing

  @testable import CanopyPostgres

  /// Appends of several nodes.
  @Suite(.timeLimit(.minutes(20)), .enabled(if: Database.url != nil, Database.isMissing))
  struct AppendTests {
    @Test func `the loser of a race gets exactly the commits that it missed`() async throws {
      try await withNodes { stores async throws in
        let (a, b) = (stores[0], stores[1])
        try await a.append([commit(1, "n", 1)], after: 0)
        #expect(try await b.commits(after: 0, bytesMax: 1_000).map(\.sequence) == [1])
        var noted = try commit(3, "n", 3)
        noted.origin = try WriteOrigin(client: "c", number: 4, seen: 1)
        noted.note = CommitNote(writer: 7, keyTime: 9, mark: .rules("{}"))
        try await a.append([commit(2, "n", 2), noted], after: 1)
        do {
          try await b.append([commit(2, "m", 2)], after: 1)
          Issue.record("both appends have succeeded")
        } catch JournalError.conflict(let missed) {
          #expect(missed == [try commit(2, "n", 2), noted])
        }
        try await b.append([commit(4, "m", 4)], after: 3)
        #expect(try await a.commits(after: 3, bytesMax: 1_000) == [try commit(4, "m", 4)])
        let state = try await a.load()
        #expect(state.rules == JournaledRules(text: "{}", sequence: 3))
        #expect(try await b.load().tree.root == state.tree.root)
      }
    }

    @Test func `a conflict and a page have a bounded number of bytes, and at least one commit`()
      async throws
    {
      try await withNodes(["a", "b"]) {
        $0.missedBytesMax = 10_000
      } _: { stores async throws in
        let text = Node(String(repeating: "x", count: 4_000))
        try await stores[0].append(try (1...9).map { try commit($0, "n", text) }, after: 0)
        do {
          try await stores[1].append([commit(1, "m", 2)], after: 0)
        } catch JournalError.conflict(let missed) {
          #expect(missed.map(\.sequence) == [1, 2, 3])
        }
        for (bytes, count) in [(0, 1), (1, 1), (4_000, 1), (5_000, 2), (100_000, 9)] {
          let page = try await stores[1].commits(after: 0, bytesMax: bytes)
          #expect(page.map(\.sequence) == Array(1...Int64(count)), "\(bytes)")
        }
        #expect(try await stores[1].commits(after: 9, bytesMax: 1).isEmpty)
      }
    }

    @Test func `one of many appends after a commit succeeds, and each later one builds on it`()
      async throws
    {
      try await withNodes(["a", "b", "c"]) { stores async throws in
        let won = try await withThrowingTaskGroup(of: Int.self) { group in
          for (index, store) in stores.enumerated() {
            group.addTask {
              var (last, won): (Int64, Int) = (0, 0)
              while last < 100 {
                do {
                  try await store.append([commit(last + 1, "n\(index)", Node(last))], after: last)
                  (last, won) = (last + 1, won + 1)
                } catch JournalError.conflict(let missed) {
                  #expect(missed.first?.sequence == last + 1)
                  last = missed.last?.sequence ?? last
                }
              }
              return won
            }
          }
          return try await group.reduce(0, +)
        }
        let history = try await stores[0].wholeHistory()
        #expect(history.map(\.sequence) == Array(1...Int64(history.count)))
        #expect(won == history.count)
        for store in stores { #expect(try await store.problems().isEmpty) }
      }
    }

    @Test func `an append with an old fence is refused, and stores nothing`() async throws {
      try await withNodes(["a"]) { stores async throws in
        let store = stores[0]
        try await store.append([commit(1, "n", 1)], after: 0)
        let old = store.fence.withLock { $0 }
        #expect(try await store.resolveAppend(after: 1).isEmpty)
        #expect(store.fence.withLock { $0 } == old + 1)
        store.fence.withLock { $0 = old }
        await #expect(throws: PostgresError.self) {
          try await store.append([commit(2, "n", 2)], after: 1)
        }
        #expect(try await store.resolveAppend(after: 1).isEmpty)
        try await store.append([commit(2, "n", 2)], after: 1)
        #expect(try await store.commits(after: 0, bytesMax: 1_000).count == 2)
      }
    }

    @Test func `a node that starts under the name of another one ends its appends`() async throws {
      let namespace = Database.namespace()
      try await withNodes(["a"], namespace: namespace) { first async throws in
        try await first[0].append([commit(1, "n", 1)], after: 0)
        try await withNodes(["a"], namespace: namespace) { second async throws in
          do {
            try await first[0].append([commit(2, "n", 2)], after: 1)
            Issue.record("the append has succeeded")
          } catch PostgresError.replaced {}
          await #expect(throws: PostgresError.self) {
            try await first[0].changeDisconnectWrites(
              adding: ("", "x"), exceptions: [:], removing: [])
          }
          // Also after the first node has asked for the outcome.
          #expect(try await first[0].resolveAppend(after: 1).isEmpty)
          await #expect(throws: PostgresError.self) {
            try await first[0].append([commit(2, "n", 2)], after: 1)
          }
          try await second[0].append([commit(2, "n", 2)], after: 1)
        }
      }
    }

    @Test func `a node that knows another commit of the same number cannot append`() async throws {
      try await withNodes { stores async throws in
        try await stores[0].append([commit(1, "n", 1)], after: 0)
        #expect(try await stores[1].commits(after: 0, bytesMax: 1_000).count == 1)
        // As after the promotion of a server that lacks the commit, and another commit in its place.
        try await stores[0].damage(
          "UPDATE canopy.commits SET checksum = checksum + 1 WHERE namespace = $1")
        try await stores[0].damage(
          "UPDATE canopy.heads SET checksum = checksum + 1 WHERE namespace = $1")
        do {
          try await stores[1].append([commit(2, "n", 2)], after: 1)
          Issue.record("the append has succeeded")
        } catch PostgresError.damaged(let sentence) {
          #expect(sentence.contains("commit 1"))
        }
        await #expect(throws: PostgresError.self) { try await stores[0].load() }
        #expect(try await !stores[0].problems().isEmpty)
      }
    }

    @Test(arguments: [
      "DELETE FROM canopy.commits WHERE namespace = $1 AND sequence = 2",
      "UPDATE canopy.commits SET time = 0 WHERE namespace = $1 AND sequence = 2",
      "UPDATE canopy.commits SET seen = 5 WHERE namespace = $1 AND sequence = 2",
      "UPDATE canopy.commits SET note = NULL WHERE namespace = $1 AND sequence = 2",
      "UPDATE canopy.commits SET body = '[' WHERE namespace = $1 AND sequence = 2",
      "DELETE FROM canopy.commits WHERE namespace = $1 AND sequence = 3",
    ])
    func `an altered or missing commit is found`(sql: String) async throws {
      try await withNodes { stores async throws in
        var noted = try commit(2, "n", 2)
        noted.origin = try WriteOrigin(client: "c", number: 9, seen: 1)
        noted.note = CommitNote(writer: 7)
        try await stores[0].append([commit(1, "n", 1), noted, commit(3, "n", 3)], after: 0)
        try await stores[0].damage(sql)
        await #expect(throws: PostgresError.self) { try await stores[0].load() }
        #expect(try await !stores[0].problems().isEmpty)
        if sql.contains("= 2") {
          await #expect(throws: PostgresError.self) {
            try await stores[1].commits(after: 0, bytesMax: 1_000)
          }
        }
      }
    }

    @Test func `an append is one round trip`() async throws {
      try await withNodes(["a"]) { stores async throws in
        let store = stores[0]
        try await store.append([commit(1, "n", 1)], after: 0)
        let before = try await store.writer.run { $0.roundTrips }
        try await store.append([commit(2, "n", 2), commit(3, "n", 2)], after: 1)
        #expect(try await store.writer.run { $0.roundTrips } == before + 1)
      }
    }
  }
#endif
