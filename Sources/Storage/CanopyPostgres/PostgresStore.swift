#if PostgreSQL
  internal import CanopyEngine
  internal import CanopyRows
  internal import CanopyTree
  internal import Foundation
  public import Logging
  internal import Synchronization

  /// The journal, the checkpoint, the accounts and the on-disconnect writes of one namespace in PostgreSQL, as one of several
  /// nodes uses them.
  ///
  /// Every change is one transaction. It is confirmed when PostgreSQL has committed it, with its synchronous standby if it has
  /// one. Connections have threads of their own, which block; a lost connection is made again for the next use.
  public final class PostgresStore: Sendable {
    /// Settings of a store.
    public struct Configuration: Sendable {
      /// The URL or the parameters of the database, as libpq takes them: several hosts, TLS and so on.
      public var url: String
      /// The name of the namespace.
      public var namespace = ""
      /// Whether the namespace must be in the list of `PostgresNamespaces`.
      public var isListed = false
      /// The name of the node, which no other running node has. A node that starts again with its name takes over its
      /// on-disconnect writes.
      public var node: String
      /// The time after which the other nodes count this one as dead, in seconds.
      public var leaseSeconds = 15.0
      /// The longest silence of the server during a statement, in seconds.
      public var replySeconds = 10.0
      /// The number of connections for accounts, on-disconnect writes, history and checkpoints.
      public var connections = 3
      /// The maximum number of commits to keep after the checkpoint has them, for clients that resume listening.
      public var retainedCommits: Int64 = 100_000
      /// The age, in milliseconds before the last commit, up to which commits are kept.
      public var retainedMilliseconds: Int64 = 3_600_000
      /// The maximum number of rows that one step of a checkpoint writes or looks up.
      public var checkpointStepRows = 1_000
      /// The maximum number of bytes that one step of a checkpoint writes or removes, except for its last row.
      public var checkpointStepBytes = 1024 * 1024
      /// The maximum number of distinct locations in one batch of a checkpoint.
      public var checkpointBatchLocations = 250_000
      /// The maximum number of rows with writes that clients may send again, which a start reads and a checkpoint keeps.
      var clientWritesMax = Limits.rememberedWritesMax
      /// The bytes of commits after which a page of missed commits ends.
      var missedBytesMax = 1024 * 1024
      /// The source of random numbers.
      public var random: @Sendable () -> UInt64
      /// The log for lost connections and background work.
      public var logger = Logger(label: "canopy.store") { _ in SwiftLogNoOpLogHandler() }
      /// Returns the seconds since some fixed moment. It never goes back.
      var uptime: @Sendable () -> Double = { ProcessInfo.processInfo.systemUptime }
      /// A hook for tests, called after every step of a checkpoint. An error that it throws ends the checkpoint.
      var afterStep: @Sendable () async throws -> Void = {}

      /// Creates settings.
      ///
      /// - Parameters:
      ///   - url: the URL of the database.
      ///   - node: the name of the node.
      ///   - random: the source of the number that distinguishes the runs of a node.
      public init(url: String, node: String, random: @escaping @Sendable () -> UInt64) {
        self.url = url
        self.node = node
        self.random = random
      }
    }

    /// The end of the journal as this node knows it.
    struct Tail: Sendable {
      var sequence: Int64
      var checksum: Checksum
    }

    let configuration: Configuration
    /// The lane of appends and of the commits of other nodes.
    let writer: Lane
    /// The lanes of everything else.
    let lanes: Lanes
    /// The bytes of the namespace and of the node, as they are stored.
    let namespace: [UInt8]
    let node: [UInt8]
    /// The number of this run of the node.
    let run: Int64
    /// The number that an append must name. `resolveAppend` raises it.
    let fence: Mutex<Int64>
    let tail = Mutex<Tail?>(nil)
    /// The number of commits of the last append that failed.
    let doubtful = Mutex(0)
    /// The changes of on-disconnect writes that wait for the next transaction.
    let disconnectChanges = DisconnectChanges()
    /// The writes of a take-over whose outcome is unknown.
    let takingOver = Mutex<[DisconnectWriteID]>([])
    let bell: Bell

    /// The maximum number of bytes in the names of a namespace and of a node.
    public static let nameBytesMax = 128

    /// Connects, makes the tables if they are missing, and registers the node.
    ///
    /// - Throws: `PostgresError`.
    public init(_ configuration: Configuration) async throws {
      let (namespace, node) = (Array(configuration.namespace.utf8), Array(configuration.node.utf8))
      guard namespace.count <= PostgresStore.nameBytesMax,
        1...PostgresStore.nameBytesMax ~= node.count
      else {
        throw PostgresError.unsuitable(
          "the names of a namespace and of a node have at most \(PostgresStore.nameBytesMax) bytes, and a node needs one"
        )
      }
      let run = Int64(bitPattern: configuration.random())
      let settings = Link.Settings(
        url: configuration.url, replySeconds: configuration.replySeconds,
        uptime: configuration.uptime)
      self.configuration = configuration
      (self.namespace, self.node, self.run) = (namespace, node, run)
      let connected: @Sendable (Link) throws -> Void = { link in
        // Tables may be missing on the first connection only.
        try PostgresSchema.prepare(link)
        _ = try link.commit([PostgresStore.barrier(namespace, node)])
      }
      writer = try Lane(settings, connected: connected)
      lanes = Lanes(width: max(1, configuration.connections)) {
        try Lane(settings, connected: connected)
      }
      let leaseSeconds = configuration.leaseSeconds
      let registration = Registration(
        namespace: namespace, node: node, run: run, leaseSeconds: leaseSeconds,
        isListed: configuration.isListed)
      fence = Mutex(try await writer.run { try registration.register($0) })
      bell = Bell(settings, registration, logger: configuration.logger)
      try bell.start()
    }

    /// Ends the lease of the node and closes the connections. Other nodes then need not wait for the end of the lease.
    ///
    /// Its on-disconnect writes stay for its next start, or for another node.
    public func close() async {
      let registration = bell.registration
      bell.stop()
      try? await writer.run { try registration.endLease($0) }
      await writer.close()
      await lanes.close()
    }

    /// Returns the query that waits until everything that this connection can read is on the synchronous standby.
    ///
    /// A server that crashed while a commit waited for the standby shows that commit after its start. The standby may not
    /// have it. The commit of this change waits for the standby, which receives all changes in order.
    static func barrier(_ namespace: [UInt8], _ node: [UInt8]) -> Query {
      Query(
        """
        INSERT INTO canopy.barriers(namespace, node, number) VALUES ($1, $2, 1)
        ON CONFLICT (namespace, node) DO UPDATE SET number = barriers.number + 1
        """, .bytes(namespace), .bytes(node))
    }
  }
#endif
