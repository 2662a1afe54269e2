import CanopyEvents
import CanopySession
import CanopyTesting
import CanopyTree
import NIOCore
import NIOPosix
import NIOSSL
import NIOTLS
import Testing

@testable import CanopyGateway

/// HTTP with TLS.
@Suite(.timeLimit(.minutes(20))) struct TLSTests {
  /// The first bytes of a client that speaks TLS.
  private static let hello: [UInt8] = [22, 3, 1, 1, 0, 1, 0]
  private static let alert: [UInt8] = [21, 3, 3, 0, 2, 2, 80]

  @Test func `requests, streams and WebSockets work with TLS`() async throws {
    try await Self.withTLS { server in
      try await HTTPClient.connect(server.port, trusting: .first) { client in
        let put = try await client.request("PUT", "/open/a.json", [:], #"{"x":1}"#)
        #expect(put.status == 200 && put.text == #"{"x":1}"#, "\(put)")
        let large = String(repeating: "x", count: 1_000_000)
        _ = try await client.request("PUT", "/open/large.json", [:], "\"\(large)\"")
        try await client.expect("GET", "/open/large.json", text: "\"\(large)\"")
        try await client.begin("GET", "/open/a.json", ["Accept": "text/event-stream"])
        #expect(try await client.head().status == 200)
        #expect(try await client.event() == #"put {"path":"/","data":{"x":1}}"#)
      }
      try await HTTPClient.connect(server.port, trusting: .first) { client in
        let status = try await client.upgrade("/.ws?v=5&ns=default")
        #expect(status == 101)
        #expect(try await client.message().hasPrefix(#"{"t":"c","d":{"t":"h""#))
      }
      try await HTTPClient.connect(server.port, trusting: .first) { client in
        #expect(try await client.upgrade("/line", ["Origin": "https://localhost"]) == 101)
        try await client.expect(line: "PING", "+\"PONG\"")
      }
    }
  }

  @Test func `a client that does not trust the certificate gets no response`() async throws {
    try await Self.withTLS { server in
      try await HTTPClient.connect(server.port, trusting: .second) { client in
        _ = await #expect(throws: (any Error).self) {
          try await client.request("GET", "/open.json")
        }
      }
      // The port serves others.
      try await HTTPClient.connect(server.port, trusting: .first) { client in
        let response = try await client.request("GET", "/open.json")
        #expect(response.text == "null", "\(response)")
      }
    }
  }

  @Test func `plain HTTP on a port with TLS is answered with an error`() async throws {
    try await Self.withTLS { server in
      try await server.connect { client in
        let response = try await client.request("GET", "/open.json")
        #expect(response.status == 400, "\(response)")
        #expect(response.json?["error"]?.string == "this port speaks TLS; use https", "\(response)")
        #expect(try await client.end() == [])
      }
    }
  }

  @Test func `TLS on a port without TLS ends`() async throws {
    try await withGateway { server in
      try await server.connect { client in
        try await client.send(Self.hello)
        #expect(String(decoding: try await client.end(), as: UTF8.self).hasPrefix("HTTP/1.1 400"))
      }
    }
  }

  @Test func `a handshake that does not end counts as a connection`() async throws {
    try await Self.withTLS(connectionsMax: 1, handshakeSeconds: 300) { server in
      try await server.connect { slow in
        try await slow.send(Self.hello)
        // The connection counts before its handlers are added.
        try await eventually {
          server.gate.count == 1
            && server.parts.operations.memory.used == TLSCertificate.handshakeBytes
              + GatewayConnection.newBytes
        }
        let received = try await server.connect { refused in try await refused.end() }
        #expect(received == Self.alert)
      }
      try await eventually { server.gate.count == 0 && server.parts.operations.memory.used == 0 }
      try await HTTPClient.connect(server.port, trusting: .first) { client in
        let response = try await client.request("GET", "/open.json")
        #expect(response.text == "null", "\(response)")
      }
    }
  }

  @Test func `a shutdown does not wait for handshakes`() async throws {
    try await Self.withTLS(handshakeSeconds: 1_000) { server in
      try await server.connect { slow in
        try await slow.send(Self.hello)
        try await eventually { server.gate.count == 1 }
        await server.shutDown()
        // A server that has not read all may end the connection with a reset.
        let rest = try? await slow.end()
        #expect(rest ?? [] == [])
      }
    }
  }

  @Test func `HTTP is negotiated, and TLS is at least version 1_2`() async throws {
    try await Self.withTLS { server in
      let without = try await Self.negotiated(server.port) { _ in }
      #expect(without == nil)
      for version in [TLSVersion.tlsv12, .tlsv13] {
        let name = try await Self.negotiated(server.port) {
          $0.applicationProtocols = ["h2", "http/1.1"]
          $0.maximumTLSVersion = version
        }
        #expect(name == "http/1.1")
      }
      _ = await #expect(throws: (any Error).self) {
        try await Self.negotiated(server.port) {
          $0.minimumTLSVersion = .tlsv1
          $0.maximumTLSVersion = .tlsv11
        }
      }
    }
  }

  @Test func `a handshake has a group that costs the server little`() async throws {
    try await Self.withTLS { server in
      for group in [NIOTLSCurve.x25519_MLKEM768, .x25519, .secp256r1] {
        let negotiated = try await Self.negotiated(server.port) {
          $0.curves = [group]
          $0.applicationProtocols = ["http/1.1"]
        }
        #expect(negotiated == "http/1.1")
      }
      await #expect(throws: (any Error).self) {
        try await Self.negotiated(server.port) { $0.curves = [.secp384r1] }
      }
    }
  }

  /// Runs a test with a port that has the first certificate.
  private static func withTLS(
    connectionsMax: Int = 100, handshakeSeconds: Int64 = TLSCertificate.handshakeSeconds,
    _ body: (GatewayServer) async throws -> Void
  ) async throws {
    let folder = try TemporaryFolder()
    let files = try TestCertificate.first.write(to: folder)
    let certificate = try TLSCertificate(
      certificateFile: files.certificateFile, keyFile: files.keyFile)
    var limits = Limits()
    limits.connectionsMax = connectionsMax
    try await withGateway(limits: limits) { configuration in
      configuration.certificate = certificate
      configuration.patience.handshakeSeconds = handshakeSeconds
    } _: { server in
      try await body(server)
    }
  }

  /// Returns the protocol that a handshake negotiates.
  private static func negotiated(
    _ port: Int, _ configure: (inout TLSConfiguration) -> Void
  ) async throws -> String? {
    var configuration = TLSConfiguration.makeClientConfiguration()
    configuration.trustRoots = .certificates(
      try NIOSSLCertificate.fromPEMBytes(Array(TestCertificate.first.certificate.utf8)))
    configure(&configuration)
    let context = try NIOSSLContext(configuration: configuration)
    let promise = MultiThreadedEventLoopGroup.singleton.any().makePromise(of: String?.self)
    let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandlers([
            NIOSSLClientHandler(context: context, serverHostname: nil), Handshake(promise),
          ])
        }
      }
      .connect(host: "127.0.0.1", port: port).get()
    let result = await Result { try await promise.futureResult.get() }
    try? await channel.close().get()
    return try result.get()
  }
}

/// Reports the end of a handshake.
private final class Handshake: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer

  private let promise: EventLoopPromise<String?>

  init(_ promise: EventLoopPromise<String?>) {
    self.promise = promise
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    if case TLSUserEvent.handshakeCompleted(let negotiated) = event { promise.succeed(negotiated) }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    promise.fail(error)
    context.close(promise: nil)
  }

  func channelInactive(context: ChannelHandlerContext) {
    promise.fail(ChannelError.eof)
  }
}

extension Result where Failure == any Error {
  fileprivate init(
    isolation: isolated (any Actor)? = #isolation, _ body: () async throws -> Success
  ) async {
    do { self = .success(try await body()) } catch { self = .failure(error) }
  }
}
