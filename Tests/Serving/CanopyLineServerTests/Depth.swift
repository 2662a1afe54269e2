import CanopyAccounts
import CanopyEngine
import CanopyIdentity
import CanopySession
import CanopyTesting
import CanopyTree
import Logging
import ServiceLifecycle
import Testing

@testable import CanopyLineServer

/// The parts of a real server that a test includes.
enum Depth: CaseIterable, Sendable, CustomTestStringConvertible {
  /// The connection's handler on a channel without a socket.
  case inProcess
  /// A listener on the loopback interface.
  case socket

  var testDescription: String {
    switch self {
    case .inProcess: "in-process"
    case .socket: "over a socket"
    }
  }
}

/// The settings of a server that a test may change.
struct TestSettings: Sendable {
  var limits = Limits()
  var accounts = AccountSettings()
  var engine = Engine.Configuration()
  var hashersMax = 2
  var shutdownSeconds: Int64 = 10
  /// The bytes that the kernel, or its replacement, holds for a client that does not read.
  var receiveBytes: Int?
  /// The journal, perhaps that of an earlier server.
  var journal = FaultyJournal()
  /// The folder of the rules; nil if they are not stored.
  var rulesFolder: String?
  /// The settings of identity tokens; nil for a server without them.
  var identity: IdentitySettings?
  /// The namespaces besides the default one; nil for none.
  var namespaces: MemoryNamespaces?
  var namespaceSettings = Namespaces.Settings()
  /// The bounds on writes; nil for none.
  var quotas: WriteQuotas?
  var freeSpace = FreeSpace()
  /// The bytes that a user may store; nil for no bound.
  var storageBytesMax: Int?
}

/// A server of one depth, and its parts.
final class TestServer: Sendable {
  let depth: Depth
  let parts: LineParts
  let settings: TestSettings
  let port: Int
  private let open: @Sendable () async throws -> any LineClient
  /// Shuts down gracefully, and returns at the end.
  let shutDown: @Sendable () async throws -> Void
  /// Cancels the listener's task, and returns when it has ended; nil without a listener.
  let cancel: (@Sendable () async throws -> Void)?

  init(
    _ depth: Depth, _ parts: LineParts, _ settings: TestSettings, port: Int,
    open: @escaping @Sendable () async throws -> any LineClient,
    shutDown: @escaping @Sendable () async throws -> Void,
    cancel: (@Sendable () async throws -> Void)? = nil
  ) {
    self.depth = depth
    self.parts = parts
    self.settings = settings
    self.port = port
    self.open = open
    self.shutDown = shutDown
    self.cancel = cancel
  }

  /// The administrator's token for AUTH.
  var administratorToken: String { parts.administratorToken.text }

  /// The tree that readers see.
  var root: Node { parts.engine.root }

  /// Opens a connection.
  func connect() async throws -> any LineClient {
    try await open()
  }

  /// Opens a connection of a new user.
  func connect(as name: String) async throws -> any LineClient {
    let client = try await connect()
    try await client.value(Self.signUp(name))
    return client
  }

  /// Opens a connection of the administrator.
  func connectAsAdministrator() async throws -> any LineClient {
    let client = try await connect()
    try await client.value("AUTH \(administratorToken)")
    return client
  }

  static func signUp(_ name: String) -> String {
    "SIGNUP \(email(name)) \"\(password(name))\" \(name)"
  }

  static func email(_ name: String) -> String { "\(name)@example.org" }

  static func password(_ name: String) -> String { "secret words of \(name)" }

  /// Calls the function of the same name, which waits until a condition is true.
  func eventually(
    sourceLocation: SourceLocation = #_sourceLocation, filePath: String = #filePath,
    isolation: isolated (any Actor)? = #isolation, _ isTrue: () async throws -> Bool
  ) async throws {
    try await CanopyTesting.eventually(
      sourceLocation: sourceLocation, filePath: filePath, isolation: isolation, isTrue)
  }
}

/// Runs the body of a test with a server of the depth.
func withServer(
  _ depth: Depth, _ change: (inout TestSettings) -> Void = { _ in },
  _ body: (TestServer) async throws -> Void
) async throws {
  var settings = TestSettings()
  change(&settings)
  let parts = try await LineParts(
    limits: settings.limits, settings: settings.accounts, engine: settings.engine,
    hashersMax: settings.hashersMax, journal: settings.journal,
    rulesFolder: settings.rulesFolder, identity: settings.identity,
    namespaces: settings.namespaces,
    namespaceSettings: settings.namespaceSettings, quotas: settings.quotas,
    freeSpace: settings.freeSpace, storageBytesMax: settings.storageBytesMax)
  let engine = Task { await parts.run() }
  let result: Result<Void, any Error>
  do {
    switch depth {
    case .inProcess: try await withChannels(parts, settings, body)
    case .socket: try await withListener(parts, settings, body)
    }
    result = .success(())
  } catch {
    result = .failure(error)
  }
  parts.journal.gate.open()
  parts.hash.release()
  parts.engine.stop()
  await engine.value
  try result.get()
}

private func withListener(
  _ parts: LineParts, _ settings: TestSettings, _ body: (TestServer) async throws -> Void
) async throws {
  var configuration = LineServer.Configuration()
  configuration.port = 0
  configuration.threads = 2
  configuration.shutdownSeconds = settings.shutdownSeconds
  // On a busy machine a client that does not read may be silent for a minute.
  configuration.timeoutSeconds = 3_600
  let (ports, announce) = AsyncStream.makeStream(of: Int.self)
  let server = LineServer(parts.operations, configuration: configuration, logger: parts.log.logger)
  {
    announce.yield($1)
  }
  let group = ServiceGroup(services: [server], logger: parts.log.logger)
  let running = Task {
    defer { announce.finish() }
    // As the program does, before any port is open.
    try await parts.operations.carryOutAbandoned()
    try await group.run()
  }
  guard let port = await ports.first(where: { _ in true }) else { return try await running.value }
  let clients = ClientList()
  let test = TestServer(.socket, parts, settings, port: port) {
    let client = try await LineSocketClient(port: port, receiveBytes: settings.receiveBytes)
    await clients.add(client)
    return client
  } shutDown: {
    await group.triggerGracefulShutdown()
    try await running.value
  } cancel: {
    running.cancel()
    _ = await running.result
  }
  let result: Result<Void, any Error>
  do { result = .success(try await body(test)) } catch { result = .failure(error) }
  parts.journal.gate.open()
  parts.hash.release()
  await clients.disconnect()
  await group.triggerGracefulShutdown()
  _ = await running.result
  try result.get()
}

/// The clients of a test, which are disconnected at its end.
actor ClientList {
  private var clients: [any LineClient] = []

  func add(_ client: any LineClient) {
    clients.append(client)
  }

  func disconnect() async {
    for client in clients { await client.disconnect() }
    clients = []
  }
}
