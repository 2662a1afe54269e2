internal import CanopyEngine
internal import CanopySession
internal import NIOCore

/// Lets the handshakes of an event loop take turns, one step at a time.
///
/// A step computes for a millisecond or more, most of it for the signature of the certificate's key. A loop that finds the
/// first message of three hundred clients would answer all of them before it serves any open connection. So the bytes of a
/// handshake wait here for the turn of their connection, and between two turns the loop looks for input.
///
/// The handler stands before TLS, and removes itself when the handshake is complete. Use it on the loop of its turns only.
final class HandshakeTurns: ChannelInboundHandler, ChannelOutboundHandler, RemovableChannelHandler {
  typealias InboundIn = ByteBuffer
  typealias InboundOut = ByteBuffer
  typealias OutboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private let turns: LoopTurns
  /// Knows whether the handshake is complete.
  private let handshake: HandshakeGuard
  private var context: ChannelHandlerContext?
  private var group: TurnGroup?
  /// The bytes that wait for the turn. While there are any, nothing further is read.
  private var kept = ByteBuffer()
  /// The events that came behind these bytes.
  private var events: [Any] = []
  private var takesTurn = false
  /// Whether the pipeline waits to read.
  private var wantsRead = false

  init(_ turns: LoopTurns, _ handshake: HandshakeGuard) {
    self.turns = turns
    self.handshake = handshake
  }

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    self.context = nil
  }

  func channelInactive(context: ChannelHandlerContext) {
    kept = ByteBuffer()
    events = []
    context.fireChannelInactive()
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    var buffer = unwrapInboundIn(data)
    handshake.receive(buffer.readableBytes)
    if kept.readableBytes == 0 { kept = buffer } else { kept.writeBuffer(&buffer) }
    guard !takesTurn else { return }
    takesTurn = true
    turns.append(self)
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    if kept.readableBytes == 0 { context.fireChannelReadComplete() }
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    // The event may be the end of the input. It is handed on after the bytes that came before it.
    if kept.readableBytes > 0 { return events.append(event) }
    context.fireUserInboundEventTriggered(event)
  }

  func read(context: ChannelHandlerContext) {
    if kept.readableBytes > 0 { wantsRead = true } else { context.read() }
  }
}

extension HandshakeTurns: TurnTaker {
  var turnGroup: TurnGroup? { group ?? makeGroup() }

  private func makeGroup() -> TurnGroup {
    let made = Operations.turns(
      of: ObjectIdentifier(self), at: context?.remoteAddress?.ipAddress ?? "")
    group = made
    return made
  }

  func takeTurn(bytes: Int) -> Int {
    takesTurn = false
    guard let context, context.channel.isActive, kept.readableBytes > 0 else { return 0 }
    var buffer = ByteBuffer()
    swap(&buffer, &kept)
    context.fireChannelRead(wrapInboundOut(buffer))
    context.fireChannelReadComplete()
    var due: [Any] = []
    swap(&due, &events)
    for event in due { context.fireUserInboundEventTriggered(event) }
    // The connection may have ended.
    guard self.context != nil else { return LoopTurns.turnBytes }
    if wantsRead {
      wantsRead = false
      context.read()
    }
    if handshake.isComplete {
      context.pipeline.syncOperations.removeHandler(context: context, promise: nil)
    }
    return LoopTurns.turnBytes
  }
}
