import ArgumentParser
import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix

/// The upper bound for the gateway's design: HTTP of SwiftNIO without routes, on as many event loops as Canopy has.
struct BareHTTPServer: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "bare-http-server",
    abstract: "Answer every GET with a file, and every other request with its own body.",
    shouldDisplay: false)

  @Argument var port: Int
  @Argument var file: String

  func run() async throws {
    let body = ByteBuffer(bytes: try Data(contentsOf: URL(fileURLWithPath: file)))
    let group = MultiThreadedEventLoopGroup(numberOfThreads: max(1, System.coreCount / 2))
    let channel = try await ServerBootstrap(group: group)
      .serverChannelOption(.backlog, value: 1024)
      .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
      .childChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          let pipeline = channel.pipeline.syncOperations
          try pipeline.configureHTTPServerPipeline(withErrorHandling: true)
          try pipeline.addHandler(BareHTTPHandler(body))
        }
      }
      .bind(host: "127.0.0.1", port: port).get()
    try await channel.closeFuture.get()
  }
}

private final class BareHTTPHandler: ChannelInboundHandler {
  typealias InboundIn = HTTPServerRequestPart
  typealias OutboundOut = HTTPServerResponsePart

  private let file: ByteBuffer
  private var body = ByteBuffer()
  private var isGet = false

  init(_ file: ByteBuffer) {
    self.file = file
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    switch unwrapInboundIn(data) {
    case .head(let head):
      isGet = head.method == .GET
      body.clear()
    case .body(var part): body.writeBuffer(&part)
    case .end:
      let answer = isGet ? file : body
      let head = HTTPResponseHead(
        version: .http1_1, status: .ok,
        headers: [
          "Content-Type": "application/json; charset=utf-8",
          "Content-Length": "\(answer.readableBytes)",
        ])
      context.write(wrapOutboundOut(.head(head)), promise: nil)
      context.write(wrapOutboundOut(.body(.byteBuffer(answer))), promise: nil)
      context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
    }
  }
}
