import Foundation

/// The framer of HTTP. A reply is a response with `Content-Length`, and a status other than 2xx is an error.
struct HTTPFramer: ReplyFramer {
  private var scanned = 0

  mutating func next(in bytes: UnsafeRawBufferPointer) throws -> Frame? {
    guard let head = HTTPHead(in: bytes, from: scanned) else {
      // Each byte is searched once.
      scanned = bytes.count
      return nil
    }
    guard let status = head.status else {
      throw BenchFailure("not HTTP: \(String(decoding: bytes.prefix(40), as: UTF8.self))")
    }
    guard let length = head.contentLength(in: bytes) ?? (status == 204 ? 0 : nil) else {
      throw BenchFailure("a response has no Content-Length")
    }
    guard bytes.count >= head.count + length else { return nil }
    scanned = 0
    return Frame(
      count: head.count + length, contentStart: head.count, isError: !(200..<300 ~= status))
  }
}

/// The head of a response of HTTP.
struct HTTPHead {
  /// The number of its bytes, with the empty line.
  let count: Int
  /// The status; nil if the bytes are not HTTP.
  let status: Int?

  /// - Parameter start: the index from which on its end is searched.
  /// - Returns: nil if the head is not complete.
  init?(in bytes: UnsafeRawBufferPointer, from start: Int = 0) {
    guard let end = Self.end(in: bytes, from: start) else { return nil }
    count = end
    guard count >= 16, bytes.starts(with: "HTTP/1.") else {
      status = nil
      return
    }
    status = bytes[9..<12].reduce(0) { $0 * 10 + Int($1 & 0x0F) }
  }

  /// Returns the index after the first empty line.
  private static func end(in bytes: UnsafeRawBufferPointer, from start: Int) -> Int? {
    var place = start
    while place < bytes.count, let base = bytes.baseAddress,
      let found = memchr(base + place, 0x0A, bytes.count - place)
    {
      place = UnsafeRawPointer(found) - base + 1
      if place >= 4, bytes[place - 4] == 0x0D, bytes[place - 3] == 0x0A, bytes[place - 2] == 0x0D {
        return place
      }
    }
    return nil
  }

  /// Returns the value of `Content-Length`.
  func contentLength(in bytes: UnsafeRawBufferPointer) -> Int? {
    let name: StaticString = "content-length:"
    var line = 0
    while line < count, let base = bytes.baseAddress,
      let found = memchr(base + line, 0x0A, count - line)
    {
      line = UnsafeRawPointer(found) - base + 1
      guard count - line > name.utf8CodeUnitCount,
        strncasecmp(base + line, name.utf8Start, name.utf8CodeUnitCount) == 0
      else { continue }
      let value = bytes[(line + name.utf8CodeUnitCount)..<count].drop { $0 == 0x20 }
      return value.prefix { 0x30...0x39 ~= $0 }.reduce(0) { $0 &* 10 &+ Int($1 & 0x0F) }
    }
    return nil
  }
}
