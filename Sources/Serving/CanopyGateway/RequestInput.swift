internal import NIOCore
internal import NIOHTTP1

/// The input of a connection: hands on one request at a time, and keeps the bytes behind it until it is answered.
///
/// A decoder turns thousands of short requests into objects that take many times their bytes, and does not say how much
/// it keeps of an unfinished head. So this handler, which stands before the decoder, hands on small slices, and charges
/// all the bytes that wait to the connection. When the connection becomes a WebSocket, it hands on everything. Use it on
/// the channel's event loop only.
final class RequestInput: ChannelDuplexHandler {
  typealias InboundIn = ByteBuffer
  typealias InboundOut = ByteBuffer
  typealias OutboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  /// The most bytes of the head of a request: of its target and of the names and values of its fields.
  static let headBytesMax = 16 * 1024
  /// The bytes after which a head that is not complete is too long, whatever stands between its fields.
  private static let unfinishedBytesMax = headBytesMax + 8 * 1024
  /// The bytes that the decoder gets at once. They may have some dozens of short requests.
  private static let sliceBytes = 1024
  /// The kept bytes from which on no more are read. With fewer bytes the end of the client is noticed.
  private static let keptBytesMax = 16 * 1024
  /// The change of the charge below which it is not reported.
  private static let reportBytes = 1024

  private let connection: GatewayConnection
  private var context: ChannelHandlerContext?
  private var kept = ByteBuffer()
  /// Whether the kept bytes have a buffer of their own, and not that of a read.
  private var isOwn = false
  /// The whole requests that were handed on, less those that are answered. Negative while the body of a request follows
  /// that is answered already.
  private var unanswered = 0
  /// The bytes of the head that the decoder has, if it is not complete.
  private var headBytes = 0
  private var isWithinHead = true
  private var charged = 0
  private var isHandingOn = false
  /// Whether the pipeline waits to read.
  private var wantsRead = false
  /// Whether the end of the client's input is held back.
  private var hasInputEnded = false
  private var isWebSocket = false
  /// Whether further input is dropped.
  private var isDropped = false

  init(_ connection: GatewayConnection) {
    self.connection = connection
  }

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    self.context = nil
  }

  // MARK: Input

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard !isDropped else { return }
    if isWebSocket, kept.readableBytes == 0 { return context.fireChannelRead(data) }
    var bytes = unwrapInboundIn(data)
    if kept.readableBytes > 0 {
      kept.writeBuffer(&bytes)
    } else {
      kept = bytes
      isOwn = false
    }
    handOn(context)
  }

  /// Hands on bytes until a request is to be answered.
  private func handOn(_ context: ChannelHandlerContext) {
    guard !isHandingOn else { return }
    isHandingOn = true
    while kept.readableBytes > 0, unanswered <= 0 || isWebSocket {
      let count = isWebSocket ? kept.readableBytes : min(kept.readableBytes, Self.sliceBytes)
      guard let slice = kept.readSlice(length: count) else { break }
      if isWithinHead, !isWebSocket {
        headBytes += count
        guard headBytes <= Self.unfinishedBytesMax else {
          drop()
          context.fireErrorCaught(HTTPParserError.headerOverflow)
          break
        }
      }
      context.fireChannelRead(wrapInboundOut(slice))
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
    charge()
  }

  /// Charges the kept bytes, and an unfinished head with the strings of its fields.
  private func charge() {
    let bytes = kept.storageCapacity + (isWithinHead && !isWebSocket ? 2 * headBytes : 0)
    guard abs(bytes - charged) >= Self.reportBytes || bytes == 0 && charged > 0 else { return }
    charged = bytes
    connection.charge(input: bytes)
  }

  func read(context: ChannelHandlerContext) {
    guard kept.readableBytes < Self.keptBytesMax else {
      wantsRead = true
      return
    }
    context.read()
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

  /// Notes that the decoder has returned the head of a request.
  func endHead() {
    isWithinHead = false
    headBytes = 0
  }

  /// Notes that the decoder has returned the end of a request.
  func endRequest() {
    isWithinHead = true
    unanswered += 1
  }

  /// Notes that a request is answered, and hands on the next one.
  func endResponse() {
    unanswered -= 1
    guard kept.readableBytes > 0, let context else { return }
    // Later, because the response is being written.
    let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
    context.eventLoop.execute { bound.value.0.handOnLater(bound.value.1) }
  }

  private func handOnLater(_ context: ChannelHandlerContext) {
    guard self.context != nil else { return }
    handOn(context)
    context.fireChannelReadComplete()
    if wantsRead, kept.readableBytes < Self.keptBytesMax {
      wantsRead = false
      context.read()
    }
  }

  /// Drops the input from now on, because the connection takes no more requests.
  func drop() {
    isDropped = true
    kept = ByteBuffer()
    charge()
  }

  /// Hands on all bytes from now on.
  func becomeWebSocket() {
    isWebSocket = true
    if let context { handOn(context) }
  }
}
