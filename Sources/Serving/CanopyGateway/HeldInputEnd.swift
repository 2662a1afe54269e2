internal import NIOCore

/// Holds back the end of the client's input until the first request of the connection is read.
///
/// A decoder that receives the end drops the bytes behind a request for a WebSocket, and the handlers of the
/// WebSocket, which are added later, would not receive it at all. The handler stands before the decoder, and removes
/// itself. Use it on the channel's event loop only.
final class HeldInputEnd: ChannelInboundHandler, RemovableChannelHandler {
  typealias InboundIn = ByteBuffer

  /// The time after which the end is handed on although there is no request. An upgrade takes some turns of the loop.
  private static let patience = TimeAmount.milliseconds(100)

  private var hasEnded = false
  private var context: ChannelHandlerContext?
  private var release: Scheduled<Void>?

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    self.context = nil
    release?.cancel()
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    guard case ChannelEvent.inputClosed? = event as? ChannelEvent else {
      return context.fireUserInboundEventTriggered(event)
    }
    hasEnded = true
    release = context.eventLoop.assumeIsolated().scheduleTask(in: HeldInputEnd.patience) {
      [self] in handOn()
    }
  }

  /// Hands on the end, now or when it comes: the protocol of the connection is known.
  func handOn() {
    guard let context else { return }
    if hasEnded { context.fireUserInboundEventTriggered(ChannelEvent.inputClosed) }
    context.pipeline.syncOperations.removeHandler(context: context, promise: nil)
  }
}
