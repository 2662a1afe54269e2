internal import NIOCore
internal import NIOExtras
internal import NIOHTTP1

/// Guards a connection until its first request shows which protocol it speaks.
///
/// A client that sends no whole head in time is cut off; bytes that are not a request are answered with 400. The
/// handler is removed when the protocol is known. Use it on the channel's event loop only.
final class FirstRequest: ChannelInboundHandler, RemovableChannelHandler {
  typealias InboundIn = Never
  typealias OutboundOut = HTTPServerResponsePart

  private let seconds: Int64
  private var patience: Scheduled<Void>?

  /// - Parameter seconds: the time that a client has for the head of its first request.
  init(seconds: Int64) {
    self.seconds = seconds
  }

  func handlerAdded(context: ChannelHandlerContext) {
    patience = context.eventLoop.assumeIsolated().scheduleTask(in: .seconds(seconds)) {
      context.close(promise: nil)
    }
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    patience?.cancel()
    patience = nil
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    // No request has begun, so there is nothing to be answered.
    if event is ChannelShouldQuiesceEvent { return context.close(promise: nil) }
    context.fireUserInboundEventTriggered(event)
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    // The other errors are those of an upgrade that is refused: the request is then answered as any other.
    guard error is HTTPParserError else { return }
    let head = HTTPResponseHead(
      version: .http1_1, status: .badRequest,
      headers: ["connection": "close", "content-length": "0"])
    context.write(wrapOutboundOut(.head(head)), promise: nil)
    context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
    context.close(promise: nil)
  }
}
