import ArgumentParser
import CanopyAccounts
import CanopyBackup
import CanopyEngine
import CanopyEvents
import CanopyGateway
import CanopyIdentity
import CanopyLineServer
import CanopyMetrics
import CanopySession
import CanopySocial
import CanopySQLite
import CanopySystem
import CanopyTree
import Foundation
import NIOCore
import Logging
import ServiceLifecycle
import UnixSignals

struct Serve: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Serve a data folder until SIGTERM or SIGINT arrives.",
    discussion: """
      With --postgres the data is in a database, which any number of servers may serve, as its nodes. The data folder of \
      a node has only its name, a copy of the administrator's token and its socket.
      When the server is ready, it prints a line to stdout for each listener: "ready line 127.0.0.1:7070".
      """)

  @OptionGroup var folder: FolderOption
  @Option(
    help:
      "The URL of a PostgreSQL database with the data, which several servers share (the data folder has it)."
  )
  var postgres: String?
  @Option(help: "The address to listen on (127.0.0.1).") var host: String?
  @Option(help: "The port; 0 selects a free one (7070).") var port: UInt16?
  @Option(help: "The port for HTTP; 0 selects a free one, off none (9000).") var httpPort: HTTPPort?
  @Flag(help: "Serve as an emulator: every program on this machine may act as the administrator.")
  var emulator = false
  @Option(
    help:
      "Origins, such as https://example.com, whose pages may use the line protocol over HTTP and an emulator, and count as pages of this machine for the limits on sign-ups and logins; separated by commas (the server's own)."
  )
  var allowOrigin: Origins?
  @Option(
    help:
      "The file of the certificate in PEM, with which both ports speak TLS. SIGHUP has it read again (no TLS)."
  )
  var tlsCertificate: String?
  @Option(help: "The file of the certificate's private key in PEM (no TLS).") var tlsKey: String?
  @Option(help: "The project of identity tokens, as Auth clients name it (canopy).")
  var project: Project?
  @Option(
    help:
      "When a write is stored: full, on the disk; relaxed, in the operating system (full).")
  var durability: SQLiteStore.Durability?
  @Option(help: "The most bytes in a line of the protocol (1048576).") var lineBytesMax: Int?
  @Option(help: "The most connections at one time (20000).") var connectionsMax: Int?
  @Option(help: "The most connections from one address of another machine (256).")
  var connectionsPerAddressMax: Int?
  @Option(help: "The most subscriptions of a connection (1000).") var listenersMax: Int?
  @Option(help: "The most bytes of unsent events of a connection (16777216).")
  var queuedBytesMax: Int?
  @Option(
    help:
      "The most bytes that all connections together may make the server hold (an eighth of the memory)."
  )
  var memoryMax: Int?
  @Option(help: "Seconds without data after which the server probes a connection (15).")
  var heartbeatSeconds: Int?
  @Option(help: "Seconds without an answer after which the server closes a connection (45).")
  var timeoutSeconds: Int?
  @Option(help: "The most sign-ups in a minute from one address (60).") var signupsPerMinute: Int?
  @Option(help: "The most logins in a minute from one address (60).") var loginsPerMinute: Int?
  @Option(help: "The writes of one user in a second (100).") var writesPerSecond: Int?
  @Option(help: "The bytes that one user writes in a second (262144).")
  var writeBytesPerSecond: Int?
  @Option(help: "The writes from one address of another machine in a second (1000).")
  var writesPerSecondPerAddress: Int?
  @Option(help: "The bytes written from one address of another machine in a second (2097152).")
  var writeBytesPerSecondPerAddress: Int?
  @Option(help: "The seconds of writes that may come at once (20).") var writeBurstSeconds: Int?
  @Option(
    help:
      "Whether the limits on the writes of a user apply on this machine: exempt, or limited, for a server behind a proxy (exempt)."
  )
  var writesOnThisMachine: LocalWrites?
  @Option(help: "The most bytes of the posts and comments of one user (67108864).")
  var storageBytesMax: Int?
  @Option(
    help:
      "The most bytes of memory of all data, beyond which writes are refused that add some; 0 for no bound (half of the memory)."
  )
  var treeMax: Int?
  @Option(
    help:
      "The bytes that one address of another machine may add to the data in a day; 0 for no bound (a quarter of the bound on all data)."
  )
  var treeBytesPerDayPerAddress: Int?
  @Option(help: "Free bytes of the disk below which writes are refused; 0 for never (268435456).")
  var freeBytesMin: Int?
  @Option(help: "The most passwords hashed at one time, with 19 MiB of memory each (2).")
  var hashersMax: Int?
  @Option(help: "The most passwords that wait to be hashed (64).") var hashesWaitingMax: Int?
  @Option(help: "The most passwords from one address that wait to be hashed (32).")
  var hashesWaitingPerAddressMax: Int?
  @Option(help: "Commits between checkpoints (1000000).") var checkpointEvery: Int?
  @Option(help: "Bytes of commits between checkpoints, if the commits are fewer (268435456).")
  var checkpointBytes: Int?
  @Option(help: "The most seconds from a commit to the next checkpoint (300).")
  var checkpointAfter: Int64?
  @Option(help: "The most commits kept after a checkpoint, for clients that resume (100000).")
  var retainedCommits: Int64?
  @Option(help: "The most bytes of these commits (1073741824).") var retainedBytes: Int64?
  @Option(help: "The most namespaces that are open at one time, besides the default one (32).")
  var namespacesMax: Int?
  @Option(help: "The most seconds that these commits are kept (3600).") var retainedSeconds: Int64?
  @Flag(help: "Start even if stored data were lost or altered; the log names the losses.")
  var acceptLoss = false
  @Option(help: "Seconds between two backups (no backups).") var backupEvery: Int64?
  @Option(
    help:
      "The number of newest backups that are kept, of the schedule and of requests each (7).")
  var backupsKept: Int?
  @Option(
    help:
      "Seconds from the beginning of a check of all stored rows to that of the next; 0 for none (604800)."
  )
  var scrubEvery: Int64?
  @Option(
    help: "The number of threads that serve a port (one per two cores; for HTTP one per core).")
  var threads: Int?
  @Flag(
    help:
      "Check the options, the address, the certificate and the rules, and end: an error says why no server would start. The ports and the data are not checked."
  )
  var check = false
  @Option(help: "The log level: trace, debug, info, notice, warning, error or critical (info).")
  var logLevel: Logger.Level?

  func run() async throws {
    try await Failure.explaining { try await serve() }
  }

  private func serve() async throws {
    Allocator.restartWithLargerCaches()
    Allocator.boundFreeMemory()
    let settings = try settings()
    let logger = settings.logger
    settings.warnOfPlainText()
    // The rules come first: with invalid rules the server creates and opens nothing. Those of several nodes are in their
    // journal.
    let rules = try RulesKeeper(folder: settings.postgres == nil ? settings.folder : nil)
    if check { return try await ListenError.check(host: settings.listener.host) }
    let reload = await CertificateReload(settings.listener.certificate, logger: logger)
    let metrics = MetricsRegistry(
      now: { Int64(clamping: NIODeadline.now().uptimeNanoseconds) }, roughNow: RoughTime.now)
    let node = try settings.postgres.map { _ in try NodeFolder(settings.folder) }
    let shared = try await sharedParts(settings, node)
    let parts = try await open(settings, shared, rules, metrics)
    let backups = shared == nil ? Backups(ofServerOn: settings) : nil
    let operations = try await operations(on: parts, settings, shared, rules, metrics, backups)
    let manager = ServiceManager(environment: ProcessInfo.processInfo.environment)
    let (ready, isReady) = AsyncStream.makeStream(of: Void.self)
    let listeners = listeners(for: operations, settings, metrics) { isReady.yield() }
    if let backups { metrics.collect(from: backups) }
    let scrubber = shared == nil ? Scrubber(ofServerOn: settings) : nil
    if let scrubber { metrics.collect(from: scrubber) }
    // Services shut down in reverse order: the service manager hears of it first. Then a backup that is being made ends,
    // because a client may wait for it; then the listeners, and last the engine, on which all others depend.
    var services: [any Service] = [EngineService(parts: parts)]
    if let watchdog = manager?.watchdog(logger: logger) {
      services.append(
        WatchdogService(watchdog: watchdog, operations: operations, loops: listeners.loops))
    }
    services += [
      TokenPurge(parts: parts, logger: logger), UnfinishedWorkService(operations: operations),
      NamespaceService(operations: operations), MemoryReturn(memory: operations.memory),
    ]
    if shared == nil { services.append(FreeSpaceWatch(operations.freeSpace, of: settings)) }
    services.append(listeners)
    services.append(reload)
    if operations.hasLease { services.append(LeaseService(operations: operations)) }
    if let scrubber { services.append(ScrubService(scrubber: scrubber)) }
    if let backups { services.append(BackupService(backups: backups)) }
    if let manager {
      services.append(
        ReadinessService(
          manager: manager, ready: ready, listeners: listeners.listeners.count, logger: logger))
    }
    let group = ServiceGroup(
      services: services, gracefulShutdownSignals: [.sigterm, .sigint], logger: logger)
    let result = await Result { try await group.run() }
    try await parts.store.close()
    await shared?.close()
    node?.release()
    try result.get()
    logger.info("stopped in good order")
  }

  /// Connects a node to its database; nil without one.
  private func sharedParts(_ settings: Settings, _ node: NodeFolder?) async throws -> SharedParts? {
    guard let url = settings.postgres, let node else { return nil }
    #if PostgreSQL
      let parts = try await PostgresNode(
        url: url, name: node.name, logger: settings.logger,
        retainedCommits: settings.store.retainedCommits,
        retainedMilliseconds: settings.store.retainedMilliseconds
      ).open()
      // The URL may have a password.
      settings.logger.info("the database is open", metadata: ["node": "\(node.name)"])
      return parts
    #else
      _ = (url, node)
      try PostgresOption.check()
      return nil
    #endif
  }

  /// Opens the journal, and completes the work that the end of the last process interrupted.
  private func open(
    _ settings: Settings, _ shared: SharedParts?, _ rules: RulesKeeper, _ metrics: MetricsRegistry
  ) async throws -> Composition {
    var engine = settings.engine
    engine.indexPlan.formUnion(rules.indexPlan)
    let parts: Composition
    if let shared {
      parts = try await Composition(
        store: shared.store, engine: engine, settings: settings.accounts, hasher: settings.hasher,
        metrics: metrics, logger: settings.logger)
    } else {
      parts = try await Composition(
        folder: settings.folder, store: settings.store, engine: engine,
        settings: settings.accounts, hasher: settings.hasher, metrics: metrics,
        logger: settings.logger)
      settings.logger.info(
        "the data folder is open",
        metadata: ["folder": "\(settings.folder)", "seq": "\(parts.engine.snapshot.sequence)"])
    }
    settings.noteReduction()
    // This precedes new sign-ups, which would look like interrupted ones.
    try await parts.recover(isStart: true)
    if shared == nil { try await noteLostSecrets(of: parts, settings) }
    if parts.engine.isShared {
      try rules.begin(following: parts.engine, logger: settings.logger)
    } else {
      try rules.loadAgain()
      try await parts.engine.keepIndexes(of: rules.indexPlan)
      try await rules.begin(
        at: parts.engine.snapshot.sequence, recordingIn: parts.store,
        acceptsLoss: settings.store.acceptsLoss, logger: settings.logger)
    }
    return parts
  }

  /// Logs the secrets that a folder has lost. A folder that a command has filled, and that no server has served yet, has
  /// neither secrets nor a record of its rules.
  private func noteLostSecrets(of parts: Composition, _ settings: Settings) async throws {
    guard parts.engine.snapshot.sequence > 0, try await parts.store.rulesRecord() != nil else {
      return
    }
    for name in SmallFiles.secrets where access(settings.folder + "/" + name, F_OK) != 0 {
      settings.logger.notice(
        "a file of secrets is missing and written again, so older tokens are no longer valid",
        metadata: ["file": "\(name)"])
    }
  }

  /// Returns the operations that requests ask for.
  private func operations(
    on parts: Composition, _ settings: Settings, _ shared: SharedParts?, _ rules: RulesKeeper,
    _ metrics: MetricsRegistry, _ backups: Backups?
  ) async throws -> Operations {
    let (folder, logger) = (settings.folder, settings.logger)
    let keys: IdentityKeys
    let token: AdministratorToken
    let namespaces: any NamespaceSource
    if let shared {
      keys = try await IdentityKeys.loadOrCreate(
        in: shared.secrets, environment: Composition.environment)
      token = try await AdministratorToken.loadOrCreate(in: folder, sharedBy: shared.secrets)
      namespaces = shared.namespaces(
        NodeNamespaces.Settings(
          engine: settings.engine, measured: { Composition.measured($0, in: metrics) },
          logger: logger))
    } else {
      keys = try await IdentityKeys.loadOrCreate(in: folder, environment: Composition.environment)
      token = try AdministratorToken.loadOrCreate(in: folder)
      let folders = NamespaceFolders(folder)
      try folders.forgetRemovals()
      for name in try folders.lostNames() {
        logger.error(
          "a namespace has lost its database, and no backup can be made",
          metadata: [
            "namespace": "\(name)",
            "error": "\(StoreError.withoutDatabase(folders.path(of: name)).sentence)",
          ])
      }
      // The record is no reason not to start.
      do {
        for name in try folders.missingNames() {
          logger.error(
            "the folder of a namespace is missing",
            metadata: ["namespace": "\(name)", "error": "\(folders.loss(of: name))"])
        }
        try folders.recordAll()
      } catch {
        logger.warning(
          "the namespaces cannot be recorded", metadata: ["error": "\(Failure(error).description)"])
      }
      namespaces = NamespaceOpening(
        folders: folders, store: settings.store, engine: settings.engine,
        isEmulator: emulator, metrics: metrics, logger: logger)
    }
    return Operations(
      engine: parts.engine, accounts: parts.accounts,
      identityService: { [identity = settings.identity] loginsEnded in
        IdentityService(
          accounts: parts.accounts, keys: keys, settings: identity,
          environment: Composition.environment, deliver: { $0.log(to: logger) },
          loginsEnded: loginsEnded,
          failed: { logger.error("the store failed", metadata: ["error": "\($0)"]) })
      },
      administratorToken: token,
      disconnectStore: parts.store, rules: rules, limits: settings.limits,
      version: Canopy.version, now: Composition.now, logger: logger,
      metrics: metrics, logLines: settings.logLines,
      backups: backups.map { ServerBackups(backups: $0) },
      namespaceSource: namespaces,
      namespaceSettings: settings.namespaces,
      quotas: WriteQuotas(
        settings.limits, exemptsThisMachine: settings.exemptsThisMachine),
      freeSpace: FreeSpace(bytesMin: shared == nil ? settings.limits.freeBytesMin : 0),
      tree: settings.limits.treeMax > 0
        ? TreeBound(bytesMax: settings.limits.treeMax, logger: logger) : nil,
      storage: UserStorage(of: parts.engine, bytesMax: settings.limits.storageBytesMax))
  }

  /// Returns the listeners of all ports. When all are ready, a line is printed for each.
  ///
  /// - Parameter whenReady: called for each listener that is ready.
  private func listeners(
    for operations: Operations, _ settings: Settings, _ metrics: MetricsRegistry,
    whenReady: @escaping @Sendable () -> Void
  ) -> ListenerService {
    let logger = settings.logger
    let isPlain = settings.listener.certificate == nil
    let ready = ReadyLines(of: settings.gateway == nil ? 1 : 2, logger)
    let line = LineServer(operations, configuration: settings.listener, logger: logger) {
      ready.note(isPlain ? "line" : "tls", $0, $1)
      whenReady()
    }
    let httpGate = ConnectionGate(sharingBoundsOf: line.gate)
    let http = settings.gateway.map {
      Gateway(operations, configuration: $0, gate: httpGate, logger: logger) {
        operations.consoleAddress.set(host: $0, port: $1, hasTLS: !isPlain)
        ready.note(isPlain ? "http" : "https", $0, $1)
        whenReady()
      }
    }
    metrics.collect(from: operations, line: line.gate, http: httpGate)
    return ListenerService(
      operations: operations, listeners: [line] + (http.map { [$0] } ?? []),
      loops: [line.loops] + (http.map { [$0.loops] } ?? []))
  }
}

extension Result where Failure == any Error {
  fileprivate init(
    isolation: isolated (any Actor)? = #isolation, _ body: () async throws -> Success
  ) async {
    do { self = .success(try await body()) } catch { self = .failure(error) }
  }
}

extension IssuedCode {
  /// Writes the code to the log of the server, where the administrator finds it: no mail is sent.
  fileprivate func log(to logger: Logger) {
    logger.notice(
      "a code for an e-mail has been made; give it to the owner of the address",
      metadata: [
        "email": "\(record.email)", "purpose": "\(record.purpose.rawValue)", "code": "\(text)",
      ])
  }
}
