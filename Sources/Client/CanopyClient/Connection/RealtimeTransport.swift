internal import CanopyRealtimeWire
internal import CanopyTree
internal import NIOCore
internal import NIOHTTP1
internal import NIOWebSocket

/// One connection by the realtime protocol: a WebSocket. Moves messages and knows nothing of their meaning.
final class RealtimeTransport: Transport {
  private let channel: any Channel

  fileprivate init(_ channel: any Channel) {
    self.channel = channel
  }

  /// The largest message of a server, in bytes: a reply may have a whole location.
  static let messageBytesMax = 256 * 1024 * 1024
  /// The largest frame of a server, in bytes. The frames of the protocol have 16,384 characters.
  static let frameBytesMax = 16 * 1024 * 1024

  /// Sends messages, each with a line feed at its end. Returns at once.
  func send(_ messages: ByteBuffer) {
    channel.writeAndFlush(messages, promise: nil)
  }

  /// Closes the connection. Returns at once; the event `closed` follows.
  func close() {
    channel.close(promise: nil)
  }

  /// Opens a connection.
  ///
  /// - Parameters:
  ///   - lastSession: the ID of the last connection, which the server is to end; nil if there was none.
  ///   - trusted: a file of certificates to trust instead of the system's.
  ///   - timeoutMilliseconds: the time for the connection, and again for the upgrade to a WebSocket.
  ///   - notify: called on the connection's event loop; must be brief.
  static func connect(
    to endpoint: Endpoint, lastSession: String?, trusted: String?, timeoutMilliseconds: Int64,
    notify: @escaping @Sendable (TransportEvent) -> Void
  ) {
    let target = endpoint.realtimeTarget(lastSession: lastSession)
    endpoint.connect(trusted: trusted, timeoutMilliseconds: timeoutMilliseconds) { channel in
      let pipeline = channel.pipeline.syncOperations
      let upgrader = NIOWebSocketClientUpgrader(
        maxFrameSize: frameBytesMax, automaticErrorHandling: false
      ) { channel, _ in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandler(MessageHandler(notify))
        }
      }
      let timeout = TimeAmount.milliseconds(timeoutMilliseconds)
      let opening = OpeningHandler(endpoint, target, timeout: timeout, notify)
      let bound = NIOLoopBound(opening, eventLoop: channel.eventLoop)
      try pipeline.addHTTPClientHandlers(
        leftOverBytesStrategy: .forwardBytes,
        withClientUpgrade: (
          upgraders: [upgrader],
          completionHandler: { context in
            bound.value.isUpgraded = true
            context.pipeline.syncOperations.removeHandler(bound.value, promise: nil)
          }
        ))
      try pipeline.addHandler(opening)
    } completion: { result in
      // A connection that was opened is reported when it has become a WebSocket.
      if case .failure(let error) = result { notify(.closed(endpoint.reason(of: error))) }
    }
  }
}

/// Asks a server for a WebSocket, and reports a refusal. Leaves the pipeline after the upgrade.
private final class OpeningHandler: ChannelInboundHandler, RemovableChannelHandler {
  typealias InboundIn = HTTPClientResponsePart
  typealias OutboundOut = HTTPClientRequestPart

  private let endpoint: Endpoint
  /// The target of the request.
  private let target: String
  private let timeout: TimeAmount
  private let notify: @Sendable (TransportEvent) -> Void
  private var deadline: Scheduled<Void>?
  private var reason: String
  /// The status with which the server refused the upgrade, and the beginning of the body.
  private var refusal: (status: HTTPResponseStatus, body: [UInt8])?
  private var wasActive = false
  private var hasFailed = false
  var isUpgraded = false

  /// The most bytes of a refusal that are read.
  private static let refusalBytesMax = 4_096

  init(
    _ endpoint: Endpoint, _ target: String, timeout: TimeAmount,
    _ notify: @escaping @Sendable (TransportEvent) -> Void
  ) {
    self.endpoint = endpoint
    self.target = target
    self.timeout = timeout
    reason = endpoint.closedReason
    self.notify = notify
  }

  func channelActive(context: ChannelHandlerContext) {
    wasActive = true
    let head = HTTPRequestHead(
      version: .http1_1, method: .GET, uri: target,
      headers: ["Host": endpoint.authority, "Content-Length": "0"])
    context.write(wrapOutboundOut(.head(head)), promise: nil)
    context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
    let bound = NIOLoopBound((handler: self, context: context), eventLoop: context.eventLoop)
    deadline = context.eventLoop.scheduleTask(in: timeout) {
      bound.value.handler.timedOut(bound.value.context)
    }
    context.fireChannelActive()
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard !isUpgraded else { return context.fireChannelRead(data) }
    switch unwrapInboundIn(data) {
    case .head(let head): refusal = (head.status, [])
    case .body(let part):
      let room = OpeningHandler.refusalBytesMax - (refusal?.body.count ?? 0)
      refusal?.body.append(contentsOf: part.readableBytesView.prefix(max(0, room)))
    case .end: failByRefusal(context)
    }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    if refusal != nil { return failByRefusal(context) }
    fail(endpoint.reason(of: error), context)
  }

  func channelInactive(context: ChannelHandlerContext) {
    if refusal != nil { failByRefusal(context) }
    // If the connection was never opened, the future reports the failure.
    if wasActive, !isUpgraded { notify(.closed(reason)) }
    deadline?.cancel()
    context.fireChannelInactive()
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    deadline?.cancel()
  }

  private func timedOut(_ context: ChannelHandlerContext) {
    if refusal != nil { return failByRefusal(context) }
    fail("\(endpoint.place) did not open a WebSocket in time", context)
  }

