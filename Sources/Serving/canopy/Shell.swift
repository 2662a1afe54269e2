import ArgumentParser
import CanopyEvents
import CanopyLineServer
import Foundation
import NIOCore
import NIOPosix
import Synchronization

struct Shell: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Send requests to a server, one line each, and print its replies.",
    discussion: "HELP lists the verbs. QUIT or the end of the input ends the command.")

  @Option(help: "The server's address (127.0.0.1).") var host: String?
  @Option(help: "The server's port (7070).") var port: UInt16?
  @Flag(help: "Connect with TLS.") var tls = false
  @Option(
    help: ArgumentHelp(
      "The PEM file of the certificate to trust, instead of those of the system. Connects with TLS.",
      valueName: "file"))
  var trust: String?

  func run() async throws {
    try await Failure.explaining { try await talk() }
  }

  private func talk() async throws {
    try OpenFiles.raised().checkClient()
    let host = try Setting.value("host", host, default: "127.0.0.1")
    let port = Int(try Setting.value("port", port, default: 7070))
    let trusted = try Setting.value("trust", trust)
    let security = tls || trusted != nil ? try TLSTrust(file: trusted) : nil
    let failure = FirstError()
    let group = MultiThreadedEventLoopGroup.singleton
    let channel: any Channel
    do {
      channel = try await ClientBootstrap(group: group)
        .channelOption(.allowRemoteHalfClosure, value: false)
        .channelInitializer { channel in
          channel.eventLoop.makeCompletedFuture {
            try security?.addHandler(to: channel, host: host)
            try channel.pipeline.syncOperations.addHandler(PrintHandler(failure))
          }
        }
        .connect(host: host, port: port).get()
    } catch {
      throw Failure(
        "no server answers at \(host):\(port); start one with canopy serve --data DIR")
    }
    // Reading a terminal blocks, so it has its own thread, which ends with the process.
    let input = Thread {
      while let line = readLine(strippingNewline: true) {
        channel.writeAndFlush(ByteBuffer(string: line + "\n"), promise: nil)
      }
      channel.writeAndFlush(ByteBuffer(string: "QUIT\n"), promise: nil)
    }
    input.start()
    try? await channel.closeFuture.get()
    if let error = failure.error {
      throw Failure(
        "the connection to \(host):\(port) failed: \(error); "
          + (security == nil
            ? "connect again"
            : "check that the port speaks TLS, and that --trust names the certificate of \(host)"))
    }
  }
}

/// The first error of a connection. Safe to use from any thread.
private final class FirstError: Sendable {
  private let first = Mutex<(any Error)?>(nil)

  var error: (any Error)? { first.withLock { $0 } }

  func set(_ error: any Error) {
    first.withLock { $0 = $0 ?? error }
  }
}

/// A handler that prints the bytes of the server as they arrive.
private final class PrintHandler: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer

  private let failure: FirstError

  init(_ failure: FirstError) {
    self.failure = failure
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    if !TLSTrust.isEnd(error) { failure.set(error) }
    context.close(promise: nil)
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let buffer = unwrapInboundIn(data)
    let text = Data(buffer.readableBytesView.filter { $0 != 0x0D })
    // Nothing more can be printed, so the connection ends.
    do { try Output.bytes(text) } catch { context.close(promise: nil) }
  }
}
