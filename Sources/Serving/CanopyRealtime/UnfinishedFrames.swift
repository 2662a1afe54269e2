internal import CanopyEvents
package import CanopySession
package import Logging
package import NIOCore

/// Keeps the parts of a WebSocket frame until its last byte has come, and charges them to the memory budget of the
/// server.
///
/// The decoder of frames would keep them in a buffer of unknown size. So this handler, which stands before it, hands on
/// whole frames alone. It keeps the bytes of an unfinished one if the budget has room for the buffer that they need, and
/// otherwise ends the connection before it takes them. Frames that the decoder refuses are handed on as they come. Use it
/// on the channel's event loop only.
package final class UnfinishedFrames: ChannelInboundHandler {
  package typealias InboundIn = ByteBuffer
  package typealias InboundOut = ByteBuffer

  private let frameBytesMax: Int
  private let memory: MemoryBudget
  private let logger: Logger
  private var share: MemoryBudget.Share?
  /// The bytes of the unfinished frame.
  private var kept = ByteBuffer()
  /// Whether the decoder has refused a frame. It takes no more.
  private var isInvalid = false
  private var isGone = false
  /// The bytes of fragments that wait for the last one, if the session does not charge them.
  var fragmentBytes = 0

  /// - Parameter frameBytesMax: the most bytes of a frame besides its head.
  package init(_ memory: MemoryBudget, _ logger: Logger, frameBytesMax: Int) {
    self.memory = memory
    self.logger = logger
    self.frameBytesMax = frameBytesMax
  }

  package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard !isGone else { return }
    var buffer = unwrapInboundIn(data)
    while kept.readableBytes > 0, buffer.readableBytes > 0 {
      guard takeMissing(context, from: &buffer) else { return }
    }
    if isInvalid || buffer.readableBytes == 0 {
      if buffer.readableBytes > 0 { context.fireChannelRead(wrapInboundOut(buffer)) }
    } else if let whole = buffer.readSlice(length: wholeBytes(buffer)) {
      if whole.readableBytes > 0 { context.fireChannelRead(wrapInboundOut(whole)) }
      if buffer.readableBytes > 0, !keep(context, &buffer, buffer.readableBytes) { return }
    }
    report(context.channel)
  }

  /// Takes the bytes that the kept frame lacks, or its head, and hands it on if it is whole.
  ///
  /// - Returns: false if there is no room for them.
  private func takeMissing(_ context: ChannelHandlerContext, from buffer: inout ByteBuffer) -> Bool
  {
    // Without its length, as many bytes of the head as it may have.
    let bytes: Int
    switch FrameHead(kept.readableBytesView) {
    case .unfinished: bytes = 1
    case .frame(let length, _): bytes = length - kept.readableBytes
    case .invalid:
      handOnKept(context)
      isInvalid = true
      return true
    }
    if bytes > 0, !keep(context, &buffer, min(bytes, buffer.readableBytes)) { return false }
    switch FrameHead(kept.readableBytesView) {
    case .unfinished: break
    case .frame(let length, let dataBytes) where dataBytes <= frameBytesMax:
      if kept.readableBytes == length { handOnKept(context) }
    default:
      handOnKept(context)
      isInvalid = true
    }
    return true
  }

  private func handOnKept(_ context: ChannelHandlerContext) {
    let frame = kept
    kept = ByteBuffer()
    context.fireChannelRead(wrapInboundOut(frame))
  }

  /// Returns the number of bytes of the whole frames with which a buffer begins, or of all bytes if the decoder refuses
  /// the frame behind these.
  private func wholeBytes(_ buffer: ByteBuffer) -> Int {
    let bytes = buffer.readableBytesView
    var end = bytes.startIndex
    while end < bytes.endIndex {
      switch FrameHead(bytes[end...]) {
      case .frame(let length, let dataBytes) where dataBytes <= frameBytesMax:
        guard length <= bytes.endIndex - end else { return end - bytes.startIndex }
        end += length
      case .unfinished: return end - bytes.startIndex
      default:
        isInvalid = true
        return bytes.count
      }
    }
    return bytes.count
  }

  /// Keeps bytes if there is room for the buffer that they need. Otherwise ends the connection and returns false.
  private func keep(
    _ context: ChannelHandlerContext, _ buffer: inout ByteBuffer, _ count: Int
  ) -> Bool {
    let needed = kept.readableBytes + count
    if needed > kept.storageCapacity {
      // A buffer grows by doubling.
      let capacity = max(needed, 64).nextPowerOfTwo
      if capacity >= MemoryBudget.reportBytes {
        if share == nil { share = memory.open(of: context.channel, logger) }
        guard share?.admit(capacity + fragmentBytes) == true else {
          drop()
          context.channel.cutOffForMemory(memory.lines, logger)
          return false
        }
      }
      kept.reserveCapacity(capacity)
    }
    // A copy, so that the buffer of a read is not kept as well.
    if var part = buffer.readSlice(length: count) { kept.writeBuffer(&part) }
    return true
  }

  package func channelInactive(context: ChannelHandlerContext) {
    drop()
    context.fireChannelInactive()
  }

  /// Frees the buffer, and then its share of the budget.
  private func drop() {
    isGone = true
    kept = ByteBuffer()
    share = nil
  }

  private func report(_ channel: any Channel) {
    let held = kept.storageCapacity + fragmentBytes
    if share == nil {
      guard held >= MemoryBudget.reportBytes, channel.isActive else { return }
      share = memory.open(of: channel, logger)
    }
    share?.report(held)
  }
}

/// The beginning of a WebSocket frame.
private enum FrameHead {
  /// More bytes are needed.
  case unfinished
  /// The bytes of the frame with its head, and those of its data.
  case frame(Int, dataBytes: Int)
  /// The decoder refuses the frame.
  case invalid

  init(_ bytes: ByteBufferView) {
    let start = bytes.startIndex
    guard bytes.count >= 2 else {
      self = .unfinished
      return
    }
    let (first, second) = (bytes[start], bytes[start + 1])
    let short = Int(second & 0x7F)
    let isControl = first & 0x08 != 0
    guard !isControl || first & 0x80 != 0 && short < 126 else {
      self = .invalid
      return
    }
    let lengthBytes = short == 127 ? 8 : short == 126 ? 2 : 0
    guard bytes.count >= 2 + lengthBytes else {
      self = .unfinished
      return
    }
    var length = UInt64(short)
    if lengthBytes > 0 {
      length = bytes[(start + 2)..<(start + 2 + lengthBytes)].reduce(0) { $0 << 8 | UInt64($1) }
    }
    // The decoder allows no longer ones, whatever its bound.
    guard length <= UInt64(UInt32.max) else {
      self = .invalid
      return
    }
    let headBytes = 2 + lengthBytes + (second & 0x80 == 0 ? 0 : 4)
    self = .frame(headBytes + Int(length), dataBytes: Int(length))
  }
}

extension Int {
  /// The least power of two that is not less. Precondition: the number is positive, and such a power exists.
  fileprivate var nextPowerOfTwo: Int {
    assert(1...(1 << (Int.bitWidth - 2)) ~= self, "there is no such power")
    return 1 << (Int.bitWidth - (self - 1).leadingZeroBitCount)
  }
}
