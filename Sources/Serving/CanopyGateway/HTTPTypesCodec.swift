internal import HTTPTypes
internal import NIOCore
internal import NIOHTTP1
internal import NIOHTTPTypes
internal import NIOHTTPTypesHTTP1

/// Translates the parts of requests of HTTP/1 into the types that are common to all versions. `HTTPExchange` takes such
/// types for responses.
///
/// The library's own handler parses each target with Foundation, in case it is a whole address. Here the target stays
/// as it was sent: `Target` parses it later, and reads both forms.
final class HTTPTypesCodec: ChannelInboundHandler {
  typealias InboundIn = HTTPServerRequestPart
  typealias InboundOut = HTTPRequestPart

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
}
