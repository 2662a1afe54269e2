import ArgumentParser
import CanopyAccounts
import CanopyBackup
import CanopyEngine
import CanopyEvents
import CanopyGateway
import CanopyIdentity
import CanopyLineServer
import CanopySession
import CanopySQLite
import CanopySystem
import CanopyTree
import Foundation
import Logging

extension Serve {
  /// The settings of a server: its options, or the environment, or the defaults.
  struct Settings {
    let folder: String
    /// The URL of the database of a server with several nodes; nil for a data folder with a database of its own.
    let postgres: String?
    let logger: Logger
    /// The last lines of the log.
    let logLines: LogLines
    let store: SQLiteStore.Configuration
    let backups: Backups.Settings
    /// The time from one scrub to the next; nil for none.
    let scrubEvery: Duration?
    /// Without the indexes of the rules.
    let engine: Engine.Configuration
    let accounts: AccountSettings
    let hasher: PasswordHasher
    let identity: IdentitySettings
    let listener: LineServer.Configuration
    /// The HTTP port; nil for none.
    let gateway: Gateway.Configuration?
    fileprivate(set) var limits: Limits
    fileprivate(set) var namespaces: Namespaces.Settings
    /// Whether the writes of users on this machine do not count.
    let exemptsThisMachine: Bool
    /// Whether the process may open too few files for the limits that the options ask for.
    fileprivate var isReduced = false
  }

  /// Returns the settings.
  ///
  /// - Throws: `ValidationError` for a value that is not allowed; `OpenFilesError`; `TLSCertificateError`.
  func settings() throws -> Settings {
    let folder = try folder.folder()
    let listener = try listener(in: folder)
    var namespaces = Namespaces.Settings()
    namespaces.openMax = try positive(
      "namespaces-max", namespacesMax, default: namespaces.openMax)
    let logLines = LogLines(now: Composition.now)
    let postgres = try Setting.value("postgres", postgres)
    if postgres != nil { try checkNode() }
    var settings = Settings(
      folder: folder, postgres: postgres, logger: try logger(keeping: logLines), logLines: logLines,
      store: try store(), backups: try backups(), scrubEvery: try scrubInterval(),
      engine: try engine(),
      accounts: try accounts(), hasher: try hasher(), identity: try identity(),
      listener: listener, gateway: try gateway(like: listener), limits: try limits(),
      namespaces: namespaces,
      exemptsThisMachine: try Setting.value(
        "writes-on-this-machine", writesOnThisMachine, default: .exempt) == .exempt)
    try settings.fitOpenFiles()
    return settings
  }

  /// Checks the options of a server whose data is in PostgreSQL.
  private func checkNode() throws {
    try PostgresOption.check()
    guard try Setting.value("durability", durability, default: .full) == .full else {
      throw ValidationError(
        "--durability relaxed is for data folders; with --postgres the database decides when a write is stored"
      )
    }
    guard try Setting.value("backup-every", backupEvery) == nil else {
      throw ValidationError(
        "--backup-every is for data folders; with --postgres use PostgreSQL's own backup")
    }
    guard try Setting.value("scrub-every", scrubEvery) == nil else {
      throw ValidationError(
        "--scrub-every is for data folders; with --postgres use PostgreSQL's own checksums")
    }
    guard !acceptLoss else {
      throw ValidationError("--accept-loss is for data folders; leave it out with --postgres")
    }
  }

  /// - Parameter lines: keeps the last lines.
  private func logger(keeping lines: LogLines) throws -> Logger {
    lines.level.set(try Setting.value("log-level", logLevel, default: .info))
    let isJournal = ServiceManager.journalHasStandardError(
      environment: ProcessInfo.processInfo.environment)
    return Logger(label: "canopy") {
      lines.handler(
        before: isJournal
          ? JournalLog() as any LogHandler : StreamLogHandler.standardError(label: $0))
    }
  }

  private func store() throws -> SQLiteStore.Configuration {
    var store = SQLiteStore.Configuration()
    store.durability = try Setting.value("durability", durability, default: .full)
    store.retainedCommits = try positive(
      "retained-commits", retainedCommits, default: store.retainedCommits)
    store.retainedBytes = try positive(
      "retained-bytes", retainedBytes, default: store.retainedBytes)
    let retained = try positive(
      "retained-seconds", retainedSeconds, default: store.retainedMilliseconds / 1000)
    guard retained <= 1_000_000_000_000 else {
      throw ValidationError("--retained-seconds must be at most 1000000000000")
    }
    store.retainedMilliseconds = retained * 1000
    store.acceptsLoss = acceptLoss
    return store
  }

  private func backups() throws -> Backups.Settings {
    var backups = Backups.Settings()
    if let every = try Setting.value("backup-every", backupEvery) {
      guard 1...1_000_000_000 ~= every else {
        throw ValidationError("--backup-every must be from 1 to 1000000000")
      }
      backups.every = .seconds(every)
    }
    backups.kept = try positive("backups-kept", backupsKept, default: backups.kept)
    return backups
  }

  private func scrubInterval() throws -> Duration? {
    let every = try Setting.value("scrub-every", scrubEvery, default: 604_800)
    guard 0...1_000_000_000 ~= every else {
      throw ValidationError("--scrub-every must be from 0 to 1000000000")
    }
    return every == 0 ? nil : .seconds(every)
  }

