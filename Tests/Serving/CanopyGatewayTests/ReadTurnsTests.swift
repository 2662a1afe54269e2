import CanopyEngine
import CanopyEvents
import CanopySession
import CanopyTesting
import Foundation
import HTTPTypes
import NIOCore
import NIOEmbedded
import Testing

@testable import CanopyGateway

/// Connections of the HTTP port that take turns.
@Suite(.timeLimit(.minutes(20))) struct ReadTurnsTests {
  /// Counts the reads that reach the socket.
  private final class ReadCounter: ChannelOutboundHandler {
    typealias OutboundIn = ByteBuffer
    var count = 0

    func read(context: ChannelHandlerContext) {
      count += 1
      context.read()
    }
  }

  @Test(arguments: [(ReadTurns.bulkBytes - 1, 1), (ReadTurns.bulkBytes, 0)])
  func `a connection that has sent much is read again in its turn`(bytes: Int, reads: Int)
    async throws
  {
    let parts = try await LineParts()
    let counts = try readCounts(bytes, parts)
    #expect(counts.atOnce == reads)
    #expect(counts.inTurn == 1)
  }

  /// Has a connection send bytes and then read. Returns the reads that have reached the socket at once, and after the
  /// turn of the connection.
  private func readCounts(_ bytes: Int, _ parts: LineParts) throws -> (atOnce: Int, inTurn: Int) {
    let gateway = GatewayChannel(
      parts.operations, configuration: Gateway.Configuration(), logger: parts.log.logger,
      turns: { loop in LoopTurns(loop: loop) { body in loop.assumeIsolated().execute { body() } } },
      now: { .uptimeNanoseconds(1) })
    let (channel, counter) = (EmbeddedChannel(), ReadCounter())
    try channel.pipeline.syncOperations.addHandler(counter)
    _ = try gateway.setup(channel: channel, logger: parts.log.logger).wait()
    try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
    let before = counter.count
    // The beginning of a head, so that no request begins.
    let head = "GET / HTTP/1.1\r\nX: "
    let text = head + String(repeating: "x", count: bytes - head.utf8.count)
    channel.pipeline.fireChannelRead(ByteBuffer(string: text))
    channel.read()
    let atOnce = counter.count - before
    channel.embeddedEventLoop.run()
    let inTurn = counter.count - before
    try channel.close().wait()
    return (atOnce, inTurn)
  }

  @Test func `a read in the task of its connection waits for a turn`() async throws {
    try await withGateway { server in
      let turns = server.parts.operations.shortWork
      var holders: [(Gate, Task<Void, any Error>)] = []
      // With a connection of its own, each of these has a turn at once as long as there are places.
      for _ in 0..<max(1, ProcessInfo.processInfo.activeProcessorCount - 1) {
        let gate = Gate()
        holders.append((gate, Task { try await turns.withTurn(of: nil) { await gate.pass() } }))
        await gate.reached()
      }
      try await server.connect { client in
        // The option is for the task.
        try await client.begin("GET", "/open.json?timeout=10s")
        try await eventually { turns.waiting == 1 }
        for (gate, task) in holders {
          gate.open()
          try await task.value
        }
        #expect(try await client.response().status == 200)
      }
    }
  }

  @Test func `a long target or field is parsed in the task, not on the loop`() async throws {
    let operations = try await LineParts().operations
    let channel = EmbeddedChannel()
    let loop = NIOLoopBoundBox(
      GatewayLoop(operations, loop: channel.eventLoop), eventLoop: channel.eventLoop)
    let gateway = GatewayChannel(
      operations, configuration: Gateway.Configuration(), logger: operations.logger)
    let responder = gateway.responder(GatewayConnection(channel, operations, loop))
    func needsTask(path: String, accept: String = "") -> Bool {
      var fields = HTTPFields()
      fields[.accept] = accept
      let head = HTTPRequest(
        method: .put, scheme: "http", authority: "x", path: path, headerFields: fields)
      if case .needsTask = responder.beginShort(head, ByteBuffer(), completion: { _ in }) {
        return true
      }
      return false
    }
    let path = "/open.json?x="
    let longest = path + String(repeating: "x", count: 1024 - path.utf8.count)
    #expect(!needsTask(path: longest))
    #expect(needsTask(path: longest + "x"))
    #expect(!needsTask(path: path, accept: String(repeating: "x", count: 1024)))
    #expect(needsTask(path: path, accept: String(repeating: "x", count: 1025)))
    _ = try? channel.finish()
  }
}
