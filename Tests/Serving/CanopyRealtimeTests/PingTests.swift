import CanopyRealtimeWire
import NIOCore
import NIOEmbedded
import NIOWebSocket
import Testing

@testable import CanopyRealtime

/// Checks of clients: the frames `ping` and `pong`.
@Suite(.timeLimit(.minutes(20))) struct PingTests {
  private static func ping(_ number: Int) -> WebSocketFrame {
    WebSocketFrame(
      fin: true, opcode: .ping, maskKey: [0, 0, 0, 0], data: ByteBuffer(string: "\(number)"))
  }

  private static func pong(_ text: String) -> ByteBuffer {
    ByteBuffer(bytes: [0x8A, UInt8(text.utf8.count)] + Array(text.utf8))
  }

  @Test func `a client of lines that does not read gets one pong when it reads again`() throws {
    let channel = EmbeddedChannel()
    let raw = RawOutput()
    try channel.pipeline.syncOperations.addHandlers([
      raw, WebSocketLines(raw, nil, lineBytesMax: 100),
    ])
    try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
    try channel.writeInbound(Self.ping(1))
    #expect(try channel.readOutbound(as: ByteBuffer.self) == Self.pong("1"))
    channel.isWritable = false
    for number in 2...1_000 { try channel.writeInbound(Self.ping(number)) }
    #expect(try channel.readOutbound(as: ByteBuffer.self) == nil)
    channel.isWritable = true
    channel.pipeline.fireChannelWritabilityChanged()
    #expect(try channel.readOutbound(as: ByteBuffer.self) == Self.pong("1000"))
    #expect(try channel.readOutbound(as: ByteBuffer.self) == nil)
  }

  @Test func `a client of lines gets no pong behind one that has not gone out`() throws {
    let channel = EmbeddedChannel()
    let (raw, held) = (RawOutput(), HeldWrites())
    try channel.pipeline.syncOperations.addHandlers([
      held, raw, WebSocketLines(raw, nil, lineBytesMax: 100),
    ])
    try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
    for number in 1...1_000 { try channel.writeInbound(Self.ping(number)) }
    #expect(held.writes.count == 1)
    held.writes.removeFirst().succeed()
    #expect(held.writes.count == 1)
    held.writes.removeFirst().succeed()
    #expect(held.writes.isEmpty)
  }

  @Test func `a client of lines gets no pong after the end`() throws {
    let channel = EmbeddedChannel()
    let raw = RawOutput()
    try channel.pipeline.syncOperations.addHandlers([
      raw, WebSocketLines(raw, nil, lineBytesMax: 100),
    ])
    try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
    channel.close(mode: .output, promise: nil)
    #expect(try channel.readOutbound(as: ByteBuffer.self) != nil)
    for number in 1...10 { _ = try? channel.writeInbound(Self.ping(number)) }
    #expect(try channel.readOutbound(as: ByteBuffer.self) == nil)
  }

  @Test(arguments: Depth.allCases)
  func `pings that come together get fewer pongs, the last one among them`(_ depth: Depth)
    async throws
  {
    try await withRealtime(depth) { server in
      let client = try await server.connect()
      var bytes: [UInt8] = []
      for number in 1...100 { bytes += ClientFrame.bytes(0x89, Array("\(number)".utf8)) }
      try await client.send(bytes: bytes)
      // The bytes may come in a few parts.
      var count = 1
      while try await client.next() != "(pong 100)" { count += 1 }
      #expect(count < 10)
      try await client.request(1, "p", #"{"p":"/a","d":1}"#)
    }
  }
}

/// Keeps the promises of writes, which stay unsent.
private final class HeldWrites: ChannelOutboundHandler {
  typealias OutboundIn = ByteBuffer

  var writes: [EventLoopPromise<Void>] = []

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    if let promise { writes.append(promise) }
  }
}
