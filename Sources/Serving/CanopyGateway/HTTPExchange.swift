internal import CanopyTree
internal import DequeModule
internal import HTTPTypes
internal import NIOCore
internal import NIOHTTP1
internal import NIOHTTPTypes

/// The requests and responses of a connection, before other handlers see them.
///
/// Joins the parts of a body that come together, charges the heads of requests, reports to `RequestInput` when a request
/// and its response have ended, and speaks HTTP/1.0 to a client of that version: no chunks, and the connection ends after
/// the response unless the client asks for more. It is removed with the decoder when the connection becomes a WebSocket.
///
/// Encodes the responses: the head and a short body are one buffer, so the handlers before it and the system take them
/// at once. Use it on the channel's event loop only.
final class HTTPExchange: ChannelDuplexHandler, RemovableChannelHandler {
  typealias InboundIn = HTTPServerRequestPart
  typealias InboundOut = HTTPServerRequestPart
  typealias OutboundIn = HTTPResponsePart
  typealias OutboundOut = ByteBuffer

  /// A request that is not answered.
  private struct Unanswered {
    /// Whether the client speaks HTTP/1.0.
    var isOld: Bool
    /// Whether the connection may stay open after the response.
    var mayStay: Bool
    /// The bytes that are charged for the head.
    var headBytes: Int
  }

  /// The bytes of a head that the charge of each connection includes.
  private static let smallHeadBytes = 2 * 1024
  /// The least bytes of a request that waits behind another one.
  private static let waitingBytes = 1024
  /// The bytes of a part of a path, or of a parameter, besides its text.
  private static let targetPartBytes = 64
  /// The bytes of a body that are handed on together.
  private static let bodyBytes = 64 * 1024

  private let connection: GatewayConnection
  private let input: RequestInput
  private var output = ResponseOutput()
  private var unanswered: Deque<Unanswered> = []
  /// The bytes of the heads of the unanswered requests.
  private var unansweredHeadBytes = 0
  /// The parts of a body that came together.
  private var body = ByteBuffer()
  /// Whether bytes of a body are charged.
  private var hasBody = false
  /// The bytes of the head of the last request that was answered. It exists until the next one comes.
  private var answeredHeadBytes = 0
  private var chargedHeadBytes = 0
  /// Whether a request has been refused because its head is too long.
  private var isHeadTooLong = false
  /// Whether a request has been refused because of its fields. The parts behind its head are dropped.
  private var isHeadRefused = false
  /// Whether a request was successful.
  private var hasSucceeded = false

  init(_ connection: GatewayConnection, _ input: RequestInput) {
    self.connection = connection
    self.input = input
  }

  func removeHandler(
    context: ChannelHandlerContext, removalToken: ChannelHandlerContext.RemovalToken
  ) {
    // The connection is a WebSocket, and has no requests any more.
    unanswered.removeAll()
    unansweredHeadBytes = 0
    answeredHeadBytes = 0
    chargeHeads()
    endBody()
    context.leavePipeline(removalToken: removalToken)
  }

