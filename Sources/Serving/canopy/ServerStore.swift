import CanopyAccounts
import CanopyEngine
import CanopySession
import CanopySQLite
import Logging

/// Everything that a server stores: on SQLite, or on PostgreSQL.
protocol ServerStore: MovableJournal, DisconnectStore, RulesRecordStore, MovableAccountStore {
  /// Closes the files or the connections.
  func close() async throws
}

extension SQLiteStore: ServerStore {}

/// The parts of a server that several nodes share.
struct SharedParts: Sendable {
  let store: any ServerStore
  let secrets: any SecretStore
  /// Creates the namespaces of the server.
  let namespaces: @Sendable (NodeNamespaces.Settings) -> any NamespaceSource
  /// Closes the connections, after the store.
  let close: @Sendable () async -> Void
}

/// The settings of the namespaces of a node.
enum NodeNamespaces {
  struct Settings: Sendable {
    var engine: Engine.Configuration
    /// Wraps a journal to measure it.
    var measured: @Sendable (any ServerStore) -> any Journal
    var logger: Logger
  }
}
