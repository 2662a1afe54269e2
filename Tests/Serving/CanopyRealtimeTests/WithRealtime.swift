import CanopyAccounts
import CanopyEngine
import CanopyLineServer
import CanopySession
import CanopyTesting
import CanopyTree
import CanopyWire
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOWebSocket
import Testing

@testable import CanopyRealtime

/// The parts of a real server that a test includes.
enum Depth: CaseIterable, Sendable, CustomTestStringConvertible {
  /// The handlers of a connection on a channel without a socket.
  case inProcess
  /// A listener on the loopback interface, with an upgrade from HTTP.
  case socket

  var testDescription: String {
    switch self {
    case .inProcess: "in-process"
    case .socket: "over a socket"
    }
  }
}

/// A server whose clients connect over WebSockets.
final class RealtimeServer: Sendable {
  let depth: Depth
  let parts: LineParts
  let connections: RealtimeConnections
  /// The port of HTTP; nil in the process.
  let port: Int?
  let group: MultiThreadedEventLoopGroup

  init(
    _ depth: Depth, _ parts: LineParts, _ connections: RealtimeConnections, port: Int?,
    _ group: MultiThreadedEventLoopGroup
  ) {
    self.depth = depth
    self.parts = parts
    self.connections = connections
    self.port = port
    self.group = group
  }

  /// The host that clients of this test name, or the local address.
  var host: String { port.map { "localhost:\($0)" } ?? "db.localhost:9000" }

  /// Opens a connection of the realtime protocol, and reads its first message.
  func connect() async throws -> RealtimeClient {
    let client = try await connectWithoutReading()
    let first = try JSONValue(json: try await client.next())
    #expect(first["t"]?.string == "c")
    #expect(first["d"]?["t"]?.string == "h")
    #expect(first["d"]?["d"]?["v"]?.string == "5")
    #expect(first["d"]?["d"]?["h"]?.string == host)
    #expect(first["d"]?["d"]?["ts"]?.integer == parts.clock.now)
    return client
  }

  /// Opens a connection of the realtime protocol.
  func connectWithoutReading() async throws -> RealtimeClient {
    if let port {
      return try await RealtimeClient(
        port: port, path: "/.ws?v=5&ns=default", joinsFrames: true, on: group)
    }
    return try await RealtimeClient(inProcess: connections, joinsFrames: true) { [host] in
      try $0.addRealtime(to: $1, host: host)
    }
  }

  /// Opens a connection of the line protocol over a WebSocket.
  func connectForLines(fields: String = "") async throws -> RealtimeClient {
    if let port {
      return try await RealtimeClient(
        port: port, path: "/line", joinsFrames: false, on: group, fields: fields)
    }
    return try await RealtimeClient(inProcess: connections, joinsFrames: false) {
      try $0.addLine(to: $1)
    }
  }

  /// Replaces the rules.
  func set(rules: String) async throws {
    let reply = await parts.operations.administration(.setRules(rules), as: .administrator)
    if case .failure(let error) = reply.reply { throw error }
  }

