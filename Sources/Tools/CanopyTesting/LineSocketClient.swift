import Foundation
import NIOCore
import NIOPosix

/// A client on a socket.
public final class LineSocketClient: LineClient, Sendable {
  /// The lines that the server sent.
  public let mailbox: LineMailbox
  private let channel: any Channel

  /// Connects.
  ///
  /// - Parameters:
  ///   - receiveBytes: the bytes of the kernel's receive buffer; nil for the default.
  ///   - staysOpen: whether this side stays open after the server has closed its own.
  ///   - trusted: the certificate of the server, to connect with TLS; nil for plain text.
  ///   - address: the address of this side; nil for the one that the system chooses.
  public init(
    host: String = "127.0.0.1", port: Int, receiveBytes: Int? = nil, staysOpen: Bool = false,
    trusting trusted: TestCertificate? = nil, from address: String? = nil
  ) async throws {
    let mailbox = LineMailbox()
    self.mailbox = mailbox
    var bootstrap = ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .channelOption(.tcpOption(.tcp_nodelay), value: 1)
      .channelOption(.allowRemoteHalfClosure, value: staysOpen)
      .channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try trusted?.addClientHandler(to: channel)
          try channel.pipeline.syncOperations.addHandler(Receiver(mailbox))
        }
      }
    if let receiveBytes {
      bootstrap = bootstrap.channelOption(.socketOption(.so_rcvbuf), value: receiveBytes)
    }
    if let address {
      bootstrap = bootstrap.bind(to: try SocketAddress(ipAddress: address, port: 0))
    }
    channel = try await bootstrap.connect(host: host, port: port).get()
  }

  /// See `LineClient`. The kernel accepts a bounded number of bytes while the server does not read.
  public func send(_ bytes: [UInt8]) async throws {
    try await channel.writeAndFlush(ByteBuffer(bytes: bytes)).get()
  }

  /// See `LineClient`.
  public func shutDownSending() async throws {
    try await channel.close(mode: .output).get()
  }

  /// See `LineClient`.
  public func pauseReading() async throws {
    try await channel.setOption(.autoRead, value: false).get()
  }

  /// See `LineClient`.
  public func resumeReading() async throws {
    do {
      try await channel.setOption(.autoRead, value: true).get()
    } catch ChannelError.ioOnClosedChannel {
      // The connection has ended. Lines received before can still be read, then the end.
    }
  }

  /// See `LineClient`. The server sees a reset connection.
  public func disconnect() async {
    if let socket = channel as? any SocketOptionProvider {
      try? await socket.setSoLinger(linger(l_onoff: 1, l_linger: 0)).get()
    }
    try? await channel.close().get()
  }

  private final class Receiver: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let mailbox: LineMailbox

    init(_ mailbox: LineMailbox) {
      self.mailbox = mailbox
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      mailbox.receive(Array(buffer: unwrapInboundIn(data)))
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
      if case ChannelEvent.inputClosed = event { mailbox.close() }
      context.fireUserInboundEventTriggered(event)
    }

    func channelInactive(context: ChannelHandlerContext) {
      mailbox.close()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
      context.close(promise: nil)
    }
  }
}
