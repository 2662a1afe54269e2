import Foundation

/// Finds the ends of replies in the bytes of one connection.
///
/// The framer receives a reply again whenever more of it has arrived, and stores the end of the parsed bytes. So it
/// parses no byte twice, however a long reply is divided.
protocol ReplyFramer {
  init()

  /// Continues with a reply.
  ///
  /// - Parameter bytes: all received bytes from the reply's first byte on.
  /// - Returns: the reply; nil if it is not complete.
  /// - Throws: `BenchFailure` if the bytes do not conform to the protocol.
  mutating func next(in bytes: UnsafeRawBufferPointer) throws -> Frame?
}

/// The size and the kind of a reply.
struct Frame: Equatable {
  /// The number of bytes in the reply.
  var count: Int
  /// The number of elements (Redis) or rows (PostgreSQL).
  var rows = 0
  /// The index of the first row.
  var firstRow = 0
  /// The index of the first byte of the content, after a head.
  var contentStart = 0
  var isError = false
}

/// The framer of the line protocol. A reply is a line, and an error begins with `-`.
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
