internal import CanopyEvents
internal import CanopyTree
internal import DequeModule
internal import NIOCore

/// The unsent output of one event stream, in order. A value without I/O.
///
/// The connection sends one buffer after the other. Small events go out together, and a large value in pieces, which
/// are encoded as the client reads.
struct StreamOutput {
  /// Bytes that wait to be sent.
  enum Chunk {
    case bytes(ByteBuffer, areEvents: Bool)
    case pieces(LinePieces, areEvents: Bool)

    /// The bytes that it holds, and the bytes of its text if it has events.
    fileprivate var size: (all: Int, events: Int) {
      switch self {
      case .bytes(let buffer, let areEvents):
        (buffer.readableBytes, areEvents ? buffer.readableBytes : 0)
      case .pieces(let pieces, let areEvents):
        (pieces.heldBytes, areEvents && !pieces.isDone ? pieces.bytes : 0)
      }
    }
  }

  /// The size in bytes up to which events are sent together, and of the pieces of a value.
  private static let pieceBytes = 64 * 1024

  /// The size in bytes below which an event is copied behind the one before it.
  private static let smallBytes = 4 * 1024

  private var chunks: Deque<Chunk> = []
  /// The bytes that the chunks hold, and those of the text of the events among them, with the buffer that is being
  /// sent.
  private(set) var bytes = (all: 0, events: 0)
  /// The bytes of the buffer that is being sent.
  private var sending = (all: 0, events: 0)

  /// Whether nothing waits to be sent. A buffer that is being sent does not count.
  var isEmpty: Bool { chunks.isEmpty }

  /// Whether the next bytes to send are to be encoded. The caller then waits for a turn before it calls `take`.
  var isToBeEncoded: Bool {
    if case .pieces? = chunks.first { true } else { false }
  }

  /// The number of buffers and values that wait.
  var count: Int { chunks.count }

  /// Appends a chunk.
  mutating func append(_ chunk: Chunk) {
    let (count, eventBytes) = chunk.size
    bytes.all += count
    bytes.events += eventBytes
    // Small events that wait share a buffer, as a buffer of its own takes hundreds of bytes.
    if case .bytes(let buffer, let areEvents) = chunk, count < StreamOutput.smallBytes,
      case .bytes(var last, areEvents: let areLastEvents)? = chunks.last,
      areLastEvents == areEvents, last.readableBytes + count <= StreamOutput.pieceBytes
    {
      chunks.removeLast()
      last.writeImmutableBuffer(buffer)
      chunks.append(.bytes(last, areEvents: areEvents))
    } else {
      chunks.append(chunk)
    }
  }

  /// Removes and returns the next buffer to send, which counts until `noteSent` is called; nil if there is none.
  mutating func take() -> ByteBuffer? {
    guard let first = chunks.popFirst() else { return nil }
    let size = first.size
    switch first {
    case .bytes(var buffer, _):
      sending = size
      while case .bytes(let next, let areEvents)? = chunks.first,
        buffer.readableBytes + next.readableBytes <= StreamOutput.pieceBytes
      {
        buffer.writeImmutableBuffer(next)
        sending.all += next.readableBytes
        if areEvents { sending.events += next.readableBytes }
        chunks.removeFirst()
      }
      return buffer
    case .pieces(var pieces, let areEvents):
      var output = JSONOutput(capacity: StreamOutput.pieceBytes + 4096)
      pieces.write(to: &output, bytes: StreamOutput.pieceBytes)
      let rest = Chunk.pieces(pieces, areEvents: areEvents)
      sending = (size.all - rest.size.all, size.events - rest.size.events)
      if !pieces.isDone { chunks.prepend(rest) }
      return output.withBytes { ByteBuffer(bytes: $0) }
    }
  }

  /// Notes that the last buffer was sent.
  mutating func noteSent() {
    bytes.all -= sending.all
    bytes.events -= sending.events
    sending = (0, 0)
    assert(bytes.all >= 0 && bytes.events >= 0, "more was sent than was appended")
  }

  /// Drops everything, because the stream has ended.
  mutating func removeAll() {
    chunks.removeAll()
    bytes = (0, 0)
    sending = (0, 0)
  }
}
