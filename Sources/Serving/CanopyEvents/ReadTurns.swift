package import NIOCore

/// Lets the connections of an event loop that send much be read in turns.
///
/// A loop that finds three hundred sockets readable would read 64 KiB of each before it answers any client. So a
/// connection that has just sent much is read again when its turn comes; a connection that sends little is read at
/// once. The handler is the first one of a pipeline, and used on the loop of its turns only.
package final class ReadTurns: ChannelDuplexHandler {
  package typealias InboundIn = ByteBuffer
  package typealias InboundOut = ByteBuffer
  package typealias OutboundIn = ByteBuffer
  package typealias OutboundOut = ByteBuffer

  /// The bytes of one read from which on the next read waits for a turn.
  package static let bulkBytes = 16 * 1024

  private let turns: LoopTurns
  private var context: ChannelHandlerContext?
  /// The bytes that came since the last request to read.
  private var bytes = 0
  private var takesTurn = false

  package init(_ turns: LoopTurns) {
    self.turns = turns
  }

  package func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
  }

  package func handlerRemoved(context: ChannelHandlerContext) {
    self.context = nil
  }

  package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    bytes += unwrapInboundIn(data).readableBytes
    context.fireChannelRead(data)
  }

  /// Closes the socket of a connection that is cut off: TLS, which stands behind this handler, would wait for the client.
  package func triggerUserOutboundEvent(
    context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?
  ) {
    if event is CutOff { return context.close(promise: promise) }
    context.triggerUserOutboundEvent(event, promise: promise)
  }

  package func read(context: ChannelHandlerContext) {
    guard bytes >= ReadTurns.bulkBytes else {
      bytes = 0
      return context.read()
    }
    guard !takesTurn else { return }
    takesTurn = true
    turns.append(self)
  }
}

extension ReadTurns: TurnTaker {
  package func takeTurn(bytes: Int) -> Int {
    takesTurn = false
    self.bytes = 0
    guard let context, context.channel.isActive else { return 0 }
    // The connection may have stopped reading in the meantime. When it starts again, it asks for a read.
    if let isReading = try? context.channel.syncOptions?.getOption(.autoRead), isReading {
      context.read()
    }
    return LoopTurns.turnBytes
  }
}
