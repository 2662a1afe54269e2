internal import CanopyEngine
internal import CanopyEvents
internal import NIOCore
internal import NIOHTTP1

/// The bytes of a connection between its socket and the decoder of HTTP, in both directions.
///
/// Hands on one request at a time, and keeps the bytes behind it until it is answered. A decoder turns thousands of
/// short requests into objects that take many times their bytes, and does not say how much it keeps of an unfinished
/// head. So this handler, which stands before the decoder, hands on small slices. It charges all bytes that wait to the
/// connection: the input, and the output that the socket has not taken. When the connection becomes a WebSocket, it
/// hands on everything. Use it on the channel's event loop only.
final class RequestInput: ChannelDuplexHandler {
  typealias InboundIn = ByteBuffer
  typealias InboundOut = ByteBuffer
  typealias OutboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  /// The most bytes of the head of a request: of its target and of the names and values of its fields.
  static let headBytesMax = 16 * 1024
  /// The most fields of a request.
  static let fieldsMax = 256
  /// The bytes charged for each field of a request, besides its text.
  static let fieldBytes = 128
  /// The kept bytes from which on no more are read. With fewer bytes the end of the client is noticed.
  static let keptBytesMax = 16 * 1024
  /// The bytes that the decoder gets at once. They end with the first head in them.
  private static let sliceBytes = 1024
  /// The bytes of a WebSocket that came with its request, and are handed on at once.
  private static let webSocketSliceBytes = ReadTurns.sliceBytes
  /// The cost of a request in a turn.
  private static let requestTurnBytes = LoopTurns.turnBytes / 8
  /// The number of bytes after which a head is too long, whatever is between its fields, if the decoder has returned
  /// nothing.
  private static let undecodedBytesMax = headBytesMax + 8 * 1024
  /// The change of a charge below which it is not reported.
  private static let reportBytes = 1024
  /// The bytes of output from which on they are counted until the socket has taken them.
  private static let countedBytes = 4 * 1024

  private enum Mode {
    case requests
    case webSocket
    /// Further input is dropped.
    case dropping
  }

  private let connection: GatewayConnection
  private var context: ChannelHandlerContext?
  private var mode = Mode.requests
  private var kept = ByteBuffer()
  /// Whether the kept bytes have a buffer of their own, and not that of a read.
  private var isOwn = false
  /// The number of whole requests that were handed on, minus the number of answers. Negative if a request is answered
  /// before the end of its body has come.
  private var unanswered = 0
  /// The bytes that were handed on since the decoder returned something.
  private var undecodedBytes = 0
  private var chargedInput = 0
  private var isHandingOn = false
  private var takesTurn = false
  private lazy var group = connection.turns
  /// Whether the pipeline waits to read.
  private var wantsRead = false
  /// Whether the end of the client's input is held back.
  private var hasInputEnded = false
  /// The bytes of output that are not counted, because they are few.
  private var uncountedBytes = 0
  /// The bytes of output that the socket has not taken.
  private var unsentBytes = 0
  private var chargedOutput = 0

