#if PostgreSQL
  import CanopyEngine
  import CanopyTesting
  import CanopyTree
  import Testing

  @testable import CanopyPostgres

  /// The list of namespaces, and the secrets that nodes share.
  @Suite(.timeLimit(.minutes(20)), .enabled(if: Database.url != nil, Database.isMissing))
  struct NamespaceTests {
    @Test
    func `a namespace is created once, and removed with all its rows unless a node has it open`()
      async throws
    {
      let name = Database.namespace()
      var configuration = Database.configuration(name)
      configuration.isListed = true
      let namespaces = try await PostgresNamespaces(configuration)
      await #expect(throws: PostgresError.self) { try await PostgresStore(configuration) }
      #expect(try await namespaces.remove(name) == .missing)
      #expect(try await namespaces.create(name))
      #expect(try await !namespaces.create(name))
      #expect(try await namespaces.names().contains(name))
      var store = try await PostgresStore(configuration)
      try await store.append([commit(1, "a", 1)], after: 0)
      _ = try await store.insertSecret("s", [1])
      #expect(try await namespaces.remove(name) == .inUse)
      await store.close()
      #expect(try await namespaces.remove(name) == .removed)
      #expect(try await namespaces.remove(name) == .missing)
      #expect(try await !namespaces.names().contains(name))
      #expect(try await namespaces.create(name))
      store = try await PostgresStore(configuration)
      let state = try await store.load()
      #expect(state.sequence == 0 && state.tree.root.isAbsent)
      #expect(try await store.secret("s") == nil)
      await store.close()
      await namespaces.close()
    }

    @Test func `a removal deletes the rows of every table that has namespaces`() async throws {
      try await withNodes(["a"]) { stores in
        let count = try await stores[0].number(
          """
          SELECT count(*) FROM information_schema.columns
          WHERE table_schema = 'canopy' AND column_name = 'namespace' AND $1::bytea IS NOT NULL
          """)
        #expect(Int(count) == PostgresSchema.namespaceTables.count)
      }
    }

    @Test func `all nodes get the secret that was stored first`() async throws {
      try await withNodes(["a", "b", "c"]) { stores in
        #expect(try await stores[0].secret("key") == nil)
        let found = try await withThrowingTaskGroup(of: [UInt8].self) { group in
          for (number, store) in stores.enumerated() {
            group.addTask { try await store.insertSecret("key", [UInt8(number)]) }
          }
          return try await group.reduce(into: Set<[UInt8]>()) { $0.insert($1) }
        }
        #expect(found.count == 1)
        #expect(try await stores[2].secret("key") == found.first)
        #expect(try await stores[2].secret("other") == nil)
      }
    }
  }
#endif
