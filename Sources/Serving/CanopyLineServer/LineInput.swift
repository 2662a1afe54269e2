internal import CanopyEvents
package import CanopyWire
package import NIOCore

/// The input of one connection: splits it into lines, and keeps bytes that the session does not take yet.
///
/// Use it on the connection's event loop only.
package final class LineInput: ConnectionInput {
  /// A line that is not a request. Later input is dropped.
  package enum InvalidLine: Equatable {
    /// A line that a client of another protocol has sent. Later input may be the body of a request that a web page has
    /// made.
    case foreign(ForeignProtocol)
    /// A line that exceeds the limit.
    case tooLong
  }

  #if !DEBUG
    @exclusivity(unchecked)
  #endif
  private var decoder: LineDecoder
  /// The bytes that were received while the session took no more requests.
  #if !DEBUG
    @exclusivity(unchecked)
  #endif
  private var backlog: ByteBuffer?
  /// Whether a buffer is being decoded.
  @exclusivity(unchecked) package private(set) var isDecoding = false
  /// The memory of the unfinished line when the decoding began. The decoder cannot report it meanwhile.
  @exclusivity(unchecked) private var memoryBefore = 0
  @exclusivity(unchecked) private var isDropped = false
  /// The bytes of a long line that is decoded beside the event loop; 0 if there is none.
  @exclusivity(unchecked) package var bytesBeside = 0

  package init(lineBytesMax: Int) {
    decoder = LineDecoder(lineBytesMax: lineBytesMax)
  }

  /// The bytes that are kept: the memory of an unfinished line, and the other bytes.
  package var byteCount: Int {
    (isDecoding ? memoryBefore : decoder.keptMemory) + (backlog?.readableBytes ?? 0) + bytesBeside
  }

  /// Whether whole lines may be among the bytes that are kept.
  package var hasBacklog: Bool { backlog != nil || bytesBeside > 0 }

  /// Keeps a buffer behind the backlog and behind a line that is decoded beside the loop. Returns whether there is
  /// one of them; if not, the buffer is not kept.
  func keep(_ buffer: inout ByteBuffer) -> Bool {
    // A line that is decoded beside the loop comes first, whether more lines arrived with it or not.
    guard hasBacklog else { return false }
    if backlog == nil { backlog = ByteBuffer() }
    backlog?.writeBuffer(&buffer)
    return true
  }

  /// Takes the backlog, in order to decode it.
  package func takeBacklog() -> ByteBuffer? {
    defer { backlog = nil }
    return backlog
  }

  /// Drops the backlog and the unfinished line, because the connection takes no more requests.
  package func drop() {
    backlog = nil
    // The decoder is in use while a line is being received, so it drops its bytes when that has returned.
    isDropped = true
    if !isDecoding { decoder.drop() }
  }

  /// Decodes a buffer. Keeps the rest if `receive` returns false.
  ///
  /// - Parameter receive: takes a line without its terminator, valid during the call, and returns whether to go on.
  /// - Returns: the line that ends the input; nil if there is none.
  package func decode(
    _ buffer: ByteBuffer, _ receive: (UnsafeRawBufferPointer) -> Bool
  ) -> InvalidLine? {
    assert(bytesBeside == 0, "the line that is decoded beside the loop comes first")
    var buffer = buffer
    memoryBefore = decoder.keptMemory
    isDecoding = true
    defer { isDecoding = false }
    var invalid: InvalidLine?
    let outcome = buffer.withUnsafeReadableBytes { bytes in
      decoder.feed(bytes) { line in
        guard let foreign = ForeignProtocol(line: line) else { return receive(line) }
        invalid = .foreign(foreign)
        return false
      }
    }
    switch outcome {
    case _ where invalid != nil: break
    case .done: break
    case .stopped(let consumed):
      buffer.moveReaderIndex(forwardBy: consumed)
      // A copy of the rest, so that the consumed bytes are not kept as well.
      backlog = ByteBuffer(buffer.readableBytesView)
    case .tooLong: invalid = .tooLong
    }
    if isDropped {
      backlog = nil
      decoder.drop()
    }
    return invalid
  }
}
