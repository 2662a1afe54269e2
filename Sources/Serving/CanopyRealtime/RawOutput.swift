internal import CanopySession
internal import CanopyTree
internal import NIOCore
internal import NIOWebSocket

/// Sends bytes that are WebSocket frames already.
///
/// Many subscribers share the bytes of an event, with the head of its frame, and the frames of several messages go out
/// in one buffer. So the frames are not encoded by the encoder that an upgrade puts into the pipeline. This handler
/// stands between it and the socket. Use it on the channel's event loop only.
final class RawOutput: ChannelOutboundHandler {
  typealias OutboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  /// The place in the pipeline; nil outside of one.
  private(set) var context: ChannelHandlerContext?

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    self.context = nil
  }

  /// Adds the handler: before the encoder and the decoder of frames, if there are any.
  ///
  /// - Returns: the handler that keeps unfinished frames; nil without a decoder.
  func add(to channel: any Channel, _ operations: Operations) throws -> UnfinishedFrames? {
    let pipeline = channel.pipeline.syncOperations
    guard let encoder = try? pipeline.handler(type: WebSocketFrameEncoder.self) else {
      try pipeline.addHandler(self)
      return nil
    }
    let frames = UnfinishedFrames(
      operations.memory, operations.logger, frameBytesMax: operations.limits.lineBytesMax)
    try pipeline.addHandlers([self, frames], position: .before(encoder))
    return frames
  }

  func write(_ buffer: ByteBuffer, promise: EventLoopPromise<Void>?) {
    guard let context else {
      promise?.fail(ChannelError.ioOnClosedChannel)
      return
    }
    context.write(wrapOutboundOut(buffer), promise: promise)
  }

  /// Sends the bytes, with all that were written before.
  func writeAndFlush(_ buffer: ByteBuffer, promise: EventLoopPromise<Void>?) {
    guard let context else {
      promise?.fail(ChannelError.ioOnClosedChannel)
      return
    }
    context.writeAndFlush(wrapOutboundOut(buffer), promise: promise)
  }
}
