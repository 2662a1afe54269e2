public import ArgumentParser
import CanopyAccounts
import CanopyEngine
import CanopyEvents
import CanopyGateway
import CanopyIdentity
import CanopyLineServer
import CanopyMetrics
import CanopySession
public import CanopySQLite
import CanopyTree
import Foundation
import NIOCore
public import Logging
import ServiceLifecycle
import UnixSignals

struct Serve: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Serve a data folder until SIGTERM or SIGINT arrives.",
    discussion: """
      When the server is ready, it prints a line to stdout for each listener: "ready line 127.0.0.1:7070".
      """)

  @OptionGroup var folder: FolderOption
  @Option(help: "The address to listen on (127.0.0.1).") var host: String?
  @Option(help: "The port; 0 selects a free one (7070).") var port: UInt16?
  @Option(help: "The port for HTTP; 0 selects a free one, off none (9000).") var httpPort: HTTPPort?
  @Flag(help: "Serve as an emulator: every program on this machine may act as the administrator.")
  var emulator = false
  @Option(
    help:
      "Origins, such as https://example.com, whose pages may use the line protocol over HTTP; separated by commas (the server's own)."
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
  @Option(help: "The most passwords hashed at one time, with 19 MiB of memory each (2).")
  var hashersMax: Int?
  @Option(help: "The most passwords that wait to be hashed (64).") var hashesWaitingMax: Int?
  @Option(help: "The most passwords from one address that wait to be hashed (32).")
  var hashesWaitingPerAddressMax: Int?
  @Option(help: "Commits between checkpoints (1000000).") var checkpointEvery: Int?
  @Option(help: "The most seconds from a commit to the next checkpoint (300).")
  var checkpointAfter: Int64?
  @Option(help: "The most commits kept after a checkpoint, for clients that resume (100000).")
  var retainedCommits: Int64?
  @Option(help: "The most namespaces that are open at one time, besides the default one (32).")
  var namespacesMax: Int?
  @Option(help: "The most seconds that these commits are kept (3600).") var retainedSeconds: Int64?
  @Flag(help: "Start even if stored data were lost or altered; the log names the losses.")
  var acceptLoss = false
  @Option(help: "The number of threads that serve connections (one per two cores).") var threads:
    Int?
  @Option(help: "The log level: trace, debug, info, notice, warning, error or critical (info).")
  var logLevel: Logger.Level?

  func run() async throws {
    try await Failure.explaining { try await serve() }
  }

  private func serve() async throws {
    var logger = Logger(label: "canopy") { StreamLogHandler.standardError(label: $0) }
    logger.logLevel = try Setting.value("log-level", logLevel, default: .info)

    let folder = try folder.folder()
    var store = SQLiteStore.Configuration()
    store.durability = try Setting.value("durability", durability, default: .full)
    store.retainedCommits = try positive(
      "retained-commits", retainedCommits, default: store.retainedCommits)
    let retained = try positive(
      "retained-seconds", retainedSeconds, default: store.retainedMilliseconds / 1000)
    guard retained <= 1_000_000_000_000 else {
      throw ValidationError("--retained-seconds must be at most 1000000000000")
    }
    store.retainedMilliseconds = retained * 1000
    store.acceptsLoss = acceptLoss
    var engine = Engine.Configuration()
    engine.checkpointEvery = try positive(
      "checkpoint-every", checkpointEvery, default: engine.checkpointEvery)
    let checkpointAfter = try positive(
      "checkpoint-after", checkpointAfter, default: engine.checkpointAfter.components.seconds)
    guard checkpointAfter <= 1_000_000_000 else {
      throw ValidationError("--checkpoint-after must be at most 1000000000")
    }
    engine.checkpointAfter = .seconds(checkpointAfter)
    var settings = AccountSettings()
    settings.signUpsMax = try positive(
      "signups-per-minute", signupsPerMinute, default: settings.signUpsMax)
    settings.loginsMax = try positive(
      "logins-per-minute", loginsPerMinute, default: settings.loginsMax)
    let hasher = PasswordHasher(
      concurrentMax: try positive("hashers-max", hashersMax, default: 2),
      waitingMax: try positive("hashes-waiting-max", hashesWaitingMax, default: 64),
      waitingPerNetworkMax: try positive(
        "hashes-waiting-per-address-max", hashesWaitingPerAddressMax, default: 32))
    var limits = Limits()
    limits.lineBytesMax = try positive("line-bytes-max", lineBytesMax, default: limits.lineBytesMax)
    limits.connectionsMax = try positive(
      "connections-max", connectionsMax, default: limits.connectionsMax)
    limits.connectionsPerAddressMax = try positive(
      "connections-per-address-max", connectionsPerAddressMax,
      default: limits.connectionsPerAddressMax)
    limits.listenersMax = try positive("listeners-max", listenersMax, default: limits.listenersMax)
    limits.queuedBytesMax = try positive(
      "queued-bytes-max", queuedBytesMax, default: limits.queuedBytesMax)
    limits.memoryMax = try positive(
      "memory-max", memoryMax, default: MachineMemory.available() / 8)
    var listener = LineServer.Configuration()
    listener.heartbeatSeconds = try positive(
      "heartbeat-seconds", heartbeatSeconds, default: listener.heartbeatSeconds)
    listener.timeoutSeconds = try positive(
      "timeout-seconds", timeoutSeconds, default: listener.timeoutSeconds)
    guard listener.heartbeatSeconds <= 32_767, listener.timeoutSeconds <= 32_767 else {
      throw ValidationError("--heartbeat-seconds and --timeout-seconds must be at most 32767")
    }
    listener.certificate = try certificate()
    listener.localSocketFolder = folder
    listener.host = try Setting.value("host", host, default: listener.host)
    listener.port = Int(try Setting.value("port", port, default: UInt16(listener.port)))
    listener.threads = try positive("threads", threads, default: listener.threads)
    guard listener.threads <= 1024 else { throw ValidationError("--threads must be at most 1024") }
    let gateway = try gateway(like: listener)
    var identity = IdentitySettings()
    identity.project = try Setting.value("project", project, default: Project()).name
    identity.isEmulator = emulator
    var namespaces = Namespaces.Settings()
    namespaces.openMax = try positive(
      "namespaces-max", namespacesMax, default: namespaces.openMax)
    let room = try OpenFiles.raised().division(
      threads: listener.threads * (gateway == nil ? 1 : 2), namespacesMax: namespaces.openMax)
    let isReduced =
      room.connections < limits.connectionsMax || room.namespaces < namespaces.openMax
    limits.connectionsMax = min(room.connections, limits.connectionsMax)
    namespaces.openMax = room.namespaces

    if listener.certificate == nil, !["127.0.0.1", "::1", "localhost"].contains(listener.host) {
      logger.warning(
        "other machines can connect without TLS: passwords are sent unencrypted",
        metadata: ["host": "\(listener.host)"])
    }
    // The rules come first: with invalid rules the server creates and opens nothing.
    let rules = try RulesKeeper(folder: folder)
    let namespaceEngine = engine
    engine.indexPlan.formUnion(rules.indexPlan)
    let metrics = MetricsRegistry(now: { Int64(clamping: NIODeadline.now().uptimeNanoseconds) })
    let parts = try await Composition(
      folder: folder, store: store, engine: engine, settings: settings, hasher: hasher,
      metrics: metrics, logger: logger)
    logger.info(
      "the data folder is open",
      metadata: ["folder": "\(folder)", "seq": "\(parts.engine.snapshot.sequence)"])
    if isReduced {
      logger.notice(
        "the limit of open files leaves room for fewer connections or namespaces than the options",
        metadata: [
          "connections": "\(limits.connectionsMax)", "namespaces": "\(namespaces.openMax)",
        ])
    }
    // This precedes new sign-ups, which would look like interrupted ones.
    try await parts.recover()
    try await rules.begin(at: parts.engine.snapshot.sequence, recordingIn: parts.store)
    // Only clients of HTTP get identity tokens.
    var keys: IdentityKeys?
    if gateway != nil {
      keys = try await IdentityKeys.loadOrCreate(in: folder, environment: Composition.environment)
    }
    let operations = Operations(
      engine: parts.engine, accounts: parts.accounts,
      identityService: { [log = logger, identity] loginsEnded in
        keys.map { keys in
          IdentityService(
            accounts: parts.accounts, keys: keys, settings: identity,
            environment: Composition.environment, deliver: { $0.log(to: log) },
            loginsEnded: loginsEnded)
        }
      },
      administratorToken: try AdministratorToken.loadOrCreate(in: folder),
      disconnectStore: parts.store, rules: rules, limits: limits,
      version: Canopy.version, now: Composition.now, logger: logger,
      metrics: metrics,
      namespaceSource: NamespaceOpening(
        folders: NamespaceFolders(folder), store: store, engine: namespaceEngine,
        isEmulator: emulator, metrics: metrics, logger: logger),
      namespaceSettings: namespaces)
    let server = LineServer(operations, configuration: listener, logger: logger) {
      [log = logger, listener] host, port in
      let name = listener.certificate == nil ? "line" : "tls"
      let ready = "ready \(name) \(host.contains(":") ? "[\(host)]" : host):\(port)"
      // The server also serves if stdout is closed.
      do { try Output.line(ready) } catch { log.warning("\(ready), but stdout is closed") }
    }
    let httpGate = ConnectionGate(sharingBoundsOf: server.gate)
    let http = gateway.map { configuration in
      Gateway(operations, configuration: configuration, gate: httpGate, logger: logger) {
        [log = logger] host, port in
        let name = configuration.certificate == nil ? "http" : "https"
        let ready = "ready \(name) \(host.contains(":") ? "[\(host)]" : host):\(port)"
        do { try Output.line(ready) } catch { log.warning("\(ready), but stdout is closed") }
      }
    }
    metrics.collect(from: operations, line: server.gate, http: httpGate)
    var reload: CertificateReload?
    if let certificate = listener.certificate {
      reload = await CertificateReload(certificate, logger: logger)
    }
    // Services shut down in reverse order: first the listeners, last the engine, on which all others depend.
    let group = ServiceGroup(
      services: [
        EngineService(parts: parts), TokenPurge(parts: parts, logger: logger),
        UnfinishedWorkService(operations: operations), NamespaceService(operations: operations),
        ListenerService(listeners: [server] + (http.map { [$0] } ?? [])),
      ] + (reload.map { [$0] } ?? []),
      gracefulShutdownSignals: [.sigterm, .sigint], logger: logger)
    let result = await Result { try await group.run() }
    try parts.store.close()
    try result.get()
    logger.info("stopped in good order")
  }

  /// Reads the certificate of both ports; nil for none.
  private func certificate() throws -> TLSCertificate? {
    let file = try Setting.value("tls-certificate", tlsCertificate)
    let key = try Setting.value("tls-key", tlsKey)
    guard let file, let key else {
      guard file == nil, key == nil else {
        throw ValidationError("--tls-certificate and --tls-key go together; name both files")
      }
      return nil
    }
    return try TLSCertificate(certificateFile: file, keyFile: key)
  }

  /// Returns the configuration of the HTTP port; nil for none.
  private func gateway(like listener: LineServer.Configuration) throws -> Gateway.Configuration? {
    var gateway = Gateway.Configuration()
    gateway.isEmulator = emulator
    gateway.allowedOrigins = try Setting.value("allow-origin", allowOrigin)?.all ?? []
    gateway.host = listener.host
    gateway.certificate = listener.certificate
    gateway.threads = listener.threads
    gateway.heartbeatSeconds = listener.heartbeatSeconds
    gateway.timeoutSeconds = listener.timeoutSeconds
    guard !emulator || Gateway.loopback.contains(gateway.host) else {
      throw ValidationError(GatewayError.emulatorIsPublic.sentence)
    }
    switch try Setting.value("http-port", httpPort, default: .port(UInt16(gateway.port))) {
    case .off: return nil
    case .port(let port): gateway.port = Int(port)
    }
    return gateway
  }

  private func positive<N: FixedWidthInteger & ExpressibleByArgument>(
    _ name: String, _ given: N?, default: N
  ) throws -> N {
    let value = try Setting.value(name, given, default: `default`)
    guard value > 0 else { throw ValidationError("--\(name) must be positive") }
    return value
  }
}

