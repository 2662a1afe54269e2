#if PostgreSQL
  import CanopyEngine
  import CanopyTesting
  import CanopyTree
  import Testing

  @testable import CanopyPostgres

  /// Servers and tables that do not suit.
  @Suite(.timeLimit(.minutes(20)), .enabled(if: Database.url != nil, Database.isMissing))
  struct SettingsTests {
    private func url(_ settings: String) throws -> String {
      try #require(Database.url) + "?options=" + settings
    }

    @Test(arguments: ["off", "local", "remote_write"])
    func `a server that may lose confirmed commits is refused`(level: String) async throws {
      do {
        _ = try await PostgresStore(
          Database.configuration("x", url: url("-csynchronous_commit%3D\(level)")))
        Issue.record("the store was opened")
      } catch PostgresError.unsuitable(let sentence) {
        #expect(sentence.contains("synchronous_commit is \(level)"))
      }
    }

    @Test func `a stricter level is accepted, and so is another default isolation`() async throws {
      let settings = try url(
        "-csynchronous_commit%3Dremote_apply%20-cdefault_transaction_isolation%3Dserializable")
      let store = try await PostgresStore(
        Database.configuration(Database.namespace(), url: settings))
      try await store.append([commit(1, "n", 1)], after: 0)
      await store.close()
    }

    @Test func `the names of a node and of a namespace are bounded`() async throws {
      let max = PostgresStore.nameBytesMax
      for (namespace, node, isValid) in [
        (0, 1, true), (max, max, true), (max + 1, 1, false), (1, max + 1, false), (1, 0, false),
      ] {
        var name = Database.namespace()
        name = String((name + String(repeating: "n", count: max + 1)).prefix(namespace))
        let configuration = Database.configuration(
          name, node: String(repeating: "a", count: node))
        do {
          let store = try await PostgresStore(configuration)
          #expect(isValid)
          await store.close()
        } catch PostgresError.unsuitable { #expect(!isValid) }
      }
    }

    @Test func `the tables of another version are updated, or refused if they are newer`()
      async throws
    {
      // In a database of its own, because all namespaces share the tables.
      try await withNodes(["a"]) { stores async throws in
        try await stores[0].lanes.run { link in
          _ = try link.run([Query("DROP DATABASE IF EXISTS canopy_versions", isPrepared: false)])
          _ = try link.run([Query("CREATE DATABASE canopy_versions", isPrepared: false)])
        }
      }
      let url = try #require(Database.url) + "_versions"
      // Two nodes at once: one makes the tables.
      async let first = PostgresStore(Database.configuration("v", node: "a", url: url))
      async let second = PostgresStore(Database.configuration("v", node: "b", url: url))
      let stores = [try await first, try await second]
      #expect(
        try await stores[0].number(
          "SELECT version FROM canopy.schema_version WHERE $1::bytea IS NOT NULL")
          == PostgresSchema.version)
      try await stores[0].damage(
        "UPDATE canopy.schema_version SET version = version + 1 WHERE $1::bytea IS NOT NULL")
      do {
        _ = try await PostgresStore(Database.configuration("v", node: "c", url: url))
        Issue.record("the store was opened")
      } catch PostgresError.newerSchema(let sentence) {
        #expect(sentence.contains("update Canopy"))
      }
      for store in stores { await store.close() }
    }
  }
#endif
