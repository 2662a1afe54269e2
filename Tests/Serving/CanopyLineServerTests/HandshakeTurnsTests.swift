import CanopySession
import NIOCore
import NIOEmbedded
import NIOTLS
import Testing

@testable import CanopyEvents

/// Handshakes of TLS that take turns.
struct HandshakeTurnsTests {
  /// Stands for TLS: notes the bytes and the ends of input that come in, and completes the handshake on demand.
  private final class Recorder: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    var parts: [Int] = []
    var completes = false

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      parts.append(unwrapInboundIn(data).readableBytes)
      guard completes else { return }
      context.fireUserInboundEventTriggered(
        TLSUserEvent.handshakeCompleted(negotiatedProtocol: nil))
    }

    func channelReadComplete(context: ChannelHandlerContext) {
      parts.append(0)
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
      parts.append(-1)
    }
  }

  /// Counts the reads that reach the socket.
  private final class ReadCounter: ChannelOutboundHandler {
    typealias OutboundIn = ByteBuffer
    var count = 0

    func read(context: ChannelHandlerContext) {
      count += 1
      context.read()
    }
  }

  /// The connections of a loop, whose next turn is taken by hand.
  private final class Loop {
    let loop = EmbeddedEventLoop()
    private(set) lazy var turns = LoopTurns(loop: loop) { [unowned self] in next = $0 }
    private var next: (() -> Void)?
    let memory = MemoryBudget(bytesMax: 1024 * 1024)

    /// Takes a turn. Returns whether somebody waited for it.
    func takeTurn() -> Bool {
      guard let turn = next else { return false }
      next = nil
      turn()
      return true
    }

    func connect() throws -> (channel: EmbeddedChannel, tls: Recorder, reads: ReadCounter) {
      let (tls, reads) = (Recorder(), ReadCounter())
      let channel = EmbeddedChannel(loop: loop)
      let handshake = HandshakeGuard(memory, seconds: 10)
      try channel.pipeline.syncOperations.addHandlers([
        reads, HandshakeTurns(turns, handshake), tls, handshake,
      ])
      try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
      return (channel, tls, reads)
    }
  }

  private static func bytes(_ count: Int) -> ByteBuffer {
    ByteBuffer(repeating: 0, count: count)
  }

  @Test func `one step of one handshake takes place between two looks for input`() throws {
    let loop = Loop()
    let clients = try (0..<3).map { _ in try loop.connect() }
    for client in clients { try client.channel.writeInbound(Self.bytes(500)) }
    #expect(clients.allSatisfy { $0.tls.parts.isEmpty })
    var counts: [Int] = []
    while loop.takeTurn() { counts.append(clients.count { !$0.tls.parts.isEmpty }) }
    #expect(counts == [1, 2, 3])
    #expect(clients.allSatisfy { $0.tls.parts == [500, 0] })
  }

  @Test func `nothing is read while bytes wait, and the end of the input follows them`() throws {
    let loop = Loop()
    let client = try loop.connect()
    client.channel.read()
    #expect(client.reads.count == 1)
    try client.channel.writeInbound(Self.bytes(300))
    client.channel.read()
    try client.channel.writeInbound(Self.bytes(200))
    client.channel.pipeline.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
    #expect(client.reads.count == 1 && client.tls.parts.isEmpty)
    #expect(loop.takeTurn() && !loop.takeTurn())
    #expect(client.tls.parts == [500, 0, -1] && client.reads.count == 2)
  }

  @Test func `the bytes of a handshake are charged until it is complete`() throws {
    let loop = Loop()
    let client = try loop.connect()
    try client.channel.writeInbound(Self.bytes(10_000))
    #expect(loop.memory.used == TLSCertificate.handshakeBytes + 10_000)
    #expect(loop.takeTurn())
    try client.channel.writeInbound(Self.bytes(60_000))
    #expect(loop.memory.used == TLSCertificate.connectionBytes)
    client.tls.completes = true
    #expect(loop.takeTurn())
    #expect(loop.memory.used == TLSCertificate.connectionBytes)
    try client.channel.close().wait()
    #expect(loop.memory.used == 0)
  }

  @Test func `bytes after the handshake do not wait`() throws {
    let loop = Loop()
    let client = try loop.connect()
    client.tls.completes = true
    try client.channel.writeInbound(Self.bytes(300))
    #expect(loop.takeTurn() && client.tls.parts == [300, 0])
    try client.channel.writeInbound(Self.bytes(70))
    #expect(client.tls.parts == [300, 0, 70, 0] && !loop.takeTurn())
    #expect(throws: (any Error).self) {
      try client.channel.pipeline.syncOperations.handler(type: HandshakeTurns.self)
    }
  }

  @Test func `a connection that ends while it waits has no turn`() throws {
    let loop = Loop()
    let client = try loop.connect()
    try client.channel.writeInbound(Self.bytes(300))
    try client.channel.close().wait()
    #expect(loop.takeTurn() && !loop.takeTurn())
    #expect(client.tls.parts.isEmpty)
  }
}
