internal import CanopyRealtimeWire
internal import CanopyTree
internal import NIOCore
internal import NIOWebSocket

/// The line protocol over a WebSocket: a message of the client is a line, and a line of the server is a message.
///
/// It stands before the handler of the line protocol, which takes and sends bytes. The parts of a long line go out as
/// the fragments of one message. Use it on the channel's event loop only.
final class WebSocketLines: ChannelDuplexHandler {
  typealias InboundIn = WebSocketFrame
  typealias InboundOut = ByteBuffer
  typealias OutboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private let raw: RawOutput
  /// Charges the fragments that are kept.
  private let frames: UnfinishedFrames?
  private var input: RealtimeInput
  /// Whether the first part of a line has gone out, and its end has not.
  private var isWithinLine = false
  /// Whether the last byte was the first one of the end of a line, which is not sent.
  private var endsWithReturn = false
  private var hasClosed = false
  /// The newest check of the client that is not answered.
  private var ping: ByteBuffer?
  /// Whether an answer to a check has not gone out.
  private var pongIsUnsent = false

  init(_ raw: RawOutput, _ frames: UnfinishedFrames?, lineBytesMax: Int) {
    self.raw = raw
    self.frames = frames
    input = RealtimeInput(bytesMax: lineBytesMax)
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let frame = unwrapInboundIn(data)
    let item = input.receive(frame)
    frames?.fragmentBytes = input.byteCount
    switch item {
    case .text(var line):
      // Otherwise one message would be several requests.
      guard !line.readableBytesView.contains(UInt8(ascii: "\n")) else { return fail(context) }
      line.writeInteger(UInt8(ascii: "\n"))
      context.fireChannelRead(wrapInboundOut(line))
    case .ping(let bytes):
      guard bytes.readableBytes < 126 else { return }
      // A copy, so that the bytes of other frames are not kept as well.
      ping = ByteBuffer(bytes.readableBytesView)
      answerPing(context)
    case .close: context.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
    case .none: break
    case .invalid: fail(context)
    }
  }

  /// Answers the newest check of the client, if the answer before it has gone out and the client reads.
  ///
  /// The protocol allows a server to answer only the newest of several checks. So a client that does not read
  /// cannot make the server keep more than one answer.
  private func answerPing(_ context: ChannelHandlerContext) {
    guard !hasClosed, !pongIsUnsent, context.channel.isWritable, let bytes = ping.take() else {
      return
    }
    var output = JSONOutput()
    bytes.withUnsafeReadableBytes { MessageFrames.append(control: 0xA, $0, to: &output) }
    pongIsUnsent = true
    let promise = context.eventLoop.makePromise(of: Void.self)
    promise.futureResult.assumeIsolated().whenComplete { _ in
      self.pongIsUnsent = false
      self.answerPing(context)
    }
    raw.writeAndFlush(output.withBytes { ByteBuffer(bytes: $0) }, promise: promise)
  }

  func channelWritabilityChanged(context: ChannelHandlerContext) {
    answerPing(context)
    context.fireChannelWritabilityChanged()
  }

  /// Ends the connection because of a frame that is not allowed.
  private func fail(_ context: ChannelHandlerContext) {
    sendClose(code: 1002)
    context.close(promise: nil)
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    context.close(promise: nil)
  }

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    let bytes = unwrapOutboundIn(data)
    var output = JSONOutput(capacity: bytes.readableBytes + 64)
    bytes.withUnsafeReadableBytes { append($0, to: &output) }
    // A buffer without bytes is a mark of the handler of lines: its promise follows all bytes before.
    raw.write(output.withBytes { ByteBuffer(bytes: $0) }, promise: promise)
  }

  private func append(_ bytes: UnsafeRawBufferPointer, to output: inout JSONOutput) {
    var rest = bytes[...]
    while !rest.isEmpty {
      let end = rest.firstIndex(of: UInt8(ascii: "\n"))
      var part = rest[..<(end ?? rest.endIndex)]
      rest = rest[(end.map { $0 + 1 } ?? rest.endIndex)...]
      // A carriage return belongs to the end of the line, so the last one waits for the next byte.
      let hadReturn = endsWithReturn
      endsWithReturn = part.last == UInt8(ascii: "\r")
      if endsWithReturn { part = part.dropLast() }
      // Within a line JSON has no carriage return. One that was kept belongs to the text all the same.
      let keepsReturn = hadReturn && !(part.isEmpty && end != nil)
      guard end != nil || !part.isEmpty || keepsReturn else { continue }
      let kept: [UInt8] = keepsReturn ? [UInt8(ascii: "\r")] : []
      MessageFrames.append(
        fragment: kept + part, isFirst: !isWithinLine, isLast: end != nil, to: &output)
      isWithinLine = end == nil
      if end != nil { endsWithReturn = false }
    }
  }

  func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
    if mode != .input { sendClose(code: 1000) }
    context.close(mode: mode, promise: promise)
  }

  private func sendClose(code: UInt16) {
    guard !hasClosed else { return }
    hasClosed = true
    var output = JSONOutput()
    let bytes = [UInt8(code >> 8), UInt8(code & 0xFF)]
    bytes.withUnsafeBytes { MessageFrames.append(control: 0x8, $0, to: &output) }
    raw.writeAndFlush(output.withBytes { ByteBuffer(bytes: $0) }, promise: nil)
  }
}