  init(_ connection: GatewayConnection) {
    self.connection = connection
  }

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    self.context = nil
  }

  func channelInactive(context: ChannelHandlerContext) {
    // No client waits for the responses.
    drop()
    context.fireChannelInactive()
  }

  // MARK: Input

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    if mode == .dropping { return }
    if mode == .webSocket, kept.readableBytes == 0 { return context.fireChannelRead(data) }
    var bytes = unwrapInboundIn(data)
    if kept.readableBytes > 0 {
      // The space of the bytes that were handed on is used again.
      if kept.readerIndex > kept.readableBytes { kept.discardReadBytes() }
      kept.writeBuffer(&bytes)
    } else {
      kept = bytes
      isOwn = false
    }
    handOn(context)
  }

  /// Hands on bytes until a request is to be answered, or the first frames of a WebSocket.
  private func handOn(_ context: ChannelHandlerContext) {
    guard !isHandingOn, !takesTurn else { return chargeInput() }
    isHandingOn = true
    while kept.readableBytes > 0, mode == .webSocket || unanswered <= 0 {
      guard let slice = takeSlice() else { break }
      if mode == .requests {
        undecodedBytes += slice.readableBytes
        guard undecodedBytes <= Self.undecodedBytesMax else {
          context.fireErrorCaught(HTTPParserError.headerOverflow)
          break
        }
      }
      context.fireChannelRead(wrapInboundOut(slice))
      if mode == .webSocket, kept.readableBytes > 0 {
        takeTurnLater()
        break
      }
    }
    isHandingOn = false
    if kept.readableBytes == 0 {
      kept = ByteBuffer()
      if hasInputEnded {
        hasInputEnded = false
        context.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
      }
    } else if !isOwn {
      kept = ByteBuffer(kept.readableBytesView)
      isOwn = true
    }
    chargeInput()
  }

  private func takeSlice() -> ByteBuffer? {
    guard mode == .requests else {
      return kept.readSlice(length: min(kept.readableBytes, Self.webSocketSliceBytes))
    }
    let slice = kept.readSlice(
      length: Self.headEnd(kept.readableBytesView.prefix(Self.sliceBytes)))
    // The decoder may keep the last slice for long, and with it the buffer of a whole read.
    guard kept.readableBytes == 0, kept.storageCapacity > 4 * Self.sliceBytes else { return slice }
    return slice.map { ByteBuffer($0.readableBytesView) }
  }

  /// Returns the number of bytes of the first head with the empty line that ends it. Without such a line, returns the
  /// number of all bytes.
  private static func headEnd(_ bytes: ByteBufferView) -> Int {
    var rest = bytes
    while let feed = rest.firstIndex(of: UInt8(ascii: "\n")) {
      rest = bytes[(feed + 1)...]
      if rest.first == UInt8(ascii: "\r") { rest = rest.dropFirst() }
      if rest.first == UInt8(ascii: "\n") { return rest.startIndex + 1 - bytes.startIndex }
    }
    return bytes.count
  }

  /// Charges the kept bytes, and those of an unfinished head with the strings and the list of its fields.
  private func chargeInput() {
    var bytes = kept.storageCapacity
    if mode == .requests, undecodedBytes > 0 {
      // A field has at least four bytes.
      bytes += 2 * undecodedBytes + Self.fieldBytes * min(undecodedBytes / 4, Self.fieldsMax)
    }
    guard abs(bytes - chargedInput) >= Self.reportBytes || bytes == 0 && chargedInput > 0 else {
      return
    }
    chargedInput = bytes
    connection.charge(input: bytes)
  }

  func read(context: ChannelHandlerContext) {
    guard kept.readableBytes < Self.keptBytesMax else {
      wantsRead = true
      return
    }
    context.read()
  }

  /// Reads if a read was held back and fewer bytes wait now.
  private func readOn(_ context: ChannelHandlerContext) {
    guard wantsRead, kept.readableBytes < Self.keptBytesMax else { return }
    wantsRead = false
    // The connection may have stopped reading in the meantime. When it starts again, it asks for a read.
    let isReading = try? context.channel.syncOptions?.getOption(.autoRead)
    if isReading ?? true { context.read() }
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    guard case ChannelEvent.inputClosed? = event as? ChannelEvent, kept.readableBytes > 0 else {
      return context.fireUserInboundEventTriggered(event)
    }
    hasInputEnded = true
    // An event stream would keep the requests behind it waiting for ever.
    connection.quiesce()
  }

  // MARK: Requests

  /// Whether further input waits behind the bytes that were handed on.
  var hasMore: Bool { kept.readableBytes > 0 }

  /// Notes that the decoder has returned a head or a part of a body.
  func noteDecoded() {
    undecodedBytes = 0
  }

  /// Notes that the decoder has returned the end of a request.
  func endRequest() {
    undecodedBytes = 0
    unanswered += 1
    connection.setAtWork(unanswered > 0)
  }

  /// Notes that a request is answered, and hands on the next one in the next turn of the connection.
  func endResponse() {
    unanswered -= 1
    connection.setAtWork(unanswered > 0)
    if kept.readableBytes > 0 { takeTurnLater() }
  }

  private func takeTurnLater() {
    guard context != nil, !takesTurn else { return }
    takesTurn = true
    connection.loop.value.turns.append(self)
  }

  private func handOnLater() {
    guard let context else { return }
    if kept.readableBytes > 0 {
      handOn(context)
      context.fireChannelReadComplete()
    }
    readOn(context)
  }

  /// Drops the input from now on, because the connection takes no more requests.
  func drop() {
    mode = .dropping
    kept = ByteBuffer()
    chargeInput()
    // The end of the client is noticed only by reading.
    if let context { readOn(context) }
  }

  /// Hands on all bytes from now on.
  func becomeWebSocket() {
    mode = .webSocket
    connection.setAtWork(false)
    guard let context else { return }
    handOn(context)
    readOn(context)
  }

  // MARK: Output

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    let buffer = unwrapOutboundIn(data)
    // The capacity, unless the buffer is a small part of one that others share.
    uncountedBytes += min(buffer.storageCapacity, 2 * buffer.readableBytes)
    guard uncountedBytes >= Self.countedBytes else { return context.write(data, promise: promise) }
    // The bytes are sent in their order, so one promise is enough for those before as well.
    let count = uncountedBytes
    uncountedBytes = 0
    unsentBytes += count
    let sent = promise ?? context.eventLoop.makePromise(of: Void.self)
    sent.futureResult.assumeIsolated().whenComplete { [self] _ in
      unsentBytes -= count
      // During a flush, the charge waits until the flush has ended.
      if chargedOutput > 0 { chargeOutput() }
    }
    context.write(data, promise: sent)
  }

  func flush(context: ChannelHandlerContext) {
    context.flush()
    chargeOutput()
  }

  func channelWritabilityChanged(context: ChannelHandlerContext) {
    chargeOutput()
    context.fireChannelWritabilityChanged()
  }

  private func chargeOutput() {
    var bytes = unsentBytes
    // The session of a WebSocket charges the bytes of its socket while they are over the mark.
    if bytes > 0, mode == .webSocket, context?.channel.isWritable == false { bytes = 0 }
    guard bytes != chargedOutput else { return }
    chargedOutput = bytes
    connection.charge(output: bytes)
  }
}

extension RequestInput: TurnTaker {
  var turnGroup: TurnGroup? { group }

  func takeTurn(bytes: Int) -> Int {
    takesTurn = false
    handOnLater()
    return mode == .webSocket ? LoopTurns.turnBytes : Self.requestTurnBytes
  }
}
