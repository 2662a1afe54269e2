#if PostgreSQL
  import CanopyEngine
  import CanopyTesting
  import CanopyTree
  import Testing

  @testable import CanopyPostgres

  /// Following the commits of other nodes.
  @Suite(.timeLimit(.minutes(20)), .enabled(if: Database.url != nil, Database.isMissing))
  struct FollowTests {
    @Test func `a wait ends when another node has appended`() async throws {
      try await withNodes { stores async throws in
        async let waited: Void = stores[1].waitForCommits(after: 0, atMost: .seconds(250))
        try await stores[0].append([commit(1, "n", 1)], after: 0)
        await waited
        #expect(try await stores[1].commits(after: 0, bytesMax: 10).count == 1)
      }
    }

    @Test func `a node does not hear of its own commits, and a wait ends at its time`() async throws
    {
      try await withNodes(["a"]) { stores async throws in
        try await stores[0].append([commit(1, "n", 1)], after: 0)
        await stores[0].waitForCommits(after: 0, atMost: .milliseconds(1))
        await stores[0].waitForCommits(after: 0, atMost: .zero)
      }
    }

    @Test func `a cancelled wait ends`() async throws {
      try await withNodes(["a"]) { stores async throws in
        let store = stores[0]
        let wait = Task { await store.waitForCommits(after: 0, atMost: .seconds(1_000)) }
        wait.cancel()
        await wait.value
      }
    }

    @Test func `a node behind the retention must load again`() async throws {
      try await withNodes(["a", "b"]) {
        $0.retainedCommits = 2
      } _: { stores async throws in
        let commits = try (1...9).map { try commit($0, "n", Node($0)) }
        try await stores[0].append(commits, after: 0)
        try await stores[0].checkpoint(commits.folded(), through: 9)
        await #expect(throws: JournalError.self) {
          try await stores[1].commits(after: 3, bytesMax: 1_000)
        }
        do {
          _ = try await stores[1].commits(after: 6, bytesMax: 1_000)
          Issue.record("commit 7 was removed")
        } catch JournalError.forgotten {}
        #expect(try await stores[1].commits(after: 7, bytesMax: 1_000).map(\.sequence) == [8, 9])
        #expect(try await stores[1].load().tree.root == commits.folded())
      }
    }

    @Test func `a wait ends when the connection for messages is made again`() async throws {
      try await withNodes { stores async throws in
        async let waited: Void = stores[1].waitForCommits(after: 0, atMost: .seconds(250))
        try await stores[0].damage(
          """
          SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE query LIKE 'LISTEN%' AND $1::bytea IS NOT NULL
          """)
        await waited
      }
    }
  }
#endif
