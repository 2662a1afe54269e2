import Testing

@testable import CanopyBench

/// Framers must find the same replies however the bytes are divided into pieces.
struct FramerTests {
  /// The bytes of several replies, and the frames that a framer must find in them.
  private struct Stream: Sendable {
    var bytes: [UInt8] = []
    var frames: [Frame] = []

    mutating func add(
      _ reply: [UInt8], rows: Int = 0, firstRow: Int = 0, isError: Bool = false
    ) {
      bytes += reply
      frames.append(Frame(count: reply.count, rows: rows, firstRow: firstRow, isError: isError))
    }

    mutating func add(_ text: String, rows: Int = 0, isError: Bool = false) {
      add(Array(text.utf8), rows: rows, isError: isError)
    }
  }

  private static func frames<Framer: ReplyFramer>(
    of bytes: [UInt8], piece: Int, _: Framer.Type
  ) throws -> [Frame] {
    var framer = Framer()
    var frames: [Frame] = []
    var start = 0
    var end = 0
    while end < bytes.count {
      end = min(end + piece, bytes.count)
      while start < end,
        let frame = try bytes[start..<end].withUnsafeBytes({ try framer.next(in: $0) })
      {
        frames.append(frame)
        start += frame.count
      }
    }
    #expect(start == bytes.count)
    return frames
  }

  private static func check<Framer: ReplyFramer>(_ stream: Stream, _: Framer.Type) throws {
    for piece in 1...stream.bytes.count {
      #expect(try frames(of: stream.bytes, piece: piece, Framer.self) == stream.frames)
    }
  }

  @Test func `a reply of the line protocol is a line`() throws {
    var stream = Stream()
    stream.add("+\"PONG\"\r\n")
    stream.add("-NOT_FOUND there is no such post, or it is gone\r\n", isError: true)
    stream.add("\n")
    stream.add("+[]\r\n")
    try Self.check(stream, LineFramer.self)
  }

  @Test func `a reply of Redis is an element with all its nested elements`() throws {
    var stream = Stream()
    stream.add("+PONG\r\n")
    stream.add(":-12\r\n")
    stream.add("-ERR no\r\n", isError: true)
    stream.add("$8\r\none\r\ntwo\r\n")
    stream.add("$0\r\n\r\n")
    stream.add("$-1\r\n")
    stream.add("*-1\r\n", rows: -1)
    stream.add("*0\r\n")
    stream.add("*3\r\n*2\r\n:1\r\n$1\r\na\r\n$-1\r\n*1\r\n+b\r\n", rows: 3)
    stream.add("*2\r\n:1\r\n-ERR in a list\r\n", rows: 2, isError: true)
    try Self.check(stream, RESPFramer.self)
  }

  @Test func `bytes that are not the protocol of Redis are an error`() {
    #expect(throws: BenchFailure.self) {
      try Self.frames(of: Array("HTTP/1.1 400\r\n".utf8), piece: 5, RESPFramer.self)
    }
  }

  @Test func `a reply of PostgreSQL is all messages up to ReadyForQuery`() throws {
    func message(_ kind: Unicode.Scalar, _ body: [UInt8] = []) -> [UInt8] {
      var bytes: [UInt8] = []
      bytes.append(message: kind) { $0 += body }
      return bytes
    }
    let ready = message("Z", [UInt8(ascii: "I")])
    var stream = Stream()
    stream.add(ready)
    let row = message("D", [0, 1, 0, 0, 0, 1, UInt8(ascii: "Z")])
    stream.add(
      message("2") + row + row + message("C", Array("SELECT 2\0".utf8)) + ready, rows: 2,
      firstRow: 5)
    stream.add(message("E", Array("SERROR\0\0".utf8)) + ready, isError: true)
    try Self.check(stream, PostgresFramer.self)
  }
}
