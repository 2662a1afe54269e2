/// Another protocol that a client speaks by mistake, or that a web page makes a browser speak.
///
/// A page of any site can make a browser send an HTTP request to this port. Its body is chosen by the
/// page, and its lines would be executed as requests. Likewise a TLS handshake can carry bytes that a
/// site has chosen. Both begin with bytes that no request of the line protocol begins with, or ends
/// in; a connection on which they come is closed before any later line is read.
public enum ForeignProtocol: Sendable, Equatable {
  /// A request line of HTTP (`POST / HTTP/1.1`), or the header `Host:`.
  case http
  /// The beginning of a TLS handshake.
  case tls

  /// Recognises a line of another protocol; nil for any other line.
  ///
  /// `POST` and `GET` are verbs of the line protocol as well. A line is HTTP if its last word is an
  /// HTTP version and its second word is a target of HTTP, or the method is `CONNECT`: so
  /// `POST Protocols HTTP/1.1` is a post. Complexity: O(1) for lines that do not end in an HTTP
  /// version; O(length) for those that do.
  ///
  /// - Parameter line: a line without its end.
  public init?(line: UnsafeRawBufferPointer) {
    guard let first = line.first, let last = line.last, line.count >= 2 else { return nil }
    if first == 0x16, line[1] == 0x03 {
      self = .tls
    } else if first | 0x20 == UInt8(ascii: "h"), ForeignProtocol.isHost(line) {
      self = .http
    } else if last >= UInt8(ascii: "0"), last <= UInt8(ascii: "9"),
      ForeignProtocol.isRequestLine(line)
    {
      self = .http
    } else {
      return nil
    }
  }

  /// The error to answer with before the connection closes.
  public var error: WireError {
    switch self {
    case .http:
      WireError(.badRequest, "this port speaks lines, not HTTP; the connection closes")
    case .tls:
      WireError(.badRequest, "this port speaks lines without TLS; the connection closes")
    }
  }

  private static func isHost(_ line: UnsafeRawBufferPointer) -> Bool {
    let name = "host:".utf8
    return line.count >= name.count && zip(line, name).allSatisfy { $0 | 0x20 == $1 | 0x20 }
  }

  /// Whether a line is a method, a target and an HTTP version. Precondition: it ends in a digit.
  private static func isRequestLine(_ line: UnsafeRawBufferPointer) -> Bool {
    let space = UInt8(ascii: " ")
    guard let beforeVersion = line.lastIndex(of: space) else { return false }
    let version = line[(beforeVersion + 1)...]
    guard version.count == 6 || version.count == 8, version.starts(with: "HTTP/".utf8) else {
      return false
    }
    let words = line[..<beforeVersion].split(separator: space, maxSplits: 1)
    guard words.count == 2, let first = words[1].first else { return false }
    return first == UInt8(ascii: "/") || first == UInt8(ascii: "*")
      || words[0].elementsEqual("CONNECT".utf8) || words[1].containsSchemeEnd
  }
}

extension Slice<UnsafeRawBufferPointer> {
  /// Whether `://` occurs.
  fileprivate var containsSchemeEnd: Bool {
    guard let colon = firstIndex(of: UInt8(ascii: ":")) else { return false }
    return self[colon...].starts(with: "://".utf8)
  }
}
