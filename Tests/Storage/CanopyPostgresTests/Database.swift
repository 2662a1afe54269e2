#if PostgreSQL
  import CanopyEngine
  import CanopyTesting
  import CanopyTree
  import Foundation
  import Synchronization
  import Testing

  @testable import CanopyPostgres

  /// The database of the tests, which `Scripts/postgres-test` starts. Each test has a namespace of its own.
  enum Database {
    /// The URL of the database; nil if there is none.
    static let url = ProcessInfo.processInfo.environment["CANOPY_POSTGRES_URL"]

    static let isMissing: Comment = "Scripts/postgres-test starts a database for these tests"

    /// Returns the name of an unused namespace.
    static func namespace() -> String { "test-\(UUID().uuidString)" }

    /// Returns the settings of a store.
    static func configuration(
      _ namespace: String, node: String = "a", url: String? = nil
    ) -> PostgresStore.Configuration {
      let random = Mutex(SystemRandomNumberGenerator())
      var configuration = PostgresStore.Configuration(url: url ?? Database.url ?? "", node: node) {
        random.withLock { $0.next() }
      }
      configuration.namespace = namespace
      configuration.connections = 2
      return configuration
    }
  }

  /// A namespace for the contract suites.
  final class PostgresFixture: StoreFixture {
    static let refusesUnknownDisconnectWrites = true

    let namespace: String

    init() async throws {
      namespace = Database.namespace()
    }

    func open(_ settings: StoreSettings) async throws -> PostgresStore {
      var configuration = Database.configuration(namespace)
      configuration.retainedCommits = settings.retainedCommits
      configuration.retainedMilliseconds = settings.retainedMilliseconds
      configuration.checkpointStepRows = settings.stepRows
      configuration.checkpointBatchLocations = settings.batchLocations
      configuration.afterStep = settings.afterStep
      return try await PostgresStore(configuration)
    }

    func close(_ store: PostgresStore) async throws { await store.close() }

    func problems(of store: PostgresStore) async throws -> [String] { try await store.problems() }

    func commitCount(of store: PostgresStore) async throws -> Int64 {
      try await store.number("SELECT count(*) FROM canopy.commits WHERE namespace = $1")
    }
  }

  /// A namespace that several nodes share, for the contract suite.
  final class PostgresNodes: SharedFixture {
    private let namespace = Database.namespace()

    init() async throws {}

    func open(_ node: Int) async throws -> PostgresStore {
      var configuration = Database.configuration(namespace, node: "node-\(node)")
      configuration.retainedCommits = 3
      return try await PostgresStore(configuration)
    }

    func close(_ store: PostgresStore, _ node: Int) async { await store.close() }

    func forget(
      through sequence: Int64, _ root: Node, of last: Int64, on store: PostgresStore
    ) async throws {
      #expect(last - sequence == 3)
      try await store.checkpoint(root, through: last)
    }

    func endLease(of node: Int) async throws {
      let store = try await PostgresStore(Database.configuration(namespace, node: "administrator"))
      try await store.damage(
        """
        UPDATE canopy.nodes SET expires = clock_timestamp() - interval '1 second'
        WHERE namespace = $1 AND node = 'node-\(node)'
        """)
      await store.close()
    }
  }

  extension PostgresStore {
    /// Returns the number that a query finds. Its first parameter is the namespace.
    func number(_ sql: String) async throws -> Int64 {
      try await lanes.run { [namespace] link in
        try link.run([Query(sql, .bytes(namespace))])[0].int(0, 0)
      }
    }

    /// Changes the database without the knowledge of the store. The first parameter is the namespace.
    func damage(_ sql: String) async throws {
      try await lanes.run { [namespace] link in _ = try link.commit([Query(sql, .bytes(namespace))])
      }
    }
  }

  /// Returns a commit that sets one location.
  func commit(_ sequence: Int64, _ location: String, _ value: Node) throws -> Commit {
    Commit(
      sequence: sequence, time: 1_000 + sequence,
      assignments: [Assignment(try Location(location), value)])
  }

  /// Opens stores of one namespace, runs `body`, and closes them.
  func withNodes<R>(
    _ names: [String] = ["a", "b"], namespace: String = Database.namespace(),
    _ configure: (inout PostgresStore.Configuration) -> Void = { _ in },
    isolation: isolated (any Actor)? = #isolation, _ body: ([PostgresStore]) async throws -> R
  ) async throws -> R {
    var stores: [PostgresStore] = []
    for name in names {
      var configuration = Database.configuration(namespace, node: name)
      configure(&configuration)
      stores.append(try await PostgresStore(configuration))
    }
    let result: Result<R, any Error>
    do { result = .success(try await body(stores)) } catch { result = .failure(error) }
    for store in stores { await store.close() }
    return try result.get()
  }
#endif
