internal import CanopySession
internal import Logging
public import NIOCore
internal import NIOExtras

/// The events of the channel. `channelInactive` is in the class, because subclasses do more then.
extension SessionHandler {
  /// Begins to drive the connection of a pipeline.
  fileprivate final func begin(
    _ context: ChannelHandlerContext, as clientProtocol: any ClientProtocol
  ) {
    self.context = context
    self.clientProtocol = clientProtocol
    writing.isWritable = context.channel.isWritable
    // A channel of another listener is active already.
    if context.channel.isActive { activateOnce(context) }
  }

  package final func handlerRemoved(context: ChannelHandlerContext) {
    self.context = nil
    clientProtocol = nil
    endReference()
  }

  package final func channelActive(context: ChannelHandlerContext) {
    activateOnce(context)
    context.fireChannelActive()
  }

  private final func activateOnce(_ context: ChannelHandlerContext) {
    guard client.turns == nil else { return }
    activate(context)
    if client.idleBytes > 0, client.share == nil { openShare() }
  }

  /// Notes the client of a connection that is active.
  final func beginClient(_ context: ChannelHandlerContext) {
    assertInEventLoop()
    client.address = context.remoteAddress?.ipAddress ?? "local"
    client.turns = Operations.turns(
      of: ObjectIdentifier(self), at: client.address, isOfForeignPage: client.isOfForeignPage)
    client.since = operations.now()
    client.id = services.clients.add(self)
    client.place = ConnectionPlace.take(from: context.pipeline)
  }

  package final func errorCaught(context: ChannelHandlerContext, error: any Error) {
    operations.logger.debug("a connection failed", metadata: ["error": "\(error)"])
    context.close(promise: nil)
  }

  package final func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    switch event {
    case ChannelEvent.inputClosed: endInput(context)
    // The event behind it ends the connection.
    case let event as PlaceNeeded: session.endInput(because: event.error)
    case is ChannelShouldQuiesceEvent:
      // The requests that were received are still carried out and answered.
      session.endInput()
      advance(context)
    default: context.fireUserInboundEventTriggered(event)
    }
  }

  /// Notes that the client has ended its sending side.
  package final func endInput(_ context: ChannelHandlerContext) {
    client.hasEnded = true
    if scheduled.lingering != nil { return context.close(promise: nil) }
    session.endInput()
    advance(context)
  }

  package final func channelWritabilityChanged(context: ChannelHandlerContext) {
    writing.isWritable = context.channel.isWritable
    session.noteReading()
    // A large reply that the socket takes at once makes the channel unwritable for a moment. The flush notes the result.
    guard !writing.isFlushing else { return context.fireChannelWritabilityChanged() }
    noteUnsent(context)
    advance(context)
    encodeLater(context)
    context.fireChannelWritabilityChanged()
  }

  package final func channelReadComplete(context: ChannelHandlerContext) {
    scheduled.turn.endRead()
    client.place?.noteUse()
    noteInput()
    if output.hasBuffers, writing.isWritable, !scheduled.waitsForFlush, session.isAtRest {
      // All requests of the read are answered, and no other work of the connection waits. A task of the loop, which
      // would send the replies together with others to come, would cost about as much as the requests.
      answerPing()
      flush()
      hub.inbox.release()
    } else {
      advance(context)
    }
    context.fireChannelReadComplete()
  }
}

extension ClientProtocol {
  /// Begins to drive the connection. Called by the pipeline.
  public func handlerAdded(context: ChannelHandlerContext) {
    begin(context, as: self)
  }
}
