internal import CanopyGateway
internal import CanopySession
internal import CanopyTesting
internal import HTTPTypes
internal import NIOCore
internal import NIOEmbedded
internal import NIOHTTPTypes
internal import Synchronization

/// The bytes of an HTTP connection.
extension FuzzedDecoder {
  /// The requests of a connection. The first byte of an input is the size of the pieces in which the rest comes.
  static let http = FuzzedDecoder(
    name: "http",
    sources: [
      "Serving/CanopyGateway/RequestDecoding.swift", "Serving/CanopyGateway/RequestInput.swift",
      "Serving/CanopyGateway/HTTPExchange.swift", "Serving/CanopyGateway/HTTPTypesCodec.swift",
    ],
    suspendingCheck: { input in
      guard let first = input.first else { return false }
      let bytes = Array(input.dropFirst())
      let operations = try await HTTPCheck.take()
      defer { HTTPCheck.giveBack(operations) }
      let whole = try HTTPCheck.requests(bytes, pieceBytes: max(1, bytes.count), operations)
      let pieces = try HTTPCheck.requests(bytes, pieceBytes: 1 + Int(first) % 7, operations)
      try expect(whole == pieces, "the requests depend on the pieces: \(whole), \(pieces)")
      let requests = whole.filter(\.isWhole)
      // Further fields would exceed the bound.
      if requests.allSatisfy({ $0.fields.count < RequestDecoding.fieldsMax - 2 }) {
        let bytes = Array(requests.map(\.bytes).joined())
        let again = try HTTPCheck.requests(bytes, pieceBytes: 1_000, operations)
        try expect(again == requests, "the requests are not read again: \(requests), \(again)")
      }
      return !requests.isEmpty
    })
}

/// A request without the fields that describe its body.
private struct FuzzedRequest: Equatable {
  var method = ""
  var target = ""
  var fields: [String] = []
  var body: [UInt8] = []
  var isWhole = false

  init(_ head: HTTPRequest) {
    method = head.method.rawValue
    target = head.path ?? ""
    let framing = ["content-length", "transfer-encoding", "connection"]
    fields = head.headerFields.filter { !framing.contains($0.name.canonicalName) }
      .map { "\($0.name.rawName): \($0.value)" }
    // The library has made the host a part of its own.
    fields.append("Host: \(head.authority ?? "")")
  }

  /// The request as HTTP/1.1, with the length of its body.
  var bytes: [UInt8] {
    let lines = ["\(method) \(target) HTTP/1.1"] + fields + ["Content-Length: \(body.count)"]
    return Array((lines.joined(separator: "\r\n") + "\r\n\r\n").utf8) + body
  }
}

/// The handlers of an HTTP connection, in a channel without a socket.
private enum HTTPCheck {
  /// Servers that no input uses now: the memory that a connection holds is counted.
  private static let free = Mutex<[Operations]>([])

  static func take() async throws -> Operations {
    if let operations = free.withLock({ $0.popLast() }) { return operations }
    return try await LineParts().operations
  }

  static func giveBack(_ operations: Operations) { free.withLock { $0.append(operations) } }

  /// Returns the requests of an input that comes in pieces, up to the first error.
  static func requests(
    _ bytes: [UInt8], pieceBytes: Int, _ operations: Operations
  ) throws -> [FuzzedRequest] {
    let sink = Sink()
    let channel = EmbeddedChannel()
    let decoding = try RequestDecoding(channel, operations, sink)
    try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
    var rest = bytes[...]
    var most = 0
    while !rest.isEmpty, !sink.hasFailed {
      let piece = rest.prefix(pieceBytes)
      rest = rest.dropFirst(piece.count)
      channel.pipeline.fireChannelRead(ByteBuffer(bytes: piece))
      channel.pipeline.fireChannelReadComplete()
      channel.embeddedEventLoop.run()
      most = max(most, operations.memory.used)
    }
    let result = sink.requests
    _ = try? channel.finish(acceptAlreadyClosed: true)
    decoding.end()
    try expect(most <= 128 * 1024 + 16 * bytes.count, "a connection holds \(most) bytes")
    try expect(operations.memory.used == 0, "\(operations.memory.used) bytes stay charged")
    return result
  }

  /// Collects the requests, and answers each at its end.
  ///
  /// `@unchecked Sendable`: one thread uses it, that of the check.
  private final class Sink: ChannelInboundHandler, @unchecked Sendable {
    typealias InboundIn = HTTPRequestPart
    typealias OutboundOut = HTTPResponsePart

    private(set) var requests: [FuzzedRequest] = []
    private(set) var hasFailed = false

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      guard !hasFailed else { return }
      switch unwrapInboundIn(data) {
      case .head(let head): requests.append(FuzzedRequest(head))
      case .body(let bytes):
        if !requests.isEmpty { requests[requests.count - 1].body += Array(buffer: bytes) }
      case .end:
        if !requests.isEmpty { requests[requests.count - 1].isWhole = true }
        let head = HTTPResponse(status: .ok, headerFields: [.contentLength: "0"])
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
      }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
      hasFailed = true
      // Pieces show more of a request that is not whole.
      requests.removeAll { !$0.isWhole }
    }
  }
}