  /// Opens an account, and returns its token and its uid.
  func signUp(_ name: String) async throws -> (token: String, uid: String) {
    let completion = await parts.operations.account(
      .signUp(email: "\(name)@example.com", password: "correct horse \(name)", username: name),
      as: .anonymous, from: "192.0.2.9")
    guard case .json(let json) = completion.reply else {
      throw LineClientError.unexpected("\(completion.reply)")
    }
    var output = JSONOutput()
    json.append(to: &output)
    let session = try JSONValue(json: output.text)
    if case .user(let login)? = completion.identity { parts.operations.sessions.remove(login) }
    return (try #require(session["token"]?.string), try #require(session["uid"]?.string))
  }

  /// Writes a value as the server.
  func write(_ path: String, _ json: String) async throws {
    let write = try Write.set(Location(path), WriteValue(json: json))
    _ = try await parts.engine.transact { _ in Decision(write, ()) }
  }
}

/// Rules that allow everything, and declare an index at `/scores`.
let openRules =
  #"{"rules":{".read":true,".write":true,"scores":{".indexOn":["score","a/b"]}}}"#

/// Runs the body of a test with a server.
func withRealtime(
  _ depth: Depth, limits: Limits = Limits(), rules: String? = openRules, isEmulator: Bool = false,
  quotas: WriteQuotas? = nil,
  _ body: (RealtimeServer) async throws -> Void
) async throws {
  let parts = try await LineParts(limits: limits, quotas: quotas)
  let engine = Task { await parts.run() }
  var configuration = RealtimeConnections.Configuration()
  configuration.isEmulator = isEmulator
  configuration.allowedOrigins = ["https://page.example"]
  // The clock does not advance: on a busy machine turns would otherwise end at any request.
  configuration.now = { .uptimeNanoseconds(0) }
  let connections = RealtimeConnections(parts.operations, configuration: configuration)
  let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
  let listener = depth == .socket ? try await listen(connections, on: group) : nil
  let server = RealtimeServer(
    depth, parts, connections, port: listener?.localAddress?.port, group)
  let result: Result<Void, any Error>
  do {
    if let rules { try await server.set(rules: rules) }
    result = .success(try await body(server))
  } catch {
    result = .failure(error)
  }
  parts.journal.gate.open()
  try? await listener?.close().get()
  try await group.shutdownGracefully()
  parts.engine.stop()
  await engine.value
  try result.get()
}

/// Listens for HTTP, and upgrades `/.ws` and `/line`: a small replacement for the listener of the server.
private func listen(
  _ connections: RealtimeConnections, on group: MultiThreadedEventLoopGroup
) async throws -> any Channel {
  @Sendable func upgrader() -> NIOWebSocketServerUpgrader {
    NIOWebSocketServerUpgrader(
      maxFrameSize: connections.frameBytesMax, automaticErrorHandling: true
    ) { channel, head in
      let isLine = head.uri.hasPrefix("/line")
      let mayOpen =
        head.uri.hasPrefix("/.ws")
        || (isLine
          && connections.mayOpenLine(
            origin: head.headers["Origin"].first, host: head.headers["Host"].first,
            from: channel.remoteAddress?.ipAddress ?? "local"))
      return channel.eventLoop.makeSucceededFuture(mayOpen ? HTTPHeaders() : nil)
    } upgradePipelineHandler: { channel, head in
      channel.eventLoop.makeCompletedFuture {
        if head.uri.hasPrefix("/line") {
          try connections.addLine(to: channel)
        } else {
          try connections.addRealtime(to: channel, host: head.headers["Host"].first)
        }
      }
    }
  }
  return try await ServerBootstrap(group: group)
    .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
    .childChannelOption(.allowRemoteHalfClosure, value: true)
    .childChannelInitializer { channel in
      channel.eventLoop.makeCompletedFuture {
        let refusal = Refusal()
        let pipeline = channel.pipeline.syncOperations
        let bound = NIOLoopBound(refusal, eventLoop: channel.eventLoop)
        try pipeline.configureHTTPServerPipeline(
          withServerUpgrade: (
            upgraders: [upgrader()],
            completionHandler: { context in
              context.pipeline.syncOperations.removeHandler(bound.value, promise: nil)
            }
          ))
        try pipeline.addHandler(refusal)
      }
    }
    .bind(host: "127.0.0.1", port: 0).get()
}

/// Answers requests without an upgrade.
private final class Refusal: ChannelInboundHandler, RemovableChannelHandler {
  typealias InboundIn = HTTPServerRequestPart
  typealias OutboundOut = HTTPServerResponsePart

  private var uri = ""

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    switch unwrapInboundIn(data) {
    case .head(let head): uri = head.uri
    case .body: break
    case .end:
      let refusal =
        uri.hasPrefix("/.lp") ? RealtimeConnections.longPollingRefusal : (status: 403, body: "")
      let head = HTTPResponseHead(
        version: .http1_1, status: .init(statusCode: refusal.status),
        headers: ["content-length": "\(refusal.body.utf8.count)"])
      context.write(wrapOutboundOut(.head(head)), promise: nil)
      context.write(
        wrapOutboundOut(.body(.byteBuffer(ByteBuffer(string: refusal.body)))), promise: nil)
      context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
    }
  }
}
