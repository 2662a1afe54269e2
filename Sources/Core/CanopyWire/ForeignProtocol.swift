/// Another protocol that a client uses by mistake, or that a web page makes a browser use.
///
/// A page of any site can make a browser send an HTTP request to this port. The page chooses the
/// body, and its lines would be executed as requests. A TLS handshake can likewise carry bytes that
/// a site chooses. Both begin or end their first line in a way that no request does; the server
/// closes such a connection before it reads a later line.
public enum ForeignProtocol: Sendable, Equatable {
  /// A request line of HTTP (`POST / HTTP/1.1`), or the header `Host:`.
  case http
  /// The beginning of a TLS handshake.
  case tls

  /// Recognises the first line of another protocol; nil for any other line.
  ///
  /// `POST` and `GET` are verbs of the line protocol too. A line is HTTP if its last word is an
  /// HTTP version and its second word is an HTTP target, or the method is `CONNECT`. `POST
  /// Protocols HTTP/1.1` is therefore a post.
  ///
  /// - Parameter line: a line without its terminator.
  /// - Complexity: O(length) for lines that end in an HTTP version; O(1) for all others.
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

  /// The error to reply before the connection closes.
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

  /// Whether a line consists of a method, a target and an HTTP version.
  ///
  /// - Precondition: the line ends in a digit.
  private static func isRequestLine(_ line: UnsafeRawBufferPointer) -> Bool {
    assert(line.last.map { 0x30...0x39 ~= $0 } ?? false, "the last byte is no digit")
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
  /// Whether the first colon begins `://`.
  fileprivate var containsSchemeEnd: Bool {
    guard let colon = firstIndex(of: UInt8(ascii: ":")) else { return false }
    return self[colon...].starts(with: "://".utf8)
  }
}
