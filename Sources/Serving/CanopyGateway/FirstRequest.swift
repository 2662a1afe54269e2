internal import CanopySession
internal import HTTPTypes
internal import NIOCore
internal import NIOExtras
internal import NIOHTTP1
internal import NIOHTTPTypes

/// Guards a connection until its first request shows which protocol it speaks.
///
/// A request that did not make the connection a WebSocket makes it one of HTTP for good. A client that sends no whole
/// head in time is cut off; bytes that are not a request are answered with 400. The handler removes itself when the
/// protocol is known. Use it on the channel's event loop only.
///
/// NIO's typed upgrade would do the same, but it loses the head of a request whose upgrade is refused.
final class FirstRequest: ChannelInboundHandler, RemovableChannelHandler {
  typealias InboundIn = HTTPServerRequestPart
  typealias InboundOut = HTTPServerRequestPart
  typealias OutboundOut = HTTPResponsePart

  private let seconds: Int64
  /// The end of the client's input, which waits until the protocol is known.
  private let end: HeldInputEnd
  /// Encodes the response that makes the connection a WebSocket. `HTTPExchange` encodes all others.
  private let encoder: HTTPResponseEncoder
  /// Takes the requests of a connection that speaks HTTP; nil for a WebSocket.
  private let http: EventLoopPromise<GatewayChannel.HTTP?>
  /// Adds the handlers of HTTP behind this one.
  private let addHTTP: () throws -> GatewayChannel.HTTP?
  private var patience: Scheduled<Void>?
  /// The namespace of a WebSocket.
  private var namespace: NamespaceLease?
  private var context: ChannelHandlerContext?

  /// - Parameters:
  ///   - http: takes the requests of a connection that speaks HTTP; nil for a WebSocket. Fails if the connection ends
  ///     before.
  ///   - seconds: the time that a client has for the head of its first request.
  ///   - end: holds back the end of the client's input.
  ///   - encoder: encodes the response that makes the connection a WebSocket; removed otherwise.
  ///   - addHTTP: adds the handlers of HTTP at the end of the pipeline.
  init(
    _ http: EventLoopPromise<GatewayChannel.HTTP?>, seconds: Int64, end: HeldInputEnd,
    encoder: HTTPResponseEncoder, addHTTP: @escaping () throws -> GatewayChannel.HTTP?
  ) {
    self.http = http
    self.seconds = seconds
    self.end = end
    self.encoder = encoder
    self.addHTTP = addHTTP
  }

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
    patience = context.eventLoop.assumeIsolated().scheduleTask(in: .seconds(seconds)) {
      context.close(promise: nil)
    }
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    self.context = nil
    patience?.cancel()
    patience = nil
    // Without effect if the protocol is known.
    http.fail(ChannelError.eof)
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    // The first part is the head. The parts after it follow in the same call of the decoder, or later.
    context.pipeline.syncOperations.removeHandler(encoder, promise: nil)
    do {
      let requests = try addHTTP()
      context.fireChannelRead(data)
      remove(context, requests)
    } catch {
      context.close(promise: nil)
    }
  }

  /// Leaves the connection to the handlers of a WebSocket, which come next in the pipeline.
  func becomeWebSocket() {
    guard let context else { return }
    remove(context, nil)
  }

  /// Keeps the namespace that the request for a WebSocket selects.
  func use(_ namespace: NamespaceLease) {
    self.namespace = namespace
  }

  /// Hands over the namespace of the WebSocket; nil for the default one.
  func takeNamespace() -> NamespaceLease? {
    namespace.take()
  }

  private func remove(_ context: ChannelHandlerContext, _ requests: GatewayChannel.HTTP?) {
    http.succeed(requests)
    // Later, because the bytes behind a request for a WebSocket are not yet handed to its handlers.
    let bound = NIOLoopBound(end, eventLoop: context.eventLoop)
    context.eventLoop.execute { bound.value.handOn() }
    context.pipeline.syncOperations.removeHandler(context: context, promise: nil)
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    switch event {
    // No request has begun, so there is nothing to be answered; and after the end of the input none can follow.
    case is ChannelShouldQuiesceEvent, ChannelEvent.inputClosed: context.close(promise: nil)
    default: context.fireUserInboundEventTriggered(event)
    }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    // The other errors are those of an upgrade that is refused: the request is then answered as any other.
    guard error is HTTPParserError else { return }
    // `HTTPExchange` replaces the status if the head is too long.
    let head = HTTPResponse(
      status: .badRequest, headerFields: [.connection: "close", .contentLength: "0"])
    context.pipeline.syncOperations.removeHandler(encoder, promise: nil)
    context.write(wrapOutboundOut(.head(head)), promise: nil)
    context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
    context.close(promise: nil)
  }
}
