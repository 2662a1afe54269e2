import Foundation

/// Finds where replies end in the bytes of one connection.
///
/// A value that is fed the same reply again and again as it grows, and remembers how much of it it has
/// understood: no byte is looked at twice, however a long reply is cut up on its way.
protocol ReplyFramer {
  init()

  /// Goes on with a reply.
  ///
  /// - Parameter bytes: all that has arrived since the reply's first byte.
  /// - Returns: the reply, or nil while it is not whole.
  /// - Throws: when the bytes are not of the protocol.
  mutating func next(in bytes: UnsafeRawBufferPointer) throws -> Frame?
}

/// What a framer has learnt of a reply on its way to the end.
struct Frame: Equatable {
  /// Bytes of the reply.
  var count: Int
  /// Its elements (Redis) or rows (PostgreSQL).
  var rows = 0
  /// Where its first row begins.
  var firstRow = 0
  var isError = false
}

/// The line protocol: a reply is a line, and `-` begins an error.
struct LineFramer: ReplyFramer {
  private var scanned = 0

  mutating func next(in bytes: UnsafeRawBufferPointer) throws -> Frame? {
    guard scanned < bytes.count, let base = bytes.baseAddress else { return nil }
    guard let end = memchr(base + scanned, 0x0A, bytes.count - scanned) else {
      scanned = bytes.count
      return nil
    }
    scanned = 0
    return Frame(
      count: UnsafeRawPointer(end) - base + 1, isError: bytes[0] == UInt8(ascii: "-"))
  }
}
