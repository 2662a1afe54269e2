/// Redis' protocol, version 2: `+text`, `-error`, `:number`, `$length` with as many bytes, and `*count`
/// with as many elements, which may be arrays.
struct RESPFramer: ReplyFramer {
  /// Everything before this is understood.
  private var offset = 0
  /// Elements that are still to come; an array adds its own.
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
        // Minus one stands for null and has no bytes.
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
    /// The number after the kind, if there is one.
    var number = 0
    /// Just after the end of the line.
    var end: Int

    /// - Returns: nil while the line is not whole.
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