  private func engine() throws -> Engine.Configuration {
    var engine = Engine.Configuration()
    engine.checkpointEvery = try positive(
      "checkpoint-every", checkpointEvery, default: engine.checkpointEvery)
    engine.checkpointBytes = try positive(
      "checkpoint-bytes", checkpointBytes, default: engine.checkpointBytes)
    let checkpointAfter = try positive(
      "checkpoint-after", checkpointAfter, default: engine.checkpointAfter.components.seconds)
    guard checkpointAfter <= 1_000_000_000 else {
      throw ValidationError("--checkpoint-after must be at most 1000000000")
    }
    engine.checkpointAfter = .seconds(checkpointAfter)
    return engine
  }

  private func accounts() throws -> AccountSettings {
    var settings = AccountSettings()
    settings.signUpsMax = try positive(
      "signups-per-minute", signupsPerMinute, default: settings.signUpsMax)
    settings.loginsMax = try positive(
      "logins-per-minute", loginsPerMinute, default: settings.loginsMax)
    return settings
  }

  private func hasher() throws -> PasswordHasher {
    PasswordHasher(
      concurrentMax: try positive("hashers-max", hashersMax, default: 2),
      waitingMax: try positive("hashes-waiting-max", hashesWaitingMax, default: 64),
      waitingPerNetworkMax: try positive(
        "hashes-waiting-per-address-max", hashesWaitingPerAddressMax, default: 32))
  }

  private func identity() throws -> IdentitySettings {
    var identity = IdentitySettings()
    identity.project = try Setting.value("project", project, default: Project()).name
    identity.isEmulator = emulator
    return identity
  }

  private func limits() throws -> Limits {
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
    try bound(writesOf: &limits)
    return limits
  }

  private func bound(writesOf limits: inout Limits) throws {
    limits.writesPerSecond = try positive(
      "writes-per-second", writesPerSecond, default: limits.writesPerSecond)
    limits.writeBytesPerSecond = try positive(
      "write-bytes-per-second", writeBytesPerSecond, default: limits.writeBytesPerSecond)
    limits.writesPerSecondPerAddress = try positive(
      "writes-per-second-per-address", writesPerSecondPerAddress,
      default: limits.writesPerSecondPerAddress)
    limits.writeBytesPerSecondPerAddress = try positive(
      "write-bytes-per-second-per-address", writeBytesPerSecondPerAddress,
      default: limits.writeBytesPerSecondPerAddress)
    limits.writeBurstSeconds = try positive(
      "write-burst-seconds", writeBurstSeconds, default: limits.writeBurstSeconds)
    limits.storageBytesMax = try positive(
      "storage-bytes-max", storageBytesMax, default: limits.storageBytesMax)
    limits.treeMax = try bound("tree-max", treeMax, default: MachineMemory.available() / 2)
    limits.treeBytesPerDayPerAddress = try bound(
      "tree-bytes-per-day-per-address", treeBytesPerDayPerAddress, default: limits.treeMax / 4)
    limits.freeBytesMin = try bound(
      "free-bytes-min", freeBytesMin, default: limits.freeBytesMin)
  }

  private func listener(in folder: String) throws -> LineServer.Configuration {
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
    return listener
  }

  /// Reads the certificate of both ports; nil for none.
  private func certificate() throws -> TLSCertificate? {
    let file = try Setting.value("tls-certificate", tlsCertificate).map(Setting.path)
    let key = try Setting.value("tls-key", tlsKey).map(Setting.path)
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
    gateway.threads = try Setting.value("threads", threads, default: gateway.threads)
    gateway.heartbeatSeconds = listener.heartbeatSeconds
    gateway.timeoutSeconds = listener.timeoutSeconds
    guard !emulator || Gateway.loopback.contains(gateway.host) else {
      throw ValidationError(GatewayError.emulatorIsPublic.sentence)
    }
    switch try Setting.value("http-port", httpPort, default: .port(UInt16(gateway.port))) {
    case .off: return nil
    case .port(let port): gateway.port = Int(port)
    }
    guard gateway.port == 0 || gateway.port != listener.port else {
      throw ValidationError("--port and --http-port must be different ports")
    }
    return gateway
  }

  /// Returns a number that may be 0.
  private func bound(_ name: String, _ given: Int?, default: Int) throws -> Int {
    let value = try Setting.value(name, given, default: `default`)
    guard value >= 0 else { throw ValidationError("--\(name) must not be negative") }
    return value
  }

  private func positive<N: FixedWidthInteger & ExpressibleByArgument>(
    _ name: String, _ given: N?, default: N
  ) throws -> N {
    let value = try Setting.value(name, given, default: `default`)
    guard value > 0 else { throw ValidationError("--\(name) must be positive") }
    return value
  }
}

extension Serve.Settings {
  /// Lowers the limits to the files that the process may open.
  fileprivate mutating func fitOpenFiles() throws {
    let room = try OpenFiles.raised().division(
      threads: listener.threads + (gateway?.threads ?? 0), namespacesMax: namespaces.openMax)
    isReduced = room.connections < limits.connectionsMax || room.namespaces < namespaces.openMax
    limits.connectionsMax = min(room.connections, limits.connectionsMax)
    namespaces.openMax = room.namespaces
  }

  func noteReduction() {
    guard isReduced else { return }
    logger.notice(
      "the limit of open files leaves room for fewer connections or namespaces than the options",
      metadata: [
        "connections": "\(limits.connectionsMax)", "namespaces": "\(namespaces.openMax)",
      ])
  }

  func warnOfPlainText() {
    guard listener.certificate == nil, !Gateway.loopback.contains(listener.host) else { return }
    logger.warning(
      "other machines can connect without TLS: passwords are sent unencrypted",
      metadata: ["host": "\(listener.host)"])
  }
}
