internal import CanopySession
internal import NIOCore
internal import NIOExtras
internal import NIOSSL
internal import NIOTLS

/// Refuses a client whose first byte shows that it speaks TLS to a port without TLS, or the reverse.
///
/// The handler removes itself after the first byte. Use it on the channel's event loop only.
final class FirstByte: ChannelInboundHandler, RemovableChannelHandler {
  typealias InboundIn = ByteBuffer
  typealias InboundOut = ByteBuffer
  typealias OutboundOut = ByteBuffer

  /// The first byte of a client that speaks TLS: the type of a record of the handshake. No text begins with it.
  static let handshake: UInt8 = 22

  private let expectsTLS: Bool
  /// The bytes for a client that is refused; nil once they are sent.
  private var refusal: ByteBuffer?

  init(expectsTLS: Bool, refusal: ByteBuffer) {
    self.expectsTLS = expectsTLS
    self.refusal = refusal
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let bytes = unwrapInboundIn(data)
    guard let refusal, let first = bytes.readableBytesView.first else { return }
    if (first == FirstByte.handshake) == expectsTLS {
      context.fireChannelRead(data)
      context.pipeline.syncOperations.removeHandler(context: context, promise: nil)
      return
    }
    self.refusal = nil
    context.writeAndFlush(wrapOutboundOut(refusal)).assumeIsolated().whenComplete { _ in
      context.close(promise: nil)
    }
  }
}

/// Ends a connection whose handshake takes too long, or has not ended when the server shuts down. Charges the memory of
/// TLS.
///
/// A client that closes its socket without the end of TLS is treated as one that sends no more: all protocols here mark
/// the ends of their messages themselves. Use it on the channel's event loop only.
final class HandshakeGuard: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer

  private let memory: MemoryBudget
  private let seconds: Int64
  /// Ends the connection; nil after the handshake.
  private var deadline: Scheduled<Void>?
  /// The memory of TLS; nil when the connection is gone.
  private var share: MemoryBudget.Share?
  /// The bytes of the handshake that have come.
  private var received = 0
  /// Whether the handshake is complete.
  private(set) var isComplete = false

  init(_ memory: MemoryBudget, seconds: Int64) {
    self.memory = memory
    self.seconds = seconds
  }

  func handlerAdded(context: ChannelHandlerContext) {
    let channel = context.channel
    share = memory.open(on: channel.eventLoop, network: channel.network) { channel.cutOff() }
    charge(TLSCertificate.handshakeBytes)
    deadline = context.eventLoop.assumeIsolated().scheduleTask(in: .seconds(seconds)) {
      context.close(promise: nil)
    }
  }

  /// Charges further bytes of a handshake that is not complete.
  func receive(_ bytes: Int) {
    received += bytes
    charge(min(TLSCertificate.handshakeBytes + received, TLSCertificate.connectionBytes))
  }

  private func charge(_ bytes: Int) {
    share?.report(bytes, idle: bytes)
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    endWait()
    share = nil
  }

  func channelInactive(context: ChannelHandlerContext) {
    endWait()
    share = nil
    context.fireChannelInactive()
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    switch event {
    case TLSUserEvent.handshakeCompleted:
      isComplete = true
      charge(TLSCertificate.connectionBytes)
      endWait()
    case is ChannelShouldQuiesceEvent where deadline != nil: return context.close(promise: nil)
    default: break
    }
    context.fireUserInboundEventTriggered(event)
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    if case NIOSSLError.uncleanShutdown = error { return }
    context.fireErrorCaught(error)
  }

  private func endWait() {
    deadline?.cancel()
    deadline = nil
  }
}
