import CanopyAccounts
import CanopyEngine
import CanopyEvents
import CanopyIdentity
import CanopySession
import CanopyTesting
import CanopyTree
import CanopyWire
import ServiceLifecycle
import Testing

@testable import CanopyGateway

/// An HTTP port on the loopback interface, and the parts behind it.
struct GatewayServer {
  let parts: LineParts
  let port: Int
  let gate: ConnectionGate
  /// Begins a graceful shutdown.
  let shutDown: () async -> Void

  /// Connects a client while `body` runs.
  func connect<R: Sendable>(_ body: (HTTPClient) async throws -> R) async throws -> R {
    try await HTTPClient.connect(port, body)
  }

  /// Opens an account, and returns its token and its uid.
  func signUp(_ name: String) async throws -> (token: String, uid: String) {
    let completion = await parts.operations.account(
      .signUp(email: "\(name)@example.org", password: "engine of 1843", username: name),
      as: .anonymous, from: "local")
    guard case .json(let json) = completion.reply else {
      throw LineClientError.unexpected("\(completion.reply)")
    }
    var output = JSONOutput()
    json.append(to: &output)
    let reply = try JSONValue(json: output.text)
    return (try #require(reply["token"]?.string), try #require(reply["uid"]?.string))
  }

  /// The field with the administrator's credential.
  var administrator: [String: String] {
    ["Authorization": "Bearer \(parts.administratorToken.text)"]
  }

  /// Replaces the rules.
  func set(rules: String) async throws {
    let completion = await parts.operations.administration(
      .setRules(rules), as: .administrator)
    if case .failure(let error) = completion.reply { throw error }
  }
}

/// The rules of most tests: everybody may read and write below `/open`.
let openRules = """
  {"rules": {"open": {".read": true, ".write": true, "indexed": {".indexOn": ["n", ".value"]}},
   "users": {"$uid": {".read": "auth.uid == $uid", ".write": "auth.uid == $uid"}}}}
  """

/// Runs a test with an HTTP port, then shuts it down.
func withGateway(
  limits: Limits = Limits(), rules: String? = openRules, namespaces: MemoryNamespaces? = nil,
  namespaceSettings: Namespaces.Settings = Namespaces.Settings(), quotas: WriteQuotas? = nil,
  freeSpace: FreeSpace = FreeSpace(), storageBytesMax: Int? = nil,
  engine engineConfiguration: Engine.Configuration = .forTests,
  _ configure: (inout Gateway.Configuration) -> Void = { _ in },
  _ body: (GatewayServer) async throws -> Void
) async throws {
  var configuration = Gateway.Configuration()
  configuration.port = 0
  configuration.threads = 1
  configuration.shutdownSeconds = 1
  // No events that a test does not expect, however slow the machine is.
  configuration.keepAliveMilliseconds = 600_000
  configure(&configuration)
  var identity = IdentitySettings()
  identity.isEmulator = configuration.isEmulator
  let parts = try await LineParts(
    limits: limits, engine: engineConfiguration, identity: identity, namespaces: namespaces,
    namespaceSettings: namespaceSettings, quotas: quotas, freeSpace: freeSpace,
    storageBytesMax: storageBytesMax)
  let engine = Task { await parts.run() }
  let gate = ConnectionGate(
    connectionsMax: limits.connectionsMax, perNetworkMax: limits.connectionsPerAddressMax)
  let (ports, announce) = AsyncStream.makeStream(of: Int.self)
  let gateway = Gateway(
    parts.operations, configuration: configuration, gate: gate, logger: parts.log.logger
  ) { announce.yield($1) }
  let group = ServiceGroup(services: [gateway], logger: parts.log.logger)
  let running = Task {
    defer { announce.finish() }
    try await group.run()
  }
  guard let port = await ports.first(where: { _ in true }) else { return try await running.value }
  let server = GatewayServer(parts: parts, port: port, gate: gate) {
    await group.triggerGracefulShutdown()
  }
  let result: Result<Void, any Error>
  do {
    if let rules { try await server.set(rules: rules) }
    result = .success(try await body(server))
  } catch {
    result = .failure(error)
  }
  parts.journal.gate.open()
  await group.triggerGracefulShutdown()
  let ending = await running.result
  parts.engine.stop()
  await engine.value
  try result.get()
  try ending.get()
}
