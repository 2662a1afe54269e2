import CanopyEvents
import CanopyTesting
import NIOCore
import NIOEmbedded
import Testing

@testable import CanopyLineServer

/// The reads, writes and flushes that small requests cost their connection.
struct SmallRequestTests {
  /// Counts what reaches the socket.
  private final class SocketCounter: ChannelOutboundHandler {
    typealias OutboundIn = ByteBuffer
    var reads = 0
    var writes = 0
    var flushes = 0

    var counts: [Int] { [reads, writes, flushes] }

    func read(context: ChannelHandlerContext) {
      reads += 1
      context.read()
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
      writes += 1
      context.write(data, promise: promise)
    }

    func flush(context: ChannelHandlerContext) {
      flushes += 1
      context.flush()
    }
  }

  /// A connection with the handlers of the server, on a loop whose tasks run when a test says so.
  private final class Connection {
    let loop = EmbeddedEventLoop()
    let socket = SocketCounter()
    let channel: EmbeddedChannel

    init(_ parts: LineParts) throws {
      // No turn ends, however slow the machine is.
      let context = LoopContext(
        parts.operations, loop: loop, turns: LoopTurns(loop: loop) { _ in },
        now: { .uptimeNanoseconds(1) })
      channel = EmbeddedChannel(loop: loop)
      try channel.pipeline.syncOperations.addHandlers([socket] + context.handlers())
      try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
    }

    /// Receives bytes in one read of the socket, as a channel does. Returns the sent lines.
    func receive(_ text: String) throws -> [Substring] {
      channel.read()
      try channel.writeInbound(ByteBuffer(string: text))
      return try sent()
    }

    func sent() throws -> [Substring] {
      var text = ""
      while let buffer = try channel.readOutbound(as: ByteBuffer.self) {
        text += String(buffer: buffer)
      }
      return text.split(separator: "\r\n")
    }
  }

  @Test(arguments: ["PING", "SHOW missing", "GET /posts/a/title", "RECENT", "TOP", "NONSENSE"])
  func `a small request costs one read, one write and one flush, and no task of its loop`(
    _ line: String
  ) async throws {
    try await withServer(.inProcess) { server in
      let connection = try Connection(server.parts)
      for number in 1...100 {
        #expect(try connection.receive(line + "\n").count == 1)
        #expect(connection.socket.counts == [number, number, number])
      }
      connection.loop.run()
      #expect(connection.socket.counts == [100, 100, 100])
    }
  }

  @Test(arguments: [100, 1000])
  func `a pipeline of requests in one read costs one write and one flush`(
    _ count: Int
  ) async throws {
    try await withServer(.inProcess) { server in
      let connection = try Connection(server.parts)
      let replies = try connection.receive(String(repeating: "PING\n", count: count))
      #expect(replies == Array(repeating: "+\"PONG\"", count: count))
      #expect(connection.socket.counts == [1, 1, 1])
    }
  }
}
