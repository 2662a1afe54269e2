#if PostgreSQL
  import CanopyPostgres
#endif
import CanopyWire

/// The namespaces of a database, for commands. The default one is not among them.
enum PostgresList {
  static func names(_ url: String) async throws -> [NamespaceName] {
    #if PostgreSQL
      try await use(url) { try await $0.names().compactMap { try? NamespaceName($0) } }
        .filter { $0 != .default }
    #else
      []
    #endif
  }

  static func create(_ name: NamespaceName, _ url: String) async throws {
    #if PostgreSQL
      let isNew = try await use(url) { try await $0.create(name.text) }
      guard isNew else {
        throw Failure("the namespace \(name) exists already; choose another name")
      }
    #endif
  }

  static func remove(_ name: NamespaceName, _ url: String) async throws {
    #if PostgreSQL
      switch try await use(url, { try await $0.remove(name.text) }) {
      case .removed: return
      case .missing:
        throw Failure("the database has no namespace \(name); list them with canopy namespace list")
      case .inUse:
        throw Failure(
          "the namespace \(name) is in use; stop the nodes, or wait until no client has used it for ten minutes"
        )
      }
    #endif
  }

  #if PostgreSQL
    private static func use<R: Sendable>(
      _ url: String, _ body: (PostgresNamespaces) async throws -> R
    ) async throws -> R {
      let list = try await PostgresNamespaces(
        PostgresStore.Configuration(url: url, node: "command", random: Composition.random))
      let result: Result<R, any Error>
      do { result = .success(try await body(list)) } catch { result = .failure(error) }
      await list.close()
      return try result.get()
    }
  #endif
}
