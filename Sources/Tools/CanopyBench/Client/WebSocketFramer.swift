/// The framer of a WebSocket of the realtime protocol. A reply is a frame; an answer other than `ok` is an error.
///
/// The response to the upgrade belongs to the first frame.
struct WebSocketFramer: ReplyFramer {
  mutating func next(in bytes: UnsafeRawBufferPointer) throws -> Frame? {
    var start = 0
    if bytes.first == UInt8(ascii: "H") {
      guard let head = HTTPHead(in: bytes) else { return nil }
      guard head.status == 101 else {
        throw BenchFailure("no WebSocket: \(String(decoding: bytes.prefix(200), as: UTF8.self))")
      }
      start = head.count
    }
    guard bytes.count >= start + 2 else { return nil }
    guard bytes[start] == 0x81 else {
      throw BenchFailure("not a frame with a whole text: \(bytes[start])")
    }
    var length = Int(bytes[start + 1])
    start += 2
    let wide = length == 126 ? 2 : length == 127 ? 8 : 0
    if wide > 0 {
      guard bytes.count >= start + wide else { return nil }
      length = bytes[start..<(start + wide)].reduce(0) { $0 &<< 8 | Int($1) }
      start += wide
    }
    guard length >= 0, bytes.count - start >= length else { return nil }
    let text = UnsafeRawBufferPointer(rebasing: bytes[start..<(start + length)])
    return Frame(count: start + length, contentStart: start, isError: Self.isRefusal(text))
  }

  /// Whether a message is an answer with another status than `ok`.
  private static func isRefusal(_ text: UnsafeRawBufferPointer) -> Bool {
    guard text.starts(with: #"{"t":"d","d":{"r":"#) else { return false }
    return !UnsafeRawBufferPointer(rebasing: text.prefix(64)).contains(#""s":"ok""#)
  }
}

/// The bytes that a client of the realtime protocol sends.
enum WebSocketBytes {
  /// The request for a WebSocket.
  static let upgrade = Array(
    ("GET /.ws?v=5&ns=default HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
      + "Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
      + "Sec-WebSocket-Version: 13\r\n\r\n").utf8)

  /// Returns the frame of a request.
  static func request(_ number: Int, _ action: String, _ body: String) -> [UInt8] {
    var frame: [UInt8] = []
    appendFrame(#"{"t":"d","d":{"r":\#(number),"a":"\#(action)","b":\#(body)}}"#.utf8, to: &frame)
    return frame
  }

  /// Returns the frame that takes on the identity of a token.
  static func logIn(_ token: String) -> [UInt8] {
    request(1, "auth", #"{"cred":"\#(token)"}"#)
  }

  /// Appends a frame with a text. A mask of zeros leaves the text as it is, so the client spends no time on it.
  static func appendFrame(_ text: some Collection<UInt8>, to bytes: inout [UInt8]) {
    let count = text.count
    bytes.append(0x81)
    if count < 126 {
      bytes.append(0x80 | UInt8(count))
    } else if count <= 0xFFFF {
      bytes += [0x80 | 126, UInt8(count >> 8), UInt8(count & 0xFF)]
    } else {
      bytes.append(0x80 | 127)
      for shift in stride(from: 56, through: 0, by: -8) {
        bytes.append(UInt8(truncatingIfNeeded: count >> shift))
      }
    }
    bytes += [0, 0, 0, 0]
    bytes += text
  }
}