  /// Fails with the status of the response, and with the sentence of the server if there is one.
  private func failByRefusal(_ context: ChannelHandlerContext) {
    guard let (status, body) = refusal.take() else { return }
    let sentence = JSONValue(reading: body)?["error"]?.string.map { ": \($0)" } ?? ""
    fail("\(endpoint.place) refused a WebSocket: \(status)\(sentence)", context)
  }

  private func fail(_ reason: String, _ context: ChannelHandlerContext) {
    guard !isUpgraded, !hasFailed else { return }
    hasFailed = true
    self.reason = reason
    context.close(promise: nil)
  }
}

/// Joins frames into messages and decodes them; splits messages into frames.
final class MessageHandler: ChannelDuplexHandler {
  typealias InboundIn = WebSocketFrame
  typealias OutboundIn = ByteBuffer
  typealias OutboundOut = WebSocketFrame

  private let notify: @Sendable (TransportEvent) -> Void
  private var assembler: MessageAssembler
  private let messageBytesMax: Int
  /// The fragments of a frame that is not complete.
  private var fragments: ByteBuffer?
  private var messages: [RealtimeMessage] = []
  private var reason = "the connection was closed"
  private var hasFailed = false

  /// Creates the handler of one WebSocket.
  ///
  /// - Parameter messageBytesMax: the largest message of the server, in bytes.
  init(
    messageBytesMax: Int = RealtimeTransport.messageBytesMax,
    _ notify: @escaping @Sendable (TransportEvent) -> Void
  ) {
    self.messageBytesMax = messageBytesMax
    assembler = MessageAssembler(bytesMax: messageBytesMax)
    self.notify = notify
  }

  func handlerAdded(context: ChannelHandlerContext) {
    // The pipeline reads nothing before this, so `opened` precedes all other events.
    notify(.opened(RealtimeTransport(context.channel)))
  }

  // MARK: Receiving

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard !hasFailed else { return }
    let frame = unwrapInboundIn(data)
    switch frame.opcode {
    case .text, .continuation: receive(frame)
    case .ping: send(.pong, frame.unmaskedData, context)
    case .connectionClose:
      send(.connectionClose, frame.unmaskedData, context)
      hasFailed = true
    default: break
    }
    if hasFailed { context.close(promise: nil) }
  }

  private func receive(_ frame: WebSocketFrame) {
    let data = frame.unmaskedData
    guard fragments != nil || !frame.fin else { return receive(text: data) }
    let known = fragments?.readableBytes ?? 0
    guard data.readableBytes <= messageBytesMax - known else { return failTooLong() }
    fragments = fragments ?? ByteBuffer()
    fragments?.writeImmutableBuffer(data)
    guard frame.fin, let whole = fragments else { return }
    fragments = nil
    receive(text: whole)
  }

  private func receive(text: ByteBuffer) {
    text.withUnsafeReadableBytes { bytes in
      assembler.receive(bytes) { outcome in
        switch outcome {
        case .incomplete: break
        case .message(let json):
          do throws(TreeError) { messages.append(try RealtimeMessage(json)) } catch {
            fail("the server sent a message that is not valid in this protocol: \(error.sentence)")
          }
        case .tooLarge: failTooLong()
        case .invalid: fail("the server announced a message of too many frames")
        }
      }
    }
  }

  private func failTooLong() {
    fail("the server sent a message of more than \(messageBytesMax) bytes")
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    flushMessages()
    context.fireChannelReadComplete()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    if !hasFailed {
      if case NIOWebSocketError.invalidFrameLength = error {
        fail("the server sent a frame of more than \(RealtimeTransport.frameBytesMax) bytes")
      } else {
        fail("\(error)")
      }
    }
    context.close(promise: nil)
  }

  func channelInactive(context: ChannelHandlerContext) {
    flushMessages()
    notify(.closed(reason))
    context.fireChannelInactive()
  }

  private func flushMessages() {
    guard !messages.isEmpty else { return }
    notify(.receivedMessages(messages))
    messages.removeAll(keepingCapacity: true)
  }

  private func fail(_ reason: String) {
    hasFailed = true
    self.reason = reason
  }

  // MARK: Sending

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    var buffer = unwrapOutboundIn(data)
    while let end = buffer.readableBytesView.firstIndex(of: UInt8(ascii: "\n")) {
      let length = end - buffer.readableBytesView.startIndex
      guard let message = buffer.readSlice(length: length) else { break }
      buffer.moveReaderIndex(forwardBy: 1)
      write(message, context)
    }
    promise?.succeed(())
  }

  private func write(_ message: ByteBuffer, _ context: ChannelHandlerContext) {
    let pieces = message.withUnsafeReadableBytes { MessageFrames.pieces(of: $0) }
    if pieces.count > 1 { writeText(ByteBuffer(string: "\(pieces.count)"), context) }
    for piece in pieces {
      let slice = message.getSlice(at: message.readerIndex + piece.lowerBound, length: piece.count)
      if let slice { writeText(slice, context) }
    }
  }

  private func writeText(_ text: ByteBuffer, _ context: ChannelHandlerContext) {
    let frame = WebSocketFrame(fin: true, opcode: .text, maskKey: .random(), data: text)
    context.write(wrapOutboundOut(frame), promise: nil)
  }

  private func send(
    _ opcode: WebSocketOpcode, _ data: ByteBuffer, _ context: ChannelHandlerContext
  ) {
    let frame = WebSocketFrame(fin: true, opcode: opcode, maskKey: .random(), data: data)
    context.writeAndFlush(wrapOutboundOut(frame), promise: nil)
  }
}
