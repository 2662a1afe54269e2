import CanopyAccounts
import CanopyEngine
import CanopyEvents
import CanopyGateway
import CanopyIdentity
import CanopyLineServer
import CanopySession
import CanopyTesting
import CanopyTree
import CanopyWire
import Dispatch
import Foundation
import Logging
import ServiceLifecycle
import Synchronization
import Testing

@testable import CanopyClient

/// The protocols between a client and a server.
enum WireKind: CaseIterable, Sendable, CustomTestStringConvertible {
  /// `canopy://`
  case line
  /// `http://`: a WebSocket.
  case realtime

  var testDescription: String {
    switch self {
    case .line: "the line protocol"
    case .realtime: "a WebSocket"
    }
  }
}

/// A server on a socket for client tests, with all external inputs under the test's control.
final class Backend: Sendable {
  let parts: LineParts
  let port: Int
  let kind: WireKind
  private let clients = Mutex<[Client]>([])

  private struct Client {
    weak var repository: Repository?
  }

  fileprivate init(_ parts: LineParts, port: Int, _ kind: WireKind) {
    self.parts = parts
    self.port = port
    self.kind = kind
  }

  /// Returns the URL of a port of this machine.
  func url(port: Int? = nil) -> String {
    "\(kind == .line ? "canopy" : "http")://127.0.0.1:\(port ?? self.port)"
  }

  /// The root of the server's tree.
  var root: Node { parts.engine.root }

  /// Returns the node at a path of the server's tree.
  func node(_ path: String) throws -> Node { root.at(try Path(path)) }

  /// Replaces the rules.
  func replaceRules(by text: String) async throws {
    let completion = await parts.operations.administration(.setRules(text), as: .administrator)
    if case .failure(let error) = completion.reply { throw error }
  }

  /// Returns a new client that is signed in as the administrator.
  func client(
    _ change: (inout DatabaseOptions) -> Void = { _ in }
  ) async throws -> Database {
    let database = try anonymousClient(change)
    try await Auth.auth(database: database).signIn(
      withAdministratorToken: parts.administratorToken.text)
    return database
  }

  /// Returns a new anonymous client.
  func anonymousClient(
    through port: Int? = nil, _ change: (inout DatabaseOptions) -> Void = { _ in }
  ) throws -> Database {
    var options = DatabaseOptions()
    options.backoff = Backoff(first: 1, max: 50)
    options.logger = Logger(label: "client") { _ in SwiftLogNoOpLogHandler() }
    change(&options)
    let database = try Database(url: url(port: port), options: options)
    database.callbackQueue = DispatchQueue(label: "callbacks")
    clients.withLock { $0.append(Client(repository: database.repository)) }
    return database
  }

  /// Runs a test's body, then disconnects the clients that are left. Otherwise they would try to connect to the ended
  /// server until all tests have run.
  fileprivate func use(_ body: (Backend) async throws -> Void) async throws {
    defer {
      for client in clients.withLock({ $0 }) { client.repository?.use { $0.goOffline() } }
    }
    try await body(self)
  }
}

/// Runs a test's body with a server.
func withBackend(
  limits: Limits = Limits(), quotas: WriteQuotas? = nil, storageBytesMax: Int? = nil,
  _ configure: (inout LineServer.Configuration) -> Void = { _ in },
  _ body: (Backend) async throws -> Void
) async throws {
  try await withLineServer(
    limits: limits, quotas: quotas, storageBytesMax: storageBytesMax, configure
  ) {
    try await Backend($0, port: $1, .line).use(body)
  }
}

/// Runs a test's body with a server that speaks a protocol.
///
/// - Parameters:
///   - certificate: the certificate of TLS; nil for none.
///   - quotas: the bounds on writes; nil for none.
///   - storageBytesMax: the bytes that a user may store; nil for no bound.
func withBackend(
  over kind: WireKind, certificate: TLSCertificate? = nil, quotas: WriteQuotas? = nil,
  storageBytesMax: Int? = nil, _ body: (Backend) async throws -> Void
) async throws {
  switch kind {
  case .line:
    try await withBackend(
      quotas: quotas, storageBytesMax: storageBytesMax, { $0.certificate = certificate }, body)
  case .realtime:
    var configuration = Gateway.Configuration()
    configuration.port = 0
    configuration.threads = 1
    configuration.shutdownSeconds = 1
    configuration.certificate = certificate
    try await withGateway(configuration, quotas, storageBytesMax: storageBytesMax, body)
  }
}

private func withGateway(
  _ configuration: Gateway.Configuration, _ quotas: WriteQuotas?, storageBytesMax: Int?,
  _ body: (Backend) async throws -> Void
) async throws {
  let limits = Limits()
  let parts = try await LineParts(
    limits: limits, identity: IdentitySettings(), quotas: quotas, storageBytesMax: storageBytesMax)
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
  let result: Result<Void, any Error>
  do { result = .success(try await Backend(parts, port: port, .realtime).use(body)) } catch {
    result = .failure(error)
  }
  parts.journal.gate.open()
  await group.triggerGracefulShutdown()
  _ = await running.result
  parts.engine.stop()
  await engine.value
  try result.get()
}

/// Values from callbacks, in order, for which a test can wait.
final class Received<Value: Sendable>: Sendable {
  private struct State {
    var values: [Value] = []
    var waiting: (isEnough: @Sendable ([Value]) -> Bool, CheckedContinuation<Void, Never>)?
  }

  private let state = Mutex(State())

  var values: [Value] { state.withLock { $0.values } }

  func add(_ value: Value) {
    let ready = state.withLock { state -> CheckedContinuation<Void, Never>? in
      state.values.append(value)
      guard let (isEnough, continuation) = state.waiting, isEnough(state.values) else { return nil }
      state.waiting = nil
      return continuation
    }
    ready?.resume()
  }

  /// Waits until the received values satisfy a condition.
  @discardableResult
  func wait(until isEnough: @escaping @Sendable ([Value]) -> Bool) async -> [Value] {
    await withCheckedContinuation { continuation in
      let isReady = state.withLock { state in
        if isEnough(state.values) { return true }
        state.waiting = (isEnough, continuation)
        return false
      }
      if isReady { continuation.resume() }
    }
    return values
  }

  /// Waits for a number of values.
  @discardableResult
  func wait(for count: Int) async -> [Value] {
    await wait { $0.count >= count }
  }
}

/// Returns a node from its JSON; for invalid text, a string with the error.
func json(_ text: String) -> Node {
  (try? Node(json: text)) ?? Node("not JSON: \(text)")
}

extension DataSnapshot {
  /// The value as text; `nothing` for absent data.
  var text: String { exists() ? "\(value ?? "nil")" : "nothing" }
}
