import ArgumentParser
import Foundation
import NIOCore
import NIOPosix

/// The upper bound for Canopy's design: a server that only answers lines, on as many event loops as Canopy has.
struct EchoServer: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Answer every line with +PONG, and do nothing else.", shouldDisplay: false)

  @Argument var port: Int

  func run() async throws {
    let group = MultiThreadedEventLoopGroup(numberOfThreads: max(1, System.coreCount / 2))
    let channel = try await ServerBootstrap(group: group)
      .serverChannelOption(.backlog, value: 1024)
      .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
      .childChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandler(EchoHandler())
        }
      }
      .bind(host: "127.0.0.1", port: port).get()
    try await channel.closeFuture.get()
  }
}

private final class EchoHandler: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let lines = unwrapInboundIn(data).readableBytesView.count { $0 == 0x0A }
    guard lines > 0 else { return }
    var reply = context.channel.allocator.buffer(capacity: 7 * lines)
    for _ in 0..<lines { reply.writeStaticString("+PONG\r\n") }
    context.writeAndFlush(NIOAny(reply), promise: nil)
  }
}

/// The echo server as a peer. It only answers `ping`.
final class EchoPeer: Peer {
  let name = PeerName.echo
  private let port: Int
  private let process: ChildProcess
  private var client: LoadClient<EchoDialect>?

  var usage: Usage { Usage(processID: process.processID) }

  init(folder: String) throws {
    port = try freePort()
    process = try ChildProcess(
      CommandLine.arguments[0], ["echo-server", "\(port)"], log: folder + "/echo.log",
      endedBy: SIGKILL)
    _ = try process.waitUntilReady { [port] in try TCPSocket(port: port) }
  }

  func connect(_ connections: Int) throws {
    client = try LoadClient(
      EchoDialect(), (0..<connections).map { _ in try Channel(port: port) })
  }

  func run(_ round: Round) throws -> Sample {
    guard let client else { throw BenchFailure("the echo server is not connected") }
    return try client.run(round, usage: usage.cpuSeconds)
  }

  func totals() -> Totals? { nil }

  func stop() {
    client = nil
    process.stop(SIGKILL)
  }
}

private struct EchoDialect: Dialect {
  typealias Framer = LineFramer

  func write(_ request: BlogRequest, as user: Int, to output: inout [UInt8]) {
    output += "PING\n".utf8
  }

  func check(
    _ frame: Frame, _ bytes: UnsafeRawBufferPointer, to request: BlogRequest, as user: Int,
    isThorough: Bool
  ) -> Verdict {
    Verdict(bytes.starts(with: "+PONG"))
  }
}
