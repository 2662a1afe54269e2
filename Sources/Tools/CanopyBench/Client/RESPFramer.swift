/// The framer of Redis' protocol, version 2: `+text`, `-error`, `:number`, `$length` with that number of bytes, and
/// `*count` with that number of elements, which may be arrays.
struct RESPFramer: ReplyFramer {
  /// The end of the parsed bytes.
  private var offset = 0
  /// The number of missing elements. An array adds its own.
  private var awaited = 1
  private var rows = 0
  private var isError = false

  mutating func next(in bytes: UnsafeRawBufferPointer) throws -> Frame? {
    while awaited > 0 {
      guard let header = try Header(in: bytes, at: offset) else { return nil }
      var end = header.end
      switch header.kind {
      case UInt8(ascii: "+"), UInt8(ascii: ":"):
        break
      case UInt8(ascii: "-"):
        isError = true
      case UInt8(ascii: "$"):
        // Minus one means null, which has no bytes.
        if header.number >= 0 { end += header.number + 2 }
        guard end <= bytes.count else { return nil }
      case UInt8(ascii: "*"):
        if offset == 0 { rows = header.number }
        awaited += max(0, header.number)
      default:
        throw BenchFailure("not RESP: an element begins with byte \(header.kind)")
      }
      awaited -= 1
      offset = end
    }
    let frame = Frame(count: offset, rows: rows, isError: isError)
    self = RESPFramer()
    return frame
  }

  private struct Header {
    var kind: UInt8
    /// The number after the kind; nil if there is no number.
    var number = 0
    /// The index after the end of the line.
    var end: Int

    /// - Returns: nil if the line is not complete.
    init?(in bytes: UnsafeRawBufferPointer, at start: Int) throws {
      guard start < bytes.count else { return nil }
      kind = bytes[start]
      var i = start + 1
      var isNegative = false
      while i < bytes.count, bytes[i] != 0x0A {
        switch bytes[i] {
        case UInt8(ascii: "0")...UInt8(ascii: "9"):
          number = number &* 10 &+ Int(bytes[i] & 0x0F)
        case UInt8(ascii: "-"):
          isNegative = true
        default:
          break
        }
        i += 1
      }
      guard i < bytes.count else { return nil }
      if isNegative { number = -number }
      end = i + 1
    }
  }
}
