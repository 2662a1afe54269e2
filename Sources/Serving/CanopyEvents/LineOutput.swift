package import CanopyTree
internal import DequeModule
package import NIOCore

/// The output of one connection that was not sent yet.
///
/// Replies are appended to a buffer of the connection. Long events and lists that several clients get stay
/// in their own buffers, which are not copied. Large replies stay values, and are encoded as the client
/// reads. A value without I/O: the handler writes the buffers that `take` and `takePiece` return.
package struct LineOutput: ~Copyable {
  private enum Item {
    /// Encoded bytes, and the number of them that belong to events.
    case buffer(ByteBuffer, eventBytes: Int)
    /// Lines to be encoded, and the bytes to count for their events.
    case pieces(LinePieces, eventBytes: Int)
  }

  /// The text of the latest replies, which follows the items.
  package var text = JSONOutput(capacity: 1024)
  /// The bytes of events in the text.
  private var textEventBytes = 0
  private var items: Deque<Item> = []
  private var bufferBytes = 0
  /// The memory of the buffers among the items.
  private var bufferMemory = 0
  private var piecesCount = 0
  /// The bytes that are not encoded yet.
  package private(set) var unencodedBytes = 0
  /// The bytes of events that the channel has not sent.
  package private(set) var eventBytes = 0

  package init() {}

  /// The size in bytes from which on a buffer is not copied into the text.
  private static let sharedBytesMin = 4096
  /// The memory that an idle connection keeps for its next replies.
  private static let idleBytes = 4096

  /// The largest buffer into which replies are copied, in bytes. The channel keeps a buffer until all of it is sent, so
  /// a longer text becomes several buffers.
  package static let bufferBytesMax = 16 * 1024

  /// The number of encoded bytes that wait.
  package var byteCount: Int { bufferBytes + text.count }

  /// The memory of the encoded bytes that wait. Buffers and the text grow by doubling.
  package var memoryBytes: Int {
    bufferMemory + (text.capacity > LineOutput.idleBytes ? text.capacity : text.count)
  }

  /// Whether lines wait to be encoded.
  package var hasPieces: Bool { piecesCount > 0 }

  /// Whether `take` returns any buffer.
  package var hasBuffers: Bool {
    switch items.first {
    case .buffer: true
    case .pieces: false
    case nil: text.count > 0
    }
  }

  /// Appends the lines of events.
  package mutating func append(events lines: ByteBuffer) {
    let count = lines.readableBytes
    eventBytes += count
    // The first of several small ones stays in its own buffer, and the others follow in the text.
    if count < LineOutput.sharedBytesMin, text.count > 0 || !items.isEmpty {
      textEventBytes += count
      lines.withUnsafeReadableBytes { text.append($0) }
    } else {
      append(lines, eventBytes: count)
    }
  }

  /// Appends a buffer that other clients get as well.
  package mutating func append(shared buffer: ByteBuffer) {
    append(buffer, eventBytes: 0)
  }

  private mutating func append(_ buffer: ByteBuffer, eventBytes: Int) {
    moveText()
    appendItem(buffer, eventBytes: eventBytes)
  }

  private mutating func appendItem(_ buffer: ByteBuffer, eventBytes: Int) {
    items.append(.buffer(buffer, eventBytes: eventBytes))
    bufferBytes += buffer.readableBytes
    bufferMemory += LineOutput.memory(of: buffer)
  }

  /// Returns the memory of a buffer: its capacity, unless it is a small part of one that others share.
  private static func memory(of buffer: ByteBuffer) -> Int {
    min(buffer.storageCapacity, 2 * buffer.readableBytes)
  }

  /// Appends lines that are encoded later.
  ///
  /// - Parameter areEvents: whether they count as events.
  package mutating func append(_ pieces: LinePieces, areEvents: Bool = false) {
    moveText()
    items.append(.pieces(pieces, eventBytes: areEvents ? pieces.bytes : 0))
    piecesCount += 1
    unencodedBytes += pieces.heldBytes
    if areEvents { eventBytes += pieces.bytes }
  }

  /// Removes and returns the first buffer; nil if the output is empty, or begins with lines that are not encoded.
  ///
  /// - Returns: the buffer, and the bytes of events in it, which count until `sent` is called.
  package mutating func take() -> (buffer: ByteBuffer, eventBytes: Int)? {
    if items.isEmpty {
      if text.count <= LineOutput.bufferBytesMax { return takeText() }
      moveText()
    }
    guard case .buffer(let buffer, let eventBytes)? = items.first else { return nil }
    items.removeFirst()
    bufferBytes -= buffer.readableBytes
    bufferMemory -= LineOutput.memory(of: buffer)
    return (buffer, eventBytes)
  }

  /// Encodes the next piece, if lines to be encoded come next.
  ///
  /// - Returns: the piece, and the bytes of events that it completes, which count until `sent` is called.
  package mutating func takePiece(bytes: Int) -> (buffer: ByteBuffer, eventBytes: Int)? {
    guard case .pieces(var pieces, let eventBytes)? = items.first else { return nil }
    items.removeFirst()
    unencodedBytes -= pieces.heldBytes
    var output = JSONOutput(capacity: bytes + 1024)
    pieces.write(to: &output, bytes: bytes)
    let buffer = output.withBytes { ByteBuffer(bytes: $0) }
    guard pieces.isDone else {
      unencodedBytes += pieces.heldBytes
      items.prepend(.pieces(pieces, eventBytes: eventBytes))
      return (buffer, 0)
    }
    piecesCount -= 1
    return (buffer, eventBytes)
  }

  /// Notes that the channel has sent events.
  package mutating func sent(eventBytes count: Int) {
    eventBytes -= count
    assert(eventBytes >= 0)
  }

  /// Drops all output, because the connection is gone.
  package mutating func removeAll() {
    items = []
    text.removeAll(keepingCapacity: 0)
    (bufferBytes, bufferMemory, piecesCount, unencodedBytes, textEventBytes) = (0, 0, 0, 0, 0)
  }

  /// Removes and returns the text, which is at most one buffer; nil if it is empty.
  private mutating func takeText() -> (buffer: ByteBuffer, eventBytes: Int)? {
    guard text.count > 0 else { return nil }
    let buffer = text.withBytes { ByteBuffer(bytes: $0) }
    let eventBytes = textEventBytes
    textEventBytes = 0
    text.removeAll(keepingCapacity: LineOutput.idleBytes)
    return (buffer, eventBytes)
  }

  /// Moves the text into buffers behind the items.
  private mutating func moveText() {
    var start = 0
    while start < text.count {
      let end = min(text.count, start + LineOutput.bufferBytesMax)
      let buffer = text.withBytes { ByteBuffer(bytes: $0[start..<end]) }
      // The events are sent when the last buffer is.
      appendItem(buffer, eventBytes: end == text.count ? textEventBytes : 0)
      start = end
    }
    guard start > 0 else { return }
    textEventBytes = 0
    text.removeAll(keepingCapacity: LineOutput.idleBytes)
  }
}
