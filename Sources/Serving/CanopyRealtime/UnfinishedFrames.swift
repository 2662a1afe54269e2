internal import CanopyEvents
internal import CanopySession
internal import Logging
internal import NIOCore
internal import NIOWebSocket

/// Charges the parts of WebSocket frames that are not complete to the memory budget of the server.
///
/// The decoder of frames keeps a frame until its last byte has come, and with its first byte the whole buffer of a read.
/// This handler stands before it, and counts the bytes that come in; `receive` counts the frames that come out. Use it on
/// the channel's event loop only.
final class UnfinishedFrames: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias InboundOut = ByteBuffer

  private let memory: MemoryBudget
  private let logger: Logger
  private var share: MemoryBudget.Share?
  /// The bytes that the decoder may keep.
  private var bytes = 0
  /// The largest buffer of a read of which the decoder may keep bytes.
  private var bufferBytes = 0
  /// Whether a frame has come out of the decoder since the last bytes came in.
  private var hasFrame = false
  /// The bytes of fragments that wait for the last one, if the session does not charge them.
  var fragmentBytes = 0

  init(_ memory: MemoryBudget, _ logger: Logger) {
    self.memory = memory
    self.logger = logger
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let buffer = unwrapInboundIn(data)
    let count = buffer.readableBytes
    bytes += count
    bufferBytes = max(bufferBytes, buffer.storageCapacity)
    hasFrame = false
    context.fireChannelRead(data)
    // The remaining bytes, behind a frame, have come with these.
    if hasFrame { bytes = min(bytes, count) }
    if bytes == 0 { bufferBytes = 0 }
    report(context.channel)
  }

  func channelInactive(context: ChannelHandlerContext) {
    share?.report(0)
    share = nil
    context.fireChannelInactive()
  }

  /// Notes that the decoder has returned a frame.
  func receive(_ frame: WebSocketFrame) {
    hasFrame = true
    let lengthBytes =
      switch frame.length {
      case ..<126: 0
      case ..<65_536: 2
      default: 8
      }
    bytes = max(0, bytes - frame.length - 2 - lengthBytes - (frame.maskKey == nil ? 0 : 4))
  }

  private func report(_ channel: any Channel) {
    let held = max(bytes, bufferBytes) + fragmentBytes
    if share == nil {
      guard held >= MemoryBudget.reportBytes, channel.isActive else { return }
      // The share ends with the connection. A normal close would wait for the client, with TLS and with a WebSocket.
      share = memory.open(on: channel.eventLoop) { [logger] in
        guard channel.isActive else { return }
        logger.notice(
          "a connection was cut off because the server is short of memory",
          metadata: ["from": "\(channel.remoteAddress?.ipAddress ?? "local")"])
        channel.cutOff()
      }
    }
    share?.report(held)
  }
}
