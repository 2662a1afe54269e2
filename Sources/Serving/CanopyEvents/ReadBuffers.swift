package import NIOCore

/// Allocates the buffers into which the socket of a connection is read.
///
/// The sizes are those of NIO: they adapt to the bytes received. But NIO keeps the last buffer of each connection for
/// its next read. An idle client that once sent much would hold 64 KiB, which no ledger counts. So a connection keeps
/// only a small buffer; a larger one exists as long as its bytes are in use.
package struct ReadBuffers: RecvByteBufferAllocator {
  /// The largest buffer that a connection keeps, in bytes.
  package static let keptBytesMax = 2 * 1024

  private var sizes = AdaptiveRecvByteBufferAllocator()

  package init() {}

  package func buffer(allocator: ByteBufferAllocator) -> ByteBuffer {
    sizes.buffer(allocator: allocator)
  }

  /// Returns the size of the next buffer if a kept one may be used for it; nil for a larger one.
  package func nextBufferSize() -> Int? {
    sizes.nextBufferSize().flatMap { $0 <= Self.keptBytesMax ? $0 : nil }
  }

  /// Notes the bytes of a read. Returns whether the next buffer must be a new one.
  package mutating func record(actualReadBytes: Int) -> Bool {
    let mayGrow = sizes.record(actualReadBytes: actualReadBytes)
    // Otherwise the small buffer would be used for a large read.
    return mayGrow || nextBufferSize() == nil
  }
}

/// The bytes that the kernel holds for a connection and has not sent yet.
package enum SendQueue {
  /// The maximum number of bytes, for the option `TCP_NOTSENT_LOWAT` of a socket. The bytes that were sent and wait for
  /// their acknowledgement are not among them, so a fast connection over a long way is not slowed.
  package static let unsentBytesMax = 128 * 1024
}
