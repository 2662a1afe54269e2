import CanopyTesting
import CanopyTree
import NIOCore
import NIOPosix
import Synchronization
import Testing

/// A connection to the HTTP port that sends text and reads responses.
final class HTTPClient {
  /// A response.
  struct Response: Sendable {
    /// The request, for the messages of failures; empty if it was sent as bytes.
    var request = ""
    var status: Int
    /// The fields, with their names in lower case.
    var fields: [String: String]
    var body: [UInt8]

    var text: String { String(decoding: body, as: UTF8.self) }

    var json: JSONValue? { try? JSONValue(json: text) }
  }

  private let channel: NIOAsyncChannel<ByteBuffer, ByteBuffer>
  private var parts: NIOAsyncChannelInboundStream<ByteBuffer>.AsyncIterator
  private let outbound: NIOAsyncChannelOutboundWriter<ByteBuffer>
  private var received: [UInt8] = []
  /// The last request of `begin`.
  private var lastRequest = ""

  private init(
    _ channel: NIOAsyncChannel<ByteBuffer, ByteBuffer>,
    _ inbound: NIOAsyncChannelInboundStream<ByteBuffer>,
    _ outbound: NIOAsyncChannelOutboundWriter<ByteBuffer>
  ) {
    self.channel = channel
    parts = inbound.makeAsyncIterator()
    self.outbound = outbound
  }

  /// Connects, and disconnects after `body`.
  ///
  /// - Parameters:
  ///   - trusted: the certificate of the server, to connect with TLS; nil for plain text.
  ///   - address: the address of this side; nil for the one that the system chooses.
  static func connect<R: Sendable>(
    _ port: Int, receiveBytes: Int? = nil, trusting trusted: TestCertificate? = nil,
    from address: String? = nil,
    _ body: (HTTPClient) async throws -> R
  ) async throws -> R {
    var bootstrap = ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .channelOption(.tcpOption(.tcp_nodelay), value: 1)
    if let receiveBytes {
      bootstrap = bootstrap.channelOption(.socketOption(.so_rcvbuf), value: receiveBytes)
    }
    if let address {
      bootstrap = bootstrap.bind(to: try SocketAddress(ipAddress: address, port: 0))
    }
    let channel = try await bootstrap.connect(host: "127.0.0.1", port: port) { channel in
      channel.eventLoop.makeCompletedFuture {
        try trusted?.addClientHandler(to: channel)
        return try NIOAsyncChannel<ByteBuffer, ByteBuffer>(
          wrappingChannelSynchronously: channel,
          configuration: .init(isOutboundHalfClosureEnabled: true))
      }
    }
    return try await channel.executeThenClose { inbound, outbound in
      try await body(HTTPClient(channel, inbound, outbound))
    }
  }

  func send(_ text: String) async throws {
    try await outbound.write(ByteBuffer(string: text))
  }

  func send(_ bytes: [UInt8]) async throws {
    try await outbound.write(ByteBuffer(bytes: bytes))
  }

  /// Sends no more. The connection stays open for reading.
  func finish() {
    outbound.finish()
  }

  /// Sends a request, and returns its response.
  func request(
    _ method: String, _ target: String, _ fields: [String: String] = [:], _ body: String? = nil
  ) async throws -> Response {
    try await begin(method, target, fields, body)
    return try await response()
  }

  /// Sends a request.
  func begin(
    _ method: String, _ target: String, _ fields: [String: String] = [:], _ body: String? = nil
  ) async throws {
    var head = "\(method) \(target) HTTP/1.1\r\n"
    if fields["Host"] == nil { head += "Host: localhost\r\n" }
    for (name, value) in fields.sorted(by: { $0.key < $1.key }) { head += "\(name): \(value)\r\n" }
    if let body { head += "Content-Length: \(body.utf8.count)\r\n" }
    lastRequest = head + "\r\n" + (body ?? "")
    try await send(lastRequest)
  }

  /// Reads a response.
  func response() async throws -> Response {
    let (status, fields) = try await head()
    var body: [UInt8] = []
    if let length = fields["content-length"].flatMap({ Int($0) }) {
      body = try await bytes(length)
    } else if fields["transfer-encoding"] == "chunked" {
      while true {
        let size = try #require(Int(try await line(), radix: 16))
        body += try await bytes(size)
        _ = try await line()
        if size == 0 { break }
      }
    }
    return Response(request: lastRequest, status: status, fields: fields, body: body)
  }

