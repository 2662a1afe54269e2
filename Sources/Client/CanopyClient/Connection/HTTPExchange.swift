internal import NIOCore
internal import NIOHTTP1

/// One HTTP request with a small body, and its response, on a connection of its own.
struct HTTPExchange: Sendable {
  /// A complete response.
  struct Response: Sendable {
    var status: Int
    var body: [UInt8]
  }

  /// The reason why there is no response.
  struct Failure: Error {
    var sentence: String
  }

  var endpoint: Endpoint
  /// The path with the query.
  var target: String
  var contentType: String
  var body: [UInt8]
  /// A file of certificates to trust instead of the system's.
  var trusted: String?
  var timeoutMilliseconds: Int64

  /// The largest body of a response, in bytes.
  static let responseBytesMax = 1024 * 1024

  /// Sends a POST request.
  ///
  /// - Parameter receive: called once, on an event loop; must be brief.
  func post(_ receive: @escaping @Sendable (Result<Response, Failure>) -> Void) {
    endpoint.connect(trusted: trusted, timeoutMilliseconds: timeoutMilliseconds) { channel in
      let pipeline = channel.pipeline.syncOperations
      try pipeline.addHTTPClientHandlers()
      try pipeline.addHandler(ExchangeHandler(self, receive))
    } completion: { result in
      if case .failure(let error) = result {
        receive(.failure(Failure(sentence: endpoint.reason(of: error))))
      }
    }
  }
}

/// Sends the request, collects the response, and closes the connection.
private final class ExchangeHandler: ChannelInboundHandler {
  typealias InboundIn = HTTPClientResponsePart
  typealias OutboundOut = HTTPClientRequestPart

  private let exchange: HTTPExchange
  private var receive: (@Sendable (Result<HTTPExchange.Response, HTTPExchange.Failure>) -> Void)?
  private var response = HTTPExchange.Response(status: 0, body: [])
  private var deadline: Scheduled<Void>?
  private var wasActive = false

  init(
    _ exchange: HTTPExchange,
    _ receive: @escaping @Sendable (Result<HTTPExchange.Response, HTTPExchange.Failure>) -> Void
  ) {
    self.exchange = exchange
    self.receive = receive
  }

  func channelActive(context: ChannelHandlerContext) {
    wasActive = true
    let head = HTTPRequestHead(
      version: .http1_1, method: .POST, uri: exchange.target,
      headers: [
        "Host": exchange.endpoint.authority, "Content-Type": exchange.contentType,
        "Content-Length": "\(exchange.body.count)", "Connection": "close",
      ])
    context.write(wrapOutboundOut(.head(head)), promise: nil)
    context.write(
      wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: exchange.body)))), promise: nil)
    context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
    let bound = NIOLoopBound((handler: self, context: context), eventLoop: context.eventLoop)
    deadline = context.eventLoop.scheduleTask(in: .milliseconds(exchange.timeoutMilliseconds)) {
      bound.value.handler.fail("the server did not answer in time", bound.value.context)
    }
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    switch unwrapInboundIn(data) {
    case .head(let head): response.status = Int(head.status.code)
    case .body(let part):
      let room = HTTPExchange.responseBytesMax - response.body.count
      guard part.readableBytes <= room else {
        return fail("the server's response is too long", context)
      }
      response.body.append(contentsOf: part.readableBytesView)
    case .end:
      finish(.success(response))
      context.close(promise: nil)
    }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    fail(exchange.endpoint.reason(of: error), context)
  }

  func channelInactive(context: ChannelHandlerContext) {
    deadline?.cancel()
    // If the connection was never opened, the future reports the failure.
    if wasActive { finish(.failure(HTTPExchange.Failure(sentence: "the connection was closed"))) }
  }

  private func fail(_ sentence: String, _ context: ChannelHandlerContext) {
    if wasActive { finish(.failure(HTTPExchange.Failure(sentence: sentence))) }
    context.close(promise: nil)
  }

  private func finish(_ result: Result<HTTPExchange.Response, HTTPExchange.Failure>) {
    receive?(result)
    receive = nil
  }
}
