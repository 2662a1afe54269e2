/// The framer of PostgreSQL's protocol, version 3: messages of a type, a length and contents. A reply is all messages
/// up to ReadyForQuery, which answers a Sync.
struct PostgresFramer: ReplyFramer {
  /// The index of the next message.
  private var offset = 0
  private var rows = 0
  private var firstRow = 0
  private var isError = false

  mutating func next(in bytes: UnsafeRawBufferPointer) throws -> Frame? {
    while offset + 5 <= bytes.count {
      let length = Int(bytes.bigEndian(UInt32.self, at: offset + 1))
      guard length >= 4 else { throw BenchFailure("not PostgreSQL: a message of \(length) bytes") }
      let end = offset + 1 + length
      guard end <= bytes.count else { return nil }
      let kind = bytes[offset]
      if kind == UInt8(ascii: "D") {
        if rows == 0 { firstRow = offset }
        rows += 1
      } else if kind == UInt8(ascii: "E") {
        isError = true
      }
      offset = end
      if kind == UInt8(ascii: "Z") {
        let frame = Frame(count: offset, rows: rows, firstRow: firstRow, isError: isError)
        self = PostgresFramer()
        return frame
      }
    }
    return nil
  }
}

extension UnsafeRawBufferPointer {
  /// Returns a number in network byte order, at any alignment.
  func bigEndian<Number: FixedWidthInteger>(_: Number.Type, at offset: Int) -> Number {
    Number(bigEndian: loadUnaligned(fromByteOffset: offset, as: Number.self))
  }
}
