import CanopyEngine
import CanopyEvents
import CanopySession
import CanopyTesting
import HTTPTypes
import NIOCore
import NIOEmbedded
import NIOHTTP1
import NIOHTTPTypes
import Testing

@testable import CanopyGateway

/// The handlers of a connection between its socket and the responder. Use it on one thread.
struct Wire {
  let channel: EmbeddedChannel
  let socket = FullSocket()
  let connection: GatewayConnection
  let input: RequestInput
  private let recorder = InputRecorder()
  private let encoder = HTTPResponseEncoder()

  /// - Parameter turns: makes the turns of the loop; nil for turns that come with its tasks.
  init(
    _ operations: Operations, upgrader: PendingUpgrade?,
    turns: ((EmbeddedEventLoop) -> LoopTurns)? = nil, loop: EmbeddedEventLoop = EmbeddedEventLoop()
  ) throws {
    channel = EmbeddedChannel(loop: loop)
    let turns =
      turns?(loop)
      ?? LoopTurns(loop: loop) { body in
        loop.assumeIsolated().execute { body() }
      }
    connection = GatewayConnection(
      channel, operations,
      .makeBoxSendingValue(
        GatewayLoop(operations, loop: loop, turns: turns), eventLoop: loop))
    connection.charge(0)
    input = RequestInput(connection)
    let exchange = HTTPExchange(connection, input)
    let decoder = ByteToMessageHandler(
      HTTPRequestDecoder(
        leftOverBytesStrategy: .forwardBytes, limitConfiguration: GatewayChannel.headLimits))
    let pipeline = channel.pipeline.syncOperations
    try pipeline.addHandlers([socket, input, encoder, decoder, exchange])
    if let upgrader {
      upgrader.decision = loop.makePromise(of: HTTPHeaders.self)
      try pipeline.addHandler(
        HTTPServerUpgradeHandler(
          upgraders: [upgrader], httpEncoder: encoder,
          extraHTTPHandlers: [decoder, exchange], upgradeCompletionHandler: { _ in }))
    }
    try pipeline.addHandler(recorder)
    try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
  }

  /// The parts of requests that were handed on, `closed` for the end of the input, and `error` for an error.
  var parts: [String] { recorder.parts }

  /// The parts without the errors. The decoder finds one behind the last request of a client of HTTP/1.0, and at the end
  /// of a connection within a head.
  var requests: [String] { parts.filter { $0 != "error" } }

  /// The bytes that were sent, as text.
  var sent: String { String(decoding: socket.sent, as: UTF8.self) }

  /// Receives text in parts of some bytes.
  func receive(_ text: String, _ partBytes: Int = .max) throws {
    var rest = ByteBuffer(string: text)
    while let part = rest.readSlice(length: min(partBytes, rest.readableBytes)),
      part.readableBytes > 0
    {
      channel.pipeline.fireChannelRead(part)
      channel.pipeline.fireChannelReadComplete()
      channel.embeddedEventLoop.run()
    }
  }

  func endInput() {
    channel.pipeline.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
  }

  /// Answers the first request that is not answered.
  func answer(_ fields: HTTPFields = [.contentLength: "0"], _ body: String = "") throws {
    write(.head(HTTPResponse(status: .ok, headerFields: fields)))
    if !body.isEmpty { write(.body(ByteBuffer(string: body))) }
    write(.end(nil))
    channel.flush()
    channel.embeddedEventLoop.run()
  }

  /// Writes a part of a response.
  func write(_ part: HTTPResponsePart) {
    // As `FirstRequest` does it.
    if (try? channel.pipeline.syncOperations.context(handler: encoder)) != nil {
      channel.pipeline.syncOperations.removeHandler(encoder, promise: nil)
    }
    channel.write(part, promise: nil)
  }

  /// Ends the connection and everything that is kept for it.
  func close() throws {
    try channel.close().wait()
    connection.end()
  }
}

/// Notes the parts of requests.
final class InputRecorder: ChannelInboundHandler {
  typealias InboundIn = HTTPServerRequestPart

  var parts: [String] = []

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    switch unwrapInboundIn(data) {
    case .head(let head): parts.append("\(head.method) \(head.uri)")
    case .body(let bytes): parts.append(String(buffer: bytes))
    case .end: parts.append("end")
    }
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    if case ChannelEvent.inputClosed? = event as? ChannelEvent { parts.append("closed") }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    parts.append("error")
  }
}

/// A socket that may be full. It counts the reads.
final class FullSocket: ChannelOutboundHandler {
  typealias OutboundIn = ByteBuffer

  private var held: [EventLoopPromise<Void>] = []
  private(set) var heldBytes = 0
  private(set) var readCount = 0
  private(set) var sent: [UInt8] = []

  /// Whether the socket takes no bytes.
  var isFull = false {
    didSet {
      guard !isFull else { return }
      heldBytes = 0
      for promise in held { promise.succeed() }
      held = []
    }
  }

  func read(context: ChannelHandlerContext) {
    readCount += 1
  }

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    let bytes = unwrapOutboundIn(data)
    sent += bytes.readableBytesView
    if isFull { heldBytes += bytes.readableBytes }
    guard let promise else { return }
    if isFull { held.append(promise) } else { promise.succeed() }
  }

  func flush(context: ChannelHandlerContext) {}

  func handlerRemoved(context: ChannelHandlerContext) {
    isFull = false
  }
}

/// An upgrade to another protocol, which the test decides about.
///
/// `@unchecked Sendable`: one thread uses the variables, that of the test.
final class PendingUpgrade: HTTPServerProtocolUpgrader, @unchecked Sendable {
  let supportedProtocol = "other"
  let requiredUpgradeHeaders: [String] = []
  /// Set before the first request comes, and used on one thread.
  var decision: EventLoopPromise<HTTPHeaders>?
  var input: RequestInput?
  private let receiver = Receiver()

  var received: String { String(decoding: receiver.bytes, as: UTF8.self) }

  func accept() { decision?.succeed([:]) }

  func refuse() { decision?.fail(ChannelError.eof) }

  func buildUpgradeResponse(
    channel: any Channel, upgradeRequest: HTTPRequestHead, initialResponseHeaders: HTTPHeaders
  ) -> EventLoopFuture<HTTPHeaders> {
    decision?.futureResult ?? channel.eventLoop.makeFailedFuture(ChannelError.eof)
  }

  func upgrade(
    context: ChannelHandlerContext, upgradeRequest: HTTPRequestHead
  ) -> EventLoopFuture<Void> {
    input?.becomeWebSocket()
    return context.eventLoop.makeCompletedFuture {
      try context.pipeline.syncOperations.addHandler(receiver, position: .after(context.handler))
    }
  }

  private final class Receiver: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    var bytes: [UInt8] = []

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      bytes += unwrapInboundIn(data).readableBytesView
    }
  }
}
