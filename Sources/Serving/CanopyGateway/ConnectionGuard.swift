internal import CanopyEvents
internal import HTTPTypes
internal import NIOCore
internal import NIOExtras
internal import NIOHTTPTypes

/// Bounds the time that a client takes for a request and for reading a response.
///
/// A client that sends a body too slowly, or does not read, is cut off. (Slow heads and idle connections end by
/// the idle time: only a whole head counts as activity.) Part of the pipeline of a connection, on its event loop.
final class ConnectionGuard: ChannelInboundHandler {
  typealias InboundIn = HTTPRequestPart
  typealias InboundOut = HTTPRequestPart

  /// The times that a client may take.
  struct Patience: Sendable {
    /// The seconds for the handshake of TLS.
    var handshakeSeconds = TLSCertificate.handshakeSeconds
    /// The seconds for which a connection may be idle, or the head of a request incomplete.
    var idleSeconds: Int64 = 60
    /// The seconds for the body of a request, besides a second for each 16 KiB.
    var bodySeconds: Int64 = 30
    /// The seconds for which a client may read nothing although something is to be read.
    var unreadSeconds: Int64 = 60
  }

  /// The bytes of a body that a client must send in a second.
  private static let bytesPerSecond = 16 * 1024

  private let patience: Patience
  /// Called when the server shuts down or the client sends no more, and when the connection is gone.
  private let whenEnding: (_ isLost: Bool) -> Void
  private var bodyBegan = NIODeadline.uptimeNanoseconds(0)
  private var bodyBytes = 0
  private var isBodyComplete = true
  private var body: Scheduled<Void>?
  private var unread: Scheduled<Void>?

  /// - Parameter whenEnding: called when the server shuts down or the client sends no more, and when the connection
  ///   is gone.
  init(_ patience: Patience, whenEnding: @escaping (_ isLost: Bool) -> Void) {
    self.patience = patience
    self.whenEnding = whenEnding
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    switch event {
    case is ChannelShouldQuiesceEvent: whenEnding(false)
    // The client is gone, or has no further requests. An event stream would notice it only when it sends.
    case ChannelEvent.inputClosed: whenEnding(false)
    default: break
    }
    context.fireUserInboundEventTriggered(event)
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    switch unwrapInboundIn(data) {
    case .head:
      bodyBegan = context.eventLoop.now
      bodyBytes = 0
      isBodyComplete = false
    case .body(let bytes): bodyBytes += bytes.readableBytes
    case .end:
      isBodyComplete = true
      body?.cancel()
      body = nil
    }
    context.fireChannelRead(data)
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    // Most requests are complete when they have been read, and need no timer.
    if !isBodyComplete, body == nil { expectEndOfBody(context) }
    context.fireChannelReadComplete()
  }

  private func expectEndOfBody(_ context: ChannelHandlerContext) {
    let seconds = patience.bodySeconds + Int64(bodyBytes / ConnectionGuard.bytesPerSecond)
    let deadline = bodyBegan + .seconds(seconds)
    guard context.eventLoop.now < deadline else { return context.cutOff() }
    body = context.eventLoop.assumeIsolated().scheduleTask(deadline: deadline) { [self] in
      expectEndOfBody(context)
    }
  }

  func channelWritabilityChanged(context: ChannelHandlerContext) {
    unread?.cancel()
    unread = nil
    if !context.channel.isWritable {
      unread = context.eventLoop.assumeIsolated().scheduleTask(
        in: .seconds(patience.unreadSeconds)
      ) { context.cutOff() }
    }
    context.fireChannelWritabilityChanged()
  }

  func channelInactive(context: ChannelHandlerContext) {
    body?.cancel()
    unread?.cancel()
    whenEnding(true)
    context.fireChannelInactive()
  }
}
