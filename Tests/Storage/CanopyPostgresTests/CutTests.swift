#if PostgreSQL
  import CanopyEngine
  import CanopyTesting
  import CanopyTree
  import Foundation
  import Synchronization
  import Testing

  @testable import CanopyPostgres

  /// Connections that break while an append is on its way.
  @Suite(.timeLimit(.minutes(20)), .enabled(if: Database.url != nil, Database.isMissing))
  struct CutTests {
    /// The port of the server, from the URL.
    private static func serverPort() throws -> UInt16 {
      let url = try #require(Database.url)
      let match = try #require(url.firstMatch(of: /@[^:\/]+:(\d+)/))
      return try #require(UInt16(match.1))
    }

    private func withProxy(
      replySeconds: Double = 10,
      _ body: (Proxy, PostgresStore, _ namespace: String) async throws -> Void
    ) async throws {
      let proxy = try Proxy(to: Self.serverPort())
      defer { proxy.close() }
      let namespace = Database.namespace()
      var configuration = Database.configuration(
        namespace, url: "postgresql://canopy@127.0.0.1:\(proxy.port)/canopy")
      configuration.leaseSeconds = 3_600
      configuration.replySeconds = replySeconds
      let store = try await PostgresStore(configuration)
      let result: Result<Void, any Error>
      do { result = .success(try await body(proxy, store, namespace)) } catch {
        result = .failure(error)
      }
      proxy.restore()
      await store.close()
      try result.get()
    }

    private func batch(_ last: Int64, _ store: PostgresStore) throws -> [Commit] {
      var first = try commit(last + 1, "n", Node(last))
      first.origin = try WriteOrigin(client: "c", number: last + 1, seen: last)
      return [first, try commit(last + 2, "m", Node(last))]
    }

    @Test(arguments: Proxy.Direction.allCases)
    func `writes are taken over once, though the connection breaks at any byte`(
      direction: Proxy.Direction
    ) async throws {
      try await withProxy { proxy, store, namespace in
        for count in stride(from: 0, to: 2_400, by: 150) {
          let gone = try await PostgresStore(
            Database.configuration(namespace, node: "gone-\(count)"))
          let id = try #require(
            try await gone.changeDisconnectWrites(
              adding: ("u", "r"), exceptions: [:], removing: []))
          await gone.close()
          proxy.cut(after: count, direction)
          var taken: [DisconnectWriteID] = []
          for _ in 0..<20 where taken.isEmpty {
            do {
              taken = try await store.takeOverDisconnectWrites(countMax: 10, bytesMax: 1_000)
                .map(\.id)
            } catch is PostgresError {}
          }
          proxy.restore()
          #expect(taken == [id], "cut after \(count) bytes")
          #expect(
            try await store.takeOverDisconnectWrites(countMax: 10, bytesMax: 1_000).isEmpty)
          #expect(try await store.disconnectWriteIDs().contains(id))
        }
      }
    }

    @Test(arguments: Proxy.Direction.allCases)
    func `if a connection breaks at any byte, the store finds out whether the append was made`(
      direction: Proxy.Direction
    ) async throws {
      try await withProxy { proxy, store, namespace in
        // The statements are prepared, so that all appends have the same bytes.
        try await store.append(batch(0, store), after: 0)
        try await store.append(batch(2, store), after: 2)
        proxy.startCounting()
        try await store.append(batch(4, store), after: 4)
        let total = try #require(proxy.counts[direction])
        #expect(total > 100)
        var last: Int64 = 6
        var (stored, lost, acknowledged) = (0, 0, 0)
        // Also each of the last bytes, which end the message after the end of the transaction.
        let counts = Array(stride(from: 0, to: total - 8, by: max(1, total / 60)))
        for count in counts + Array(total - 8...total + 8) {
          // The next connection prepares the statements.
          try await store.append(batch(last, store), after: last)
          last += 2
          let commits = try batch(last, store)
          proxy.cut(after: count, direction)
          do {
            try await store.append(commits, after: last)
            acknowledged += 1
            last += 2
          } catch {
            let found = try await store.resolveAppend(after: last)
            #expect(found.isEmpty || found == commits, "cut after \(count) bytes")
            if case PostgresError.connectionLost = error { #expect(found.isEmpty) }
            last += Int64(found.count)
            if found.isEmpty { lost += 1 } else { stored += 1 }
          }
          proxy.restore()
        }
        print(
          "cut \(direction): \(acknowledged) acknowledged, \(stored) stored, \(lost) not stored")
        #expect(direction == .toServer ? lost > 0 : stored > 0)
        try await withNodes(["b"], namespace: namespace) { stores async throws in
          #expect(try await stores[0].load().sequence == last)
          #expect(try await stores[0].problems().isEmpty)
        }
      }
    }

    /// The server may have begun the append, and wait for the rest of it. Then the outcome is unknown for so long.
    @Test func `an append that reaches the server after its outcome was found out stores nothing`()
      async throws
    {
      try await withProxy(replySeconds: 1) { proxy, store, namespace in
        try await store.append(batch(0, store), after: 0)
        try await store.append(batch(2, store), after: 2)
        proxy.startCounting()
        try await store.append(batch(4, store), after: 4)
        let total = try #require(proxy.counts[.toServer])
        var last: Int64 = 6
        var (refused, waited) = (0, 0)
        for count in stride(from: 0, to: total, by: max(1, total / 12)) {
          try await store.append(batch(last, store), after: last)
          last += 2
          let commits = try batch(last, store)
          proxy.hold(after: count)
          do {
            try await store.append(commits, after: last)
            // It had fewer bytes than the one that was measured.
            last += 2
            proxy.restore()
            continue
          } catch {}
          do {
            // The end of the transaction may have arrived without the end of the message.
            let found = try await store.resolveAppend(after: last)
            #expect(found.isEmpty || found == commits, "held after \(count) bytes")
            proxy.release()
            #expect(try await store.commits(after: last, bytesMax: 1_000) == found)
            last += Int64(found.count)
            refused += 1
          } catch {
            proxy.release()
            let found = try await store.resolveAppend(after: last)
            #expect(found.isEmpty || found == commits, "held after \(count) bytes")
            last += Int64(found.count)
            waited += 1
          }
          proxy.restore()
        }
        print("held: \(refused) appends came too late, for \(waited) the store had to wait")
        #expect(refused > 0)
        try await withNodes(["b"], namespace: namespace) { stores async throws in
          #expect(try await stores[0].load().sequence == last)
        }
      }
    }

    @Test func `without a reply, a statement ends at its bound, and the next one connects again`()
      async throws
    {
      try await withNodes(["a"]) {
        $0.replySeconds = 1
      } _: { stores async throws in
        let store = stores[0]
        try await store.append([commit(1, "n", 1)], after: 0)
        // The row of the namespace stays locked for longer than the bound.
        let locked = Gate()
        let isOver = Mutex(false)
        let url = Database.configuration("").url
        let lock = Task {
          let lane = try Lane(
            Link.Settings(url: url, replySeconds: 30, uptime: store.configuration.uptime)
          ) { _ in }
          let namespace = store.namespace
          _ = try await lane.run { link in
            _ = try link.begin([
              Query(
                "SELECT 1 FROM canopy.heads WHERE namespace = $1 FOR UPDATE", .bytes(namespace))
            ])
            locked.open()
            // Blocks the thread of the lane, as the server waits.
            while !isOver.withLock({ $0 }) {
              _ = try link.run([Query("SELECT pg_sleep(0.05)")])
            }
            try link.rollBack()
          }
        }
        await locked.pass()
        await #expect(throws: PostgresError.self) {
          try await store.append([commit(2, "n", 2)], after: 1)
        }
        isOver.withLock { $0 = true }
        try await lock.value
        #expect(try await store.resolveAppend(after: 1).isEmpty)
        try await store.append([commit(2, "n", 2)], after: 1)
      }
    }

    @Test func `an unreachable server is an error that says what to do`() async throws {
      let proxy = try Proxy(to: 1)
      defer { proxy.close() }
      for url in ["postgresql://canopy@127.0.0.1:\(proxy.port)/canopy", "host=", "postgresql://["] {
        do {
          _ = try await PostgresStore(Database.configuration("x", url: url))
          Issue.record("the store was opened")
        } catch PostgresError.unreachable(let reason) {
          #expect(!reason.isEmpty)
          #expect(PostgresError.unreachable(reason).sentence.contains("check the URL"))
        }
      }
    }
  }
#endif