  // MARK: Requests

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard !isHeadRefused else { return }
    switch unwrapInboundIn(data) {
    case .head(var head):
      input.noteDecoded()
      guard Self.isCodingKnown(head), Self.isHostClear(head) else {
        isHeadRefused = true
        return errorCaught(context: context, error: HTTPParserError.invalidHeaderToken)
      }
      note(head)
      // The handlers behind this one know the word in this form only.
      if head.version == .http1_1, !head.isKeepAlive {
        head.headers.replaceOrAdd(name: "Connection", value: "close")
        return context.fireChannelRead(wrapInboundOut(.head(head)))
      }
    case .body(let part):
      input.noteDecoded()
      // Joined, as each part of some bytes would take hundreds.
      body.writeImmutableBuffer(part)
      if body.readableBytes >= Self.bodyBytes { handOnBody(context) }
      return
    case .end:
      handOnBody(context)
      input.endRequest()
    }
    context.fireChannelRead(data)
  }

  /// Whether the body of a request comes as it is, or in chunks alone. The decoder undoes the chunks, and accepts any
  /// other coding before them.
  private static func isCodingKnown(_ head: HTTPRequestHead) -> Bool {
    let codings = head.headers["Transfer-Encoding"]
    guard let coding = codings.first else { return true }
    return codings.count == 1 && coding.asciiLowercased.hasSameBytes(as: "chunked")
  }

  /// Whether a request names its host once, and its origin at most once. Otherwise a program before this server may have
  /// looked at another one of them. A client of HTTP/1.0 need not name a host.
  private static func isHostClear(_ head: HTTPRequestHead) -> Bool {
    let hosts = head.headers["Host"].count
    let isOld = head.version.major < 1 || head.version == .http1_0
    return (hosts == 1 || hosts == 0 && isOld) && head.headers["Origin"].count <= 1
  }

  private func note(_ head: HTTPRequestHead) {
    var bytes = Self.memoryBytes(head)
    if unanswered.isEmpty { answeredHeadBytes = 0 } else { bytes = max(bytes, Self.waitingBytes) }
    let isOld = head.version.major < 1 || head.version == .http1_0
    unanswered.append(
      Unanswered(isOld: isOld, mayStay: !isOld || head.isKeepAlive, headBytes: bytes))
    unansweredHeadBytes += bytes
    chargeHeads()
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    handOnBody(context)
    context.fireChannelReadComplete()
  }

  private func handOnBody(_ context: ChannelHandlerContext) {
    guard body.readableBytes > 0 else { return }
    let part = body
    body = ByteBuffer()
    // The rest of a body whose request is answered is only dropped.
    if !unanswered.isEmpty {
      hasBody = true
      connection.receivedBody(part.storageCapacity)
    }
    context.fireChannelRead(wrapInboundOut(.body(part)))
  }

  private func endBody() {
    guard hasBody else { return }
    hasBody = false
    connection.endBody()
  }

  /// Returns the bytes of a head, which exists as fields of two libraries and as a `Target`; 0 for a small one.
  private static func memoryBytes(_ head: HTTPRequestHead) -> Int {
    var bytes = 3 * head.uri.utf8.count
    for byte in head.uri.utf8 where byte == UInt8(ascii: "/") || byte == UInt8(ascii: "&") {
      bytes += targetPartBytes
    }
    for (name, value) in head.headers {
      bytes += 2 * (name.utf8.count + value.utf8.count) + RequestInput.fieldBytes
    }
    return bytes > smallHeadBytes ? bytes : 0
  }

  private func chargeHeads() {
    let bytes = unansweredHeadBytes + answeredHeadBytes
    guard bytes != chargedHeadBytes else { return }
    chargedHeadBytes = bytes
    connection.charge(head: bytes)
  }

  func channelWritabilityChanged(context: ChannelHandlerContext) {
    connection.setRead(context.channel.isWritable)
    context.fireChannelWritabilityChanged()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    if let error = error as? HTTPParserError {
      isHeadTooLong = isHeadTooLong || error == .headerOverflow
      // The rest of the input cannot be understood.
      input.drop()
    }
    handOnBody(context)
    context.fireErrorCaught(error)
  }

  // MARK: Responses

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    switch unwrapOutboundIn(data) {
    case .head(var head):
      var isOld = false
      if let request = unanswered.first {
        // A client of HTTP/1.0 knows no provisional responses, but has asked for this one.
        isOld = request.isOld && head.status.kind != .informational
        if isOld { makeOld(&head, request) }
      } else if isHeadTooLong {
        head.status = .requestHeaderFieldsTooLarge
      }
      if !hasSucceeded, head.status.code < 400 {
        hasSucceeded = true
        connection.noteSuccess()
      }
      let isWaiting = output.begin(head, isOld: isOld)
      if !isWaiting || promise != nil { writeOutput(context, promise) }
    case .body(let bytes):
      guard !output.append(bytes) else {
        if promise != nil { writeOutput(context, promise) }
        return
      }
      writeOutput(context, nil)
      context.write(wrapOutboundOut(bytes), promise: promise)
      output.endLongBody()
    case .end(let trailers):
      output.end(trailers)
      endResponse(context, promise)
    }
  }

  /// Writes the bytes that wait. The promise succeeds when these and all earlier ones are sent.
  private func writeOutput(_ context: ChannelHandlerContext, _ promise: EventLoopPromise<Void>?) {
    let bytes = output.take()
    guard bytes != nil || promise != nil else { return }
    context.write(wrapOutboundOut(bytes ?? ByteBuffer()), promise: promise)
  }

  func flush(context: ChannelHandlerContext) {
    writeOutput(context, nil)
    context.flush()
  }

  /// Writes the rest of a response, and notes its end.
  private func endResponse(_ context: ChannelHandlerContext, _ promise: EventLoopPromise<Void>?) {
    let request = unanswered.popFirst()
    answeredHeadBytes = request?.headBytes ?? 0
    unansweredHeadBytes -= answeredHeadBytes
    chargeHeads()
    endBody()
    if let request, !request.mayStay {
      input.drop()
      let sent = promise ?? context.eventLoop.makePromise(of: Void.self)
      sent.futureResult.assumeIsolated().whenComplete { _ in context.close(promise: nil) }
      writeOutput(context, sent)
    } else {
      writeOutput(context, promise)
    }
    input.endResponse()
  }

  /// Makes the head of a response one for HTTP/1.0.
  private func makeOld(_ head: inout HTTPResponse, _ request: Unanswered) {
    head.headerFields[.transferEncoding] = nil
    // Without a length the end of the connection is that of the body.
    let stays =
      request.mayStay && head.headerFields[.contentLength] != nil
      && !head.headerFields[values: .connection].contains { $0.hasSameBytes(as: "close") }
    head.headerFields[.connection] = stays ? "keep-alive" : "close"
    unanswered[unanswered.startIndex].mayStay = stays
  }
}
