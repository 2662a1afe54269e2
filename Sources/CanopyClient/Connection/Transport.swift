internal import CanopyTree
internal import CanopyWire
internal import NIOCore
internal import NIOPosix
internal import NIOSSL

/// What happens to one connection, told in order.
enum TransportEvent: Sendable {
  case opened(Transport)
  case received([ServerLine])
  /// It could not be made, or has ended; nothing comes after this.
  case closed(String)
}

/// One connection to a server: lines come in, bytes go out. Knows nothing of what they mean.
final class Transport: Sendable {
  private let channel: any Channel

  private init(_ channel: any Channel) {
    self.channel = channel
  }

  /// The most bytes in a line of a server: one event may be as large as a reply, and is escaped.
  private static let lineBytesMax = 256 * 1024 * 1024

  /// Sends bytes. Returns at once.
  func send(_ bytes: ByteBuffer) {
    channel.writeAndFlush(bytes, promise: nil)
  }

  /// Ends the connection. Returns at once; `closed` comes later.
  func close() {
    channel.close(promise: nil)
  }

  /// Connects.
  ///
  /// - Parameters:
  ///   - trusted: a file of certificates to trust in place of the system's.
  ///   - tell: called on the event loop; must be brief.
  static func connect(
    to endpoint: Endpoint, trusted: String?, timeoutMilliseconds: Int64,
    tell: @escaping @Sendable (TransportEvent) -> Void
  ) {
    let context: NIOSSLContext?
    do { context = endpoint.usesTLS ? try tlsContext(trusted) : nil } catch {
      return tell(.closed("TLS cannot be set up: \(error)"))
    }
    ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .connectTimeout(.milliseconds(timeoutMilliseconds))
      .channelOption(.tcpOption(.tcp_nodelay), value: 1)
      .channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          if let context {
            try channel.pipeline.syncOperations.addHandler(tlsHandler(context, endpoint))
          }
          try channel.pipeline.syncOperations.addHandler(LineReader(lineBytesMax, tell))
        }
      }
      .connect(host: endpoint.host, port: endpoint.port)
      .whenComplete { result in
        switch result {
        case .success(let channel):
          // Told before anything is received: this runs on the loop, before the first read.
          tell(.opened(Transport(channel)))
        case .failure(let error):
          tell(.closed("\(error)"))
        }
      }
  }

  private static func tlsContext(_ trusted: String?) throws -> NIOSSLContext {
    var configuration = TLSConfiguration.makeClientConfiguration()
    if let trusted { configuration.trustRoots = .file(trusted) }
    return try NIOSSLContext(configuration: configuration)
  }

  private static func tlsHandler(
    _ context: NIOSSLContext, _ endpoint: Endpoint
  ) throws -> NIOSSLClientHandler {
    // A name of the server, if it has one: an address is compared with the certificate's as it is.
    let isAddress = (try? SocketAddress(ipAddress: endpoint.host, port: 0)) != nil
    return try NIOSSLClientHandler(
      context: context, serverHostname: isAddress ? nil : endpoint.host)
  }
}

/// Cuts what arrives into lines and reads them.
private final class LineReader: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer

  private var decoder: LineDecoder
  private let tell: @Sendable (TransportEvent) -> Void
  private var lines: [ServerLine] = []
  private var reason = "the connection was closed"
  private var wasActive = false
  private var hasFailed = false

  init(_ lineBytesMax: Int, _ tell: @escaping @Sendable (TransportEvent) -> Void) {
    decoder = LineDecoder(lineBytesMax: lineBytesMax)
    self.tell = tell
  }

  func channelActive(context: ChannelHandlerContext) {
    wasActive = true
    context.fireChannelActive()
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard !hasFailed else { return }
    let buffer = unwrapInboundIn(data)
    let outcome = buffer.withUnsafeReadableBytes { bytes in
      decoder.feed(bytes) { line in
        do throws(TreeError) {
          lines.append(try ServerLine(line))
          return true
        } catch {
          fail("the server sent a line that is none of its protocol: \(error.sentence)")
          return false
        }
      }
    }
    if outcome == .tooLong { fail("the server sent a line that is too long") }
    if hasFailed { context.close(promise: nil) }
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    handOver()
    context.fireChannelReadComplete()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    if !hasFailed { fail("\(error)") }
    context.close(promise: nil)
  }

  func channelInactive(context: ChannelHandlerContext) {
    handOver()
    // A connection that was never made is told of by its future.
    if wasActive { tell(.closed(reason)) }
    context.fireChannelInactive()
  }

  private func handOver() {
    guard !lines.isEmpty else { return }
    tell(.received(lines))
    lines.removeAll(keepingCapacity: true)
  }

  private func fail(_ reason: String) {
    hasFailed = true
    self.reason = reason
  }
}
