internal import CanopyTree
internal import CanopyWire
internal import NIOCore

/// One connection by the line protocol: receives lines and sends bytes. Knows nothing of their meaning.
final class LineTransport: Transport {
  private let channel: any Channel

  private init(_ channel: any Channel) {
    self.channel = channel
  }

  /// The longest line of a server, in bytes: an event may be as large as a reply, plus escapes.
  private static let lineBytesMax = 256 * 1024 * 1024

  /// Sends bytes. Returns at once.
  func send(_ bytes: ByteBuffer) {
    channel.writeAndFlush(bytes, promise: nil)
  }

  /// Closes the connection. Returns at once; the event `closed` follows.
  func close() {
    channel.close(promise: nil)
  }

  /// Opens a connection.
  ///
  /// - Parameters:
  ///   - trusted: a file of certificates to trust instead of the system's.
  ///   - notify: called on the connection's event loop; must be brief.
  static func connect(
    to endpoint: Endpoint, trusted: String?, timeoutMilliseconds: Int64,
    by connector: (any Connector)? = nil, notify: @escaping @Sendable (TransportEvent) -> Void
  ) {
    endpoint.connect(
      trusted: trusted, timeoutMilliseconds: timeoutMilliseconds, by: connector
    ) { channel in
      try channel.pipeline.syncOperations.addHandler(LineReader(endpoint, lineBytesMax, notify))
    } completion: { result in
      switch result {
      // This runs before the first read, so `opened` precedes all other events.
      case .success(let channel): notify(.opened(LineTransport(channel)))
      case .failure(let error): notify(.closed(endpoint.reason(of: error)))
      }
    }
  }
}

/// Splits input into lines and decodes them.
private final class LineReader: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer

  private let endpoint: Endpoint
  private var decoder: LineDecoder
  private let notify: @Sendable (TransportEvent) -> Void
  private var lines: [ServerLine] = []
  private var reason: String
  private var hasRead = false
  private var wasActive = false
  private var hasFailed = false

  init(
    _ endpoint: Endpoint, _ lineBytesMax: Int,
    _ notify: @escaping @Sendable (TransportEvent) -> Void
  ) {
    self.endpoint = endpoint
    reason = endpoint.closedReason
    decoder = LineDecoder(lineBytesMax: lineBytesMax)
    self.notify = notify
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
          if !hasRead {
            hasRead = true
            reason = "the connection was closed"
          }
          return true
        } catch {
          let isHTTP = line.prefix(5).elementsEqual("HTTP/".utf8)
          fail(
            isHTTP
              ? "\(endpoint.place) speaks HTTP; begin the URL with http://, or name the line port"
              : "the server sent a line that is not valid in this protocol: \(error.sentence)")
          return false
        }
      }
    }
    if outcome == .tooLong { fail("the server sent a line that is too long") }
    if hasFailed { context.close(promise: nil) }
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    flushLines()
    context.fireChannelReadComplete()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    if !hasFailed { fail(endpoint.reason(of: error)) }
    context.close(promise: nil)
  }

  func channelInactive(context: ChannelHandlerContext) {
    flushLines()
    // If the connection was never opened, the future reports the failure.
    if wasActive { notify(.closed(reason)) }
    context.fireChannelInactive()
  }

  private func flushLines() {
    guard !lines.isEmpty else { return }
    notify(.received(lines))
    lines.removeAll(keepingCapacity: true)
  }

  private func fail(_ reason: String) {
    hasFailed = true
    self.reason = reason
  }
}