  /// Reads the head of a response.
  func head() async throws -> (status: Int, fields: [String: String]) {
    let first = try await line().split(separator: " ")
    let status = try #require(first.dropFirst().first.flatMap { Int($0) })
    var fields: [String: String] = [:]
    while true {
      let line = try await line()
      guard let colon = line.firstIndex(of: ":") else { break }
      fields[line[..<colon].lowercased()] = String(line[colon...].dropFirst(2))
    }
    return (status, fields)
  }

  /// Reads bytes and drops them.
  func skip(_ count: Int) async throws {
    _ = try await bytes(count)
  }

  /// Reads an event of a stream: its name and its data.
  func event() async throws -> String {
    // The events are parts of a chunked body. Here the chunks are joined.
    while true {
      if let end = events.firstRange(of: Array("\n\n".utf8)) {
        let text = String(decoding: events[..<end.lowerBound], as: UTF8.self)
        events.removeSubrange(..<end.upperBound)
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        return lines.map { $0.drop { $0 != ":" }.dropFirst(2) }.joined(separator: " ")
      }
      let size = try #require(Int(try await line(), radix: 16))
      guard size > 0 else {
        // The empty line after the last chunk.
        _ = try await line()
        throw LineClientError.closed
      }
      events += try await bytes(size)
      _ = try await line()
    }
  }

  private var events: [UInt8] = []

  /// Asks for a WebSocket, and returns the status.
  func upgrade(_ target: String, _ fields: [String: String] = [:]) async throws -> Int {
    let upgrade = [
      "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
      "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    ]
    try await begin("GET", target, upgrade.merging(fields) { $1 })
    return try await head().status
  }

  /// Sends a text message over a WebSocket.
  func send(message: String) async throws {
    let bytes = Array(message.utf8)
    let size = bytes.count
    let length: [UInt8] =
      size < 126
      ? [0x80 | UInt8(size)]
      : size <= 0xFFFF
        ? [0xFE, UInt8(size >> 8), UInt8(size & 0xFF)]
        : [0xFF, 0, 0, 0, 0] + (0..<4).reversed().map { UInt8(size >> (8 * $0) & 0xFF) }
    // A mask of zeros leaves the bytes as they are.
    try await send([0x81] + length + [0, 0, 0, 0] + bytes)
  }

  /// Reads a message of a WebSocket with all its fragments; `(close)` for the end.
  func message() async throws -> String {
    var payload: [UInt8] = []
    while true {
      let head = try await bytes(2)
      var size = Int(head[1])
      if size >= 126 {
        size = try await bytes(size == 126 ? 2 : 8).reduce(0) { $0 << 8 | Int($1) }
      }
      payload += try await bytes(size)
      if head[0] & 0xF == 8 { return "(close)" }
      if head[0] & 0x80 != 0 { return String(decoding: payload, as: UTF8.self) }
    }
  }

  /// Reads a message of a WebSocket. Joins the frames of a long one, whose number comes before them.
  func wholeMessage() async throws -> String {
    let text = try await message()
    guard let count = Int(text), count > 0 else { return text }
    var whole = ""
    for _ in 0..<count { whole += try await message() }
    return whole
  }

  /// Reads until the server closes the connection, and returns the rest.
  func end() async throws -> [UInt8] {
    while try await more() {}
    return received
  }

  private func line() async throws -> String {
    while true {
      if let end = received.firstIndex(of: UInt8(ascii: "\n")) {
        let line = received[..<end].filter { $0 != UInt8(ascii: "\r") }
        received.removeSubrange(...end)
        return String(decoding: line, as: UTF8.self)
      }
      guard try await more() else { throw LineClientError.closed }
    }
  }

  private func bytes(_ count: Int) async throws -> [UInt8] {
    while received.count < count {
      guard try await more() else { throw LineClientError.closed }
    }
    defer { received.removeSubrange(..<count) }
    return Array(received[..<count])
  }

  private func more() async throws -> Bool {
    guard let buffer = try await parts.next() else { return false }
    received += buffer.readableBytesView
    return true
  }
}
