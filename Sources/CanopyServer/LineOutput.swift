internal import CanopyTree
internal import NIOCore

/// The bytes that one connection is about to send.
///
/// Replies are collected in a buffer of the connection. Long events and lists that others get as well stay
/// in their own buffers, which are not copied. A value without I/O: the handler writes what `take` returns.
struct LineOutput: ~Copyable {
  /// The text that replies are encoded to. It follows the buffers.
  var text = JSONOutput(capacity: 1024)
  private var buffers: [ByteBuffer] = []
  private var bufferBytes = 0
  /// The bytes of events that the channel has not sent.
  private(set) var eventBytes = 0
  /// The bytes of events that were not taken.
  private var untakenEventBytes = 0

  /// The number of bytes from which on a buffer is not copied behind others.
  private static let sharedBytesMin = 4096
  /// The memory that an idle connection keeps for its next replies.
  private static let idleBytes = 4096

  /// The number of bytes that were not taken.
  var byteCount: Int { bufferBytes + text.count }

  /// Appends the lines of events.
  mutating func append(events lines: ByteBuffer) {
    eventBytes += lines.readableBytes
    untakenEventBytes += lines.readableBytes
    if text.count > 0, lines.readableBytes < LineOutput.sharedBytesMin {
      lines.withUnsafeReadableBytes { text.append($0) }
    } else {
      append(shared: lines)
    }
  }

  /// Appends a buffer that others get as well.
  mutating func append(shared buffer: ByteBuffer) {
    moveText()
    buffers.append(buffer)
    bufferBytes += buffer.readableBytes
  }

  /// Takes everything out, in order.
  ///
  /// - Returns: the buffers, and the bytes of events in them, which count until `sent` is called.
  mutating func take() -> (buffers: [ByteBuffer], eventBytes: Int) {
    moveText()
    defer {
      buffers = []
      bufferBytes = 0
      untakenEventBytes = 0
    }
    return (buffers, untakenEventBytes)
  }

  /// Notes that the channel has sent events.
  mutating func sent(eventBytes count: Int) {
    eventBytes -= count
    assert(eventBytes >= 0)
  }

  private mutating func moveText() {
    guard text.count > 0 else { return }
    bufferBytes += text.count
    buffers.append(text.withBytes { ByteBuffer(bytes: $0) })
    text.removeAll(keepingCapacity: LineOutput.idleBytes)
  }
}
