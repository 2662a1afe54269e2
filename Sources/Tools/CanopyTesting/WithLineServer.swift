public import CanopyTree
import CanopyEngine
import CanopyIdentity
public import CanopyLineServer
public import CanopySession
import ServiceLifecycle

/// Runs the body of a test with a server that listens on a free port of the loopback interface, then shuts the server
/// down.
///
/// - Parameter body: receives the parts of the server, and its port.
public func withLineServer(
  limits: Limits = Limits(), quotas: WriteQuotas? = nil, freeSpace: FreeSpace = FreeSpace(),
  storageBytesMax: Int? = nil, _ configure: (inout LineServer.Configuration) -> Void = { _ in },
  _ body: (LineParts, Int) async throws -> Void
) async throws {
  let parts = try await LineParts(
    limits: limits, identity: IdentitySettings(), quotas: quotas, freeSpace: freeSpace,
    storageBytesMax: storageBytesMax)
  let engine = Task { await parts.run() }
  var configuration = LineServer.Configuration()
  configuration.port = 0
  configuration.threads = 1
  configuration.shutdownSeconds = 1
  configure(&configuration)
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
  let result: Result<Void, any Error>
  do { result = .success(try await body(parts, port)) } catch { result = .failure(error) }
  parts.journal.gate.open()
  await group.triggerGracefulShutdown()
  _ = await running.result
  parts.engine.stop()
  await engine.value
  try result.get()
}
