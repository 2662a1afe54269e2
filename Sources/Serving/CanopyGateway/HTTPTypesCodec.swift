internal import HTTPTypes
internal import NIOCore
internal import NIOHTTP1
internal import NIOHTTPTypes
internal import NIOHTTPTypesHTTP1

/// Translates the parts of HTTP/1 into the types that are common to all versions, and back.
///
/// The handler of the library has Foundation parse the target of each request, in case it is a whole address. Here the
/// target stays as it was sent: `Target` parses it later, and reads both forms.
final class HTTPTypesCodec: ChannelDuplexHandler {
  typealias InboundIn = HTTPServerRequestPart
  typealias InboundOut = HTTPRequestPart
  typealias OutboundIn = HTTPResponsePart
  typealias OutboundOut = HTTPServerResponsePart

  private let scheme: String

  /// - Parameter isSecure: whether the connection speaks TLS.
  init(isSecure: Bool) {
    scheme = isSecure ? "https" : "http"
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    switch unwrapInboundIn(data) {
    case .head(let head):
      do {
        context.fireChannelRead(wrapInboundOut(.head(try request(head))))
      } catch {
        context.fireErrorCaught(error)
      }
    case .body(let bytes): context.fireChannelRead(wrapInboundOut(.body(bytes)))
    case .end(let fields):
      let fields = fields.map { HTTPFields($0, splitCookie: false) }
      context.fireChannelRead(wrapInboundOut(.end(fields)))
    }
  }

  /// - Throws: an error for a method that is not a token.
  private func request(_ head: HTTPRequestHead) throws -> HTTPRequest {
    HTTPRequest(
      method: try HTTPRequest.Method(head.method), scheme: scheme,
      authority: head.headers["Host"].first, path: head.uri,
      headerFields: HTTPFields(head.headers, splitCookie: false))
  }

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    let part: HTTPServerResponsePart =
      switch unwrapOutboundIn(data) {
      case .head(let head): .head(HTTPResponseHead(head))
      case .body(let bytes): .body(.byteBuffer(bytes))
      case .end(let fields): .end(fields.map { HTTPHeaders($0) })
      }
    context.write(wrapOutboundOut(part), promise: promise)
  }
}
