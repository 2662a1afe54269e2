#if PostgreSQL
  import CanopyAccounts
  import CanopyEngine
  import CanopyMetrics
  import CanopyPostgres
  import CanopySession
  import CanopyWire
  import Logging
  import Synchronization

  extension PostgresStore: ServerStore {}

  extension PostgresStore.Configuration {
    /// Creates the settings of a namespace.
    ///
    /// - Parameter name: the namespace. Those besides the default one must be in the list of the database.
    init(url: String, node: String, namespace name: NamespaceName, logger: Logger) {
      self.init(url: url, node: node, random: Composition.random)
      namespace = name.text
      isListed = name != .default
      self.logger = logger
    }
  }

  /// The connections of a node to its database.
  struct PostgresNode: Sendable {
    let url: String
    let name: String
    let logger: Logger
    /// The commits to keep for clients that resume.
    var retainedCommits: Int64
    var retainedMilliseconds: Int64

    /// The connections for accounts, on-disconnect writes, history and checkpoints of a further namespace. With those of
    /// appends and of messages, a namespace has at most three connections.
    private static let namespaceConnections = 1

    /// Connects.
    func open() async throws -> SharedParts {
      let list = try await PostgresNamespaces(configuration(of: .default))
      let store: PostgresStore
      do { store = try await PostgresStore(configuration(of: .default)) } catch {
        await list.close()
        throw error
      }
      return SharedParts(
        store: store, secrets: store,
        namespaces: { PostgresNamespaceSource(node: self, list: list, settings: $0) },
        close: { await list.close() })
    }

    private func configuration(of name: NamespaceName) -> PostgresStore.Configuration {
      var configuration = PostgresStore.Configuration(
        url: url, node: self.name, namespace: name, logger: logger)
      configuration.retainedCommits = retainedCommits
      configuration.retainedMilliseconds = retainedMilliseconds
      if name != .default { configuration.connections = Self.namespaceConnections }
      return configuration
    }

    /// Opens the store of a further namespace.
    func open(_ name: NamespaceName, logger: Logger) async throws -> PostgresStore {
      var configuration = configuration(of: name)
      configuration.logger = logger
      return try await PostgresStore(configuration)
    }
  }

  /// The namespaces of a database. A command creates them: `canopy namespace create`.
  final class PostgresNamespaceSource: NamespaceSource {
    private struct Known {
      var names: Set<NamespaceName> = []
      /// The time of the last question, in milliseconds since 1970.
      var asked: Int64?
    }

    /// The milliseconds for which the database is not asked again whether an unknown namespace exists.
    private static let pause: Int64 = 1_000

    private let node: PostgresNode
    private let list: PostgresNamespaces
    private let settings: NodeNamespaces.Settings
    private let known = Mutex(Known())

    init(node: PostgresNode, list: PostgresNamespaces, settings: NodeNamespaces.Settings) {
      self.node = node
      self.list = list
      self.settings = settings
    }

    func availability(of name: NamespaceName) -> NamespaceAvailability {
      known.withLock { $0.names.contains(name) } ? .stored : .missing
    }

    func find(_ name: NamespaceName) async -> NamespaceAvailability {
      let now = Composition.now()
      let mustAsk = known.withLock { known in
        if known.names.contains(name) { return false }
        if let asked = known.asked, asked...asked + Self.pause - 1 ~= now { return false }
        known.asked = now
        return true
      }
      if mustAsk {
        do { _ = try await names() } catch {
          settings.logger.warning(
            "the namespaces of the database cannot be read", metadata: ["error": "\(error)"])
        }
      }
      return availability(of: name)
    }

    func names() async throws -> [NamespaceName] {
      let names = try await list.names().compactMap { try? NamespaceName($0) }
      known.withLock { $0.names = Set(names) }
      return names.filter { $0 != .default }
    }

    func open(_ name: NamespaceName) async throws -> NamespaceParts {
      do { return try await openStore(name) } catch {
        // It may have been removed.
        known.withLock { _ = $0.names.remove(name) }
        throw Failure(error)
      }
    }

    private func openStore(_ name: NamespaceName) async throws -> NamespaceParts {
      var logger = settings.logger
      logger[metadataKey: "namespace"] = "\(name)"
      let store = try await node.open(name, logger: logger)
      do {
        let rules = try RulesKeeper(folder: nil, initial: .locked)
        var configuration = settings.engine
        configuration.indexPlan = rules.indexPlan
        let engine = try await Engine(
          journal: settings.measured(store), configuration: configuration,
          now: Composition.now, clock: Composition.clock, random: Composition.random,
          logger: logger)
        try rules.begin(following: engine, logger: logger)
        logger.info("a namespace is open", metadata: ["seq": "\(engine.snapshot.sequence)"])
        return NamespaceParts(engine: engine, disconnectStore: store, rules: rules) { [logger] in
          await store.close()
          logger.info("a namespace is closed")
        }
      } catch {
        await store.close()
        throw error
      }
    }
  }
#endif
