internal import HTTPTypes
internal import NIOCore
internal import NIOHTTP1
internal import NIOHTTPTypes
internal import NIOHTTPTypesHTTP1

/// Translates the responses of a connection whose protocol is not known yet for `HTTPExchange`: those that accept an
/// upgrade, and those that refuse bytes that are not a request.
///
/// Part of the pipeline of a connection until its protocol is known, on its event loop.
final class UpgradeResponses: ChannelOutboundHandler, RemovableChannelHandler {
  typealias OutboundIn = HTTPServerResponsePart
  typealias OutboundOut = HTTPResponsePart

  /// An encoder that encodes nothing, because it is the last handler: NIO's handler of upgrades removes one.
  let encoder = HTTPResponseEncoder()
  private var context: ChannelHandlerContext?

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    self.context = nil
  }

  /// Removes this handler and the encoder. The connection speaks HTTP.
  func remove() {
    guard let context else { return }
    let pipeline = context.pipeline.syncOperations
    pipeline.removeHandler(encoder, promise: nil)
    pipeline.removeHandler(context: context, promise: nil)
  }

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    do {
      let part: HTTPResponsePart
      switch unwrapOutboundIn(data) {
      case .head(let head): part = .head(try HTTPResponse(head))
      case .body(.byteBuffer(let bytes)): part = .body(bytes)
      case .body(.fileRegion): throw ChannelError.operationUnsupported
      case .end(let fields): part = .end(fields.map { HTTPFields($0, splitCookie: false) })
      }
      context.write(wrapOutboundOut(part), promise: promise)
    } catch {
      promise?.fail(error)
    }
  }
}
