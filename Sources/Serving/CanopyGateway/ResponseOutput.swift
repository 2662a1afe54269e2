internal import HTTPTypes
internal import NIOCore

/// The encoded bytes of a response of HTTP/1 that wait to be written.
///
/// Follows the message framing of RFC 9112: a body has the length that the head states; otherwise it comes in chunks or,
/// for a client of HTTP/1.0, ends with the connection.
struct ResponseOutput {
  /// The bytes of a part of a body up to which it is copied behind the head. A longer part is written by itself.
  static let copiedBytesMax = 4 * 1024
  /// The bytes of a head, which most heads do not exceed.
  private static let headBytes = 512

  private var waiting = ByteBuffer()
  private var isChunked = false

  /// Encodes a head.
  ///
  /// - Returns: whether a body or the end follows. Otherwise the head is a provisional response, which is complete.
  mutating func begin(_ head: HTTPResponse, isOld: Bool) -> Bool {
    let hasBody = Self.mayHaveBody(head.status)
    let length = head.headerFields[.contentLength].flatMap { Int($0) }
    let copied = min(max(length ?? 0, 0), Self.copiedBytesMax)
    waiting.reserveCapacity(waiting.readableBytes + Self.headBytes + copied)
    waiting.writeStaticString(isOld ? "HTTP/1.0 " : "HTTP/1.1 ")
    waiting.writeString(String(head.status.code))
    waiting.writeInteger(UInt8(ascii: " "))
    waiting.writeString(head.status.reasonPhrase)
    waiting.writeStaticString("\r\n")
    let hasLength = hasBody && head.headerFields.contains(.contentLength)
    for field in head.headerFields {
      // The kind of the framing is decided here.
      if field.name == .transferEncoding || field.name == .contentLength && !hasBody { continue }
      waiting.write(field)
    }
    guard head.status.kind != .informational else {
      waiting.writeStaticString("\r\n")
      return false
    }
    isChunked = hasBody && !hasLength && !isOld
    if isChunked { waiting.writeStaticString("transfer-encoding: chunked\r\n") }
    waiting.writeStaticString("\r\n")
    return true
  }

  /// Whether a response has a body, as RFC 9110 says.
  private static func mayHaveBody(_ status: HTTPResponse.Status) -> Bool {
    status.kind != .informational && status != .noContent && status != .notModified
  }

  /// Encodes a part of a body.
  ///
  /// - Returns: false for a long part: the caller writes what waits, then the part, and then calls `endLongBody`.
  mutating func append(_ bytes: ByteBuffer) -> Bool {
    let count = bytes.readableBytes
    // A chunk without bytes would end the body.
    guard count > 0 else { return true }
    if isChunked {
      waiting.writeString(String(count, radix: 16))
      waiting.writeStaticString("\r\n")
    }
    guard count <= Self.copiedBytesMax else { return false }
    waiting.writeImmutableBuffer(bytes)
    endLongBody()
    return true
  }

  /// Ends a part of a body.
  mutating func endLongBody() {
    if isChunked { waiting.writeStaticString("\r\n") }
  }

  /// Encodes the end of a response.
  mutating func end(_ trailers: HTTPFields?) {
    guard isChunked else { return }
    isChunked = false
    waiting.writeStaticString("0\r\n")
    for field in trailers ?? [:] { waiting.write(field) }
    waiting.writeStaticString("\r\n")
  }

  /// Removes and returns the bytes that wait; nil if there are none.
  mutating func take() -> ByteBuffer? {
    guard waiting.readableBytes > 0 else { return nil }
    defer { waiting = ByteBuffer() }
    return waiting
  }
}

extension ByteBuffer {
  /// Writes a field. Its type allows no line breaks in names and values.
  fileprivate mutating func write(_ field: HTTPField) {
    writeString(field.name.rawName)
    writeStaticString(": ")
    writeString(field.value)
    writeStaticString("\r\n")
  }
}
