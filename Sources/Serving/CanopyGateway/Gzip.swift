internal import CZlib
internal import NIOCore

/// Compresses a body by gzip, piece by piece. Only one thread at a time may use it.
final class Gzip {
  /// The memory of a compression, in bytes: an estimate.
  static let memoryBytes = 288 * 1024
  /// The length from which on a body is worth compressing.
  static let bodyBytesMin = 1024

  private let stream: UnsafeMutablePointer<z_stream>

  /// Begins a body.
  ///
  /// - Parameter level: from 1, the fastest, to 9, the shortest. Level 4 costs half of the default.
  /// - Returns: nil if there is no memory.
  init?(level: CInt = 4) {
    stream = .allocate(capacity: 1)
    stream.initialize(to: z_stream())
    // A window of 32 KiB; 16 more stands for the format of gzip.
    let status = deflateInit2_(
      stream, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY, ZLIB_VERSION,
      CInt(MemoryLayout<z_stream>.size))
    guard status == Z_OK else {
      stream.deallocate()
      return nil
    }
  }

  deinit {
    deflateEnd(stream)
    stream.deallocate()
  }

  /// Returns the compressed bytes for some bytes of the body. O(bytes).
  ///
  /// - Parameter isLast: whether they end the body.
  func compress(_ bytes: ByteBuffer, isLast: Bool) -> ByteBuffer {
    var output = ByteBuffer()
    bytes.withUnsafeReadableBytes { input in
      // The library does not change its input.
      stream.pointee.next_in = UnsafeMutablePointer(
        mutating: input.bindMemory(to: UInt8.self).baseAddress)
      stream.pointee.avail_in = CUnsignedInt(input.count)
      let flush = isLast ? Z_FINISH : Z_NO_FLUSH
      var isFull = true
      while isFull {
        output.writeWithUnsafeMutableBytes(minimumWritableBytes: 16 * 1024) { room in
          stream.pointee.next_out = room.bindMemory(to: UInt8.self).baseAddress
          stream.pointee.avail_out = CUnsignedInt(clamping: room.count)
          let before = stream.pointee.avail_out
          deflate(stream, flush)
          isFull = stream.pointee.avail_out == 0
          return Int(before - stream.pointee.avail_out)
        }
      }
    }
    return output
  }
}