extension Result where Failure == any Error {
  fileprivate init(
    isolation: isolated (any Actor)? = #isolation, _ body: () async throws -> Success
  ) async {
    do { self = .success(try await body()) } catch { self = .failure(error) }
  }
}

/// The port for HTTP, or none.
enum HTTPPort: ExpressibleByArgument {
  case off
  case port(UInt16)

  init?(argument: String) {
    if argument == "off" {
      self = .off
    } else if let port = UInt16(argument) {
      self = .port(port)
    } else {
      return nil
    }
  }
}

/// The origins of web pages.
struct Origins: ExpressibleByArgument {
  var all: Set<String> = []

  init?(argument: String) {
    for part in argument.split(separator: ",", omittingEmptySubsequences: false) {
      // A browser sends a scheme and a host, and a port unless it is the default.
      guard let mark = part.firstRange(of: "://"), mark.lowerBound > part.startIndex,
        mark.upperBound < part.endIndex, !part[mark.upperBound...].contains("/"),
        !part.contains(" ")
      else { return nil }
      all.insert(String(part))
    }
  }
}

/// The name of a project of Auth clients.
struct Project: ExpressibleByArgument {
  var name = IdentitySettings().project

  init() {}

  init?(argument: String) {
    let isName =
      (1...100).contains(argument.utf8.count)
      && argument.utf8.allSatisfy { byte in
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
          UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"),
          UInt8(ascii: "."):
          true
        default: false
        }
      }
    guard isName else { return nil }
    name = argument
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

extension SQLiteStore.Durability: ExpressibleByArgument {}
extension Logger.Level: @retroactive ExpressibleByArgument {}
