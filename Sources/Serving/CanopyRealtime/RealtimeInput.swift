internal import CanopyEvents
internal import CanopyRealtimeWire
package import NIOCore
package import NIOWebSocket

/// The input of one connection: joins frames into messages, and keeps frames that the session does not take yet.
///
/// Use it on the connection's event loop only.
package final class RealtimeInput: ConnectionInput {
  /// The outcome of a frame.
  package enum Item {
    /// A text frame, or the last fragment of one.
    case text(ByteBuffer)
    /// A check of the client, to be answered with the same bytes.
    case ping(ByteBuffer)
    /// The client ends the connection.
    case close
    /// The frame asks for nothing.
    case none
    /// The frame is not allowed, for this reason.
    case invalid(String)
  }

  private let bytesMax: Int
  var assembler: MessageAssembler
  /// The fragments of a text frame that is not complete.
  private var fragments: ByteBuffer?
  /// The frames that are kept, each behind its length. One buffer, because a buffer for each of thousands of short
  /// frames would take many times their bytes.
  private var backlog = ByteBuffer()
  /// Whether a frame is being decoded.
  package var isDecoding = false
  /// The bytes of a long message that is decoded on another thread; 0 if there is none.
  package var bytesBeside = 0
  /// The memory of the requests that are not answered, besides those of the session.
  var answerBytes = 0

  package init(bytesMax: Int) {
    self.bytesMax = bytesMax
    assembler = MessageAssembler(bytesMax: bytesMax)
  }

  /// The memory of the bytes that are kept.
  package var byteCount: Int {
    assembler.keptBytes + (fragments?.storageCapacity ?? 0) + backlog.storageCapacity + bytesBeside
      + answerBytes
  }

  /// Whether whole messages may be among the bytes that are kept.
  package var hasBacklog: Bool { backlog.readableBytes > 0 || bytesBeside > 0 }

  /// Takes a frame.
  package func receive(_ frame: WebSocketFrame) -> Item {
    // Otherwise a page could send bytes that a proxy takes for requests.
    guard frame.maskKey != nil else { return .invalid("a client must mask its frames") }
    guard !frame.rsv1, !frame.rsv2, !frame.rsv3 else {
      return .invalid("a frame has a bit of an extension, and none is in use")
    }
    switch frame.opcode {
    case .text:
      guard fragments == nil else { return .invalid("a message began within another one") }
      if frame.fin { return .text(frame.unmaskedData) }
      // A copy, so that the bytes of other frames are not kept as well.
      fragments = ByteBuffer(frame.unmaskedData.readableBytesView)
    case .continuation:
      guard fragments != nil else { return .invalid("a fragment belongs to no message") }
      var data = frame.unmaskedData
      fragments?.writeBuffer(&data)
      if frame.fin, let whole = fragments.take() { return .text(whole) }
    case .ping: return .ping(frame.unmaskedData)
    case .pong: return .none
    case .connectionClose: return .close
    default: return .invalid("a message must be text")
    }
    guard fragments?.readableBytes ?? 0 <= bytesMax else {
      return .invalid("a message may have at most \(bytesMax) bytes")
    }
    return .none
  }

  /// Keeps a text frame behind the backlog.
  func keep(_ frame: ByteBuffer) {
    // The space of frames that were taken is used again.
    if backlog.readerIndex > backlog.readableBytes { backlog.discardReadBytes() }
    backlog.writeInteger(frame.readableBytes)
    backlog.writeImmutableBuffer(frame)
  }

  /// Takes the first frame of the backlog.
  package func takeBacklog() -> ByteBuffer? {
    guard let count = backlog.readInteger(as: Int.self),
      let frame = backlog.readSlice(length: count)
    else { return nil }
    if backlog.readableBytes == 0 { backlog = ByteBuffer() }
    return frame
  }

  /// Drops the backlog and the unfinished message, because the connection takes no more requests.
  package func drop() {
    backlog = ByteBuffer()
    fragments = nil
    assembler = MessageAssembler(bytesMax: bytesMax)
  }
}
