import CanopyEvents
import CanopySession
import CanopyTesting
import CanopyTree
import HTTPTypes
import NIOCore
import NIOEmbedded
import NIOHTTP1
import NIOHTTPTypes
import Testing

@testable import CanopyGateway

/// The requests that are answered on the event loop, and those that are for the task of the connection.
@Suite struct ShortRequestTests {
  @Test func `a request that came whole in one read is answered on the loop`() throws {
    let wire = try ShortWire()
    try wire.receive(.head("GET", "/1"), .end)
    try wire.receive(.head("PUT", "/2"), .body("two"), .end)
    #expect(try wire.sent() == ["200", "/1 ", "end", "200", "/2 two", "end"])
    #expect(wire.task.parts.isEmpty)
  }

  @Test func `a response is sent when the loop has received all requests`() throws {
    let wire = try ShortWire()
    try wire.receive(.head("GET", "/1"), .end)
    #expect(try wire.channel.readOutbound(as: HTTPResponsePart.self) == nil)
    try wire.receive(.head("GET", "/2"), .end)
    #expect(try wire.sent() == ["200", "/1 ", "end", "200", "/2 ", "end"])
  }

  @Test func `a request that is not short is for the task, and so are those before its response`()
    throws
  {
    let wire = try ShortWire()
    try wire.receive(.head("GET", "/long"), .body("x"), .end)
    try wire.receive(.head("GET", "/1"), .end)
    #expect(wire.task.parts == ["/long", "x", "end", "complete", "/1", "end", "complete"])
    try wire.respond()
    try wire.receive(.head("GET", "/2"), .end)
    #expect(wire.task.parts.suffix(3) == ["/2", "end", "complete"])
    try wire.respond()
    try wire.respond()
    _ = try wire.sent()
    try wire.receive(.head("GET", "/3"), .end)
    #expect(try wire.sent() == ["200", "/3 ", "end"])
  }

  @Test func `a request in two reads is for the task, also behind an early response`() throws {
    let wire = try ShortWire()
    try wire.receive(.head("PUT", "/1"), .body("a"))
    #expect(wire.task.parts == ["/1", "a", "complete"])
    try wire.respond()
    _ = try wire.sent()
    try wire.receive(.body("b"), .end, .head("GET", "/2"), .end)
    #expect(wire.task.parts == ["/1", "a", "complete", "b", "end", "complete"])
    #expect(try wire.sent() == ["200", "/2 ", "end"])
  }

  @Test func `a request with another behind it is handled by the task`() throws {
    let wire = try ShortWire()
    try wire.receive(.head("GET", "/1"), .end, .head("GET", "/2"), .end)
    #expect(wire.task.parts == ["/1", "end", "/2", "end", "complete"])
    try wire.respond()
    try wire.respond()
    wire.hasMore = true
    try wire.receive(.head("GET", "/3"), .end)
    #expect(wire.task.parts.suffix(3) == ["/3", "end", "complete"])
  }

  @Test func `a body that may take long is for the task`() throws {
    let wire = try ShortWire()
    let longest = String(repeating: "x", count: Operations.longTextBytes - 1)
    try wire.receive(.head("PUT", "/1"), .body(longest), .end)
    #expect(try wire.sent() == ["200", "/1 \(longest)", "end"])
    try wire.receive(.head("PUT", "/2"), .body(longest + "x"), .end)
    #expect(wire.task.parts == ["/2", longest + "x", "end", "complete"])
    try wire.respond()
    try wire.receive(.head("PUT", "/3"), .body("a"), .body("b"), .end)
    #expect(wire.task.parts.suffix(5) == ["/3", "a", "b", "end", "complete"])
  }

  @Test func `everything behind a write waits for its response`() throws {
    let wire = try ShortWire()
    try wire.receive(.head("PUT", "/write"), .body("1"), .end)
    try wire.receive(.head("GET", "/1"), .end)
    wire.endInput()
    #expect(try wire.sent() == [] && wire.task.parts.isEmpty)
    wire.completeWrite()
    #expect(try wire.sent() == ["200", "written", "end"])
    // The end of the input must not come before the request.
    #expect(wire.task.parts == ["/1", "end", "closed", "complete"])
  }

  @Test func `the next request behind a write is answered on the loop`() throws {
    let wire = try ShortWire()
    try wire.receive(.head("PUT", "/write"), .end)
    try wire.receive(.head("GET", "/1"), .end)
    wire.completeWrite()
    #expect(try wire.sent() == ["200", "written", "end", "200", "/1 ", "end"])
    #expect(wire.task.parts.isEmpty)
  }

  @Test func `an error behind a write is reported after its response`() throws {
    let wire = try ShortWire()
    try wire.receive(.head("PUT", "/write"), .end)
    wire.channel.pipeline.fireErrorCaught(HTTPParserError.invalidMethod)
    #expect(wire.task.parts.isEmpty)
    wire.completeWrite()
    #expect(try wire.sent() == ["200", "written", "end"])
    #expect(wire.task.parts == ["error", "complete"])
    // The task ends the connection.
    try wire.receive(.head("GET", "/1"), .end)
    #expect(wire.task.parts.suffix(3) == ["/1", "end", "complete"])
  }

  @Test(arguments: ["close", "upgrade", "keep-alive, TE"])
  func `a request behind which the connection may end is for the task`(field: String) throws {
    let wire = try ShortWire()
    try wire.receive(.head("GET", "/1", connection: "Keep-Alive"), .end)
    #expect(try wire.sent() == ["200", "/1 ", "end"])
    try wire.receive(.head("GET", "/2", connection: field), .end)
    try wire.respond()
    try wire.receive(.head("GET", "/3"), .end)
    #expect(wire.task.parts == ["/2", "end", "complete", "/3", "end", "complete"])
  }

  @Test func `everything behind the last response of the task is for the task`() throws {
    let wire = try ShortWire()
    try wire.receive(.head("GET", "/long"), .end)
    try wire.respond(closes: true)
    try wire.receive(.head("GET", "/1"), .end)
    #expect(wire.task.parts == ["/long", "end", "complete", "/1", "end", "complete"])
  }

  @Test func `a client that does not read has its requests answered by the task`() throws {
    let wire = try ShortWire()
    wire.channel.isWritable = false
    try wire.receive(.head("GET", "/1"), .end)
    #expect(wire.task.parts == ["/1", "end", "complete"])
  }

  @Test func `a write whose client is gone has no response`() throws {
    let wire = try ShortWire()
    try wire.receive(.head("PUT", "/write"), .end)
    try wire.receive(.head("GET", "/1"), .end)
    wire.channel.pipeline.fireChannelInactive()
    try wire.channel.close().wait()
    wire.completeWrite()
    #expect(wire.answered == 1)
    #expect(wire.task.parts.isEmpty)
  }
}

/// Short requests among others, on connections of a server.
@Suite(.timeLimit(.minutes(20))) struct MixedRequestTests {
  @Test(arguments: [1, 2, 3, 4] as [UInt64])
  func `requests of all kinds are answered in their order, wherever the input is cut`(
    seed: UInt64
  ) async throws {
    try await withGateway { server in
      try await server.connect { client in
        var random = SplitMix64(seed: seed)
        var value = "null"
        for round in 0..<30 {
          var input = ""
          var expected: [String] = []
          for number in 0..<Int.random(in: 1...6, using: &random) {
            var (body, query) = ("", "")
            var method = "PUT"
            switch Int.random(in: 0...4, using: &random) {
            case 0: (method, value) = ("DELETE", "null")
            case 1: body = "\(100 * round + number)"
            // Too long for the event loop.
            case 2: body = "\"\(number)\(String(repeating: "x", count: Operations.longTextBytes))\""
            case 3: method = "GET"
            // For the task, because of the line breaks.
            default: (method, query) = ("GET", "?print=pretty")
            }
            if method == "PUT" { value = body }
            input += "\(method) /open/mixed.json\(query) HTTP/1.1\r\nHost: x\r\n"
            input += "Content-Length: \(body.utf8.count)\r\n\r\n\(body)"
            expected.append(value)
          }
          var bytes = Array(input.utf8)[...]
          while !bytes.isEmpty {
            let part = bytes.prefix(Int.random(in: 1...1500, using: &random))
            try await client.send(Array(part))
            bytes = bytes.dropFirst(part.count)
          }
          for text in expected { #expect(try await client.response().text == text) }
        }
      }
    }
  }
}

/// The handler under test between a client and a task, on a channel in memory.
private final class ShortWire {
  /// A part of a request.
  enum Part {
    case head(String, String, connection: String? = nil)
    case body(String)
    case end
  }

  let channel = EmbeddedChannel()
  let task = TaskRecorder()
  var hasMore = false
  /// The number of writes whose response was made.
  private(set) var answered = 0
  private var completion: (@Sendable (Reply) -> Void)?

  init() throws {
    let flushes = FlushQueue(loop: channel.eventLoop) {}
    let handler = ShortRequests(flushes: flushes, hasMore: { [unowned self] in hasMore }) {
      [unowned self] head, body, completion in
      let path = head.path ?? ""
      switch path {
      case "/long": return .needsTask
      case "/write":
        self.completion = completion
        return .writes { _ in
          self.answered += 1
          return Self.answer("written")
        }
      default: return .answered(Self.answer("\(path) \(String(buffer: body))"))
      }
    }
    try channel.pipeline.syncOperations.addHandlers([handler, task])
    try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
  }

  private static func answer(_ text: String) -> HTTPAnswer {
    var answer = HTTPAnswer()
    answer.body = .bytes(ByteBuffer(string: text))
    return answer
  }

  /// Receives the parts of one read.
  func receive(_ parts: Part...) throws {
    for part in parts {
      let part: HTTPRequestPart =
        switch part {
        case .head(let method, let path, let connection):
          .head(
            HTTPRequest(
              method: try #require(HTTPRequest.Method(rawValue: method)), scheme: "http",
              authority: "x", path: path,
              headerFields: connection.map { [.connection: $0] } ?? [:]))
        case .body(let text): .body(ByteBuffer(string: text))
        case .end: .end(nil)
        }
      channel.pipeline.fireChannelRead(part)
    }
    channel.pipeline.fireChannelReadComplete()
  }

  func endInput() {
    channel.pipeline.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
  }

  /// Has the task respond to its first request.
  func respond(closes: Bool = false) throws {
    var head = HTTPResponse(status: .accepted)
    if closes { head.headerFields[.connection] = "close" }
    channel.write(HTTPResponsePart.head(head), promise: nil)
    channel.writeAndFlush(HTTPResponsePart.end(nil), promise: nil)
  }

  func completeWrite() {
    completion?(.null)
    completion = nil
    channel.embeddedEventLoop.run()
  }

  /// Removes and returns everything that was sent.
  func sent() throws -> [String] {
    channel.embeddedEventLoop.run()
    var all: [String] = []
    while let part = try channel.readOutbound(as: HTTPResponsePart.self) {
      switch part {
      case .head(let head): all.append("\(head.status.code)")
      case .body(let bytes): all.append(String(buffer: bytes))
      case .end: all.append("end")
      }
    }
    return all
  }
}

/// Keeps everything that is handed on to the task of a connection.
private final class TaskRecorder: ChannelInboundHandler {
  typealias InboundIn = HTTPRequestPart

  private(set) var parts: [String] = []

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    switch unwrapInboundIn(data) {
    case .head(let head): parts.append(head.path ?? "")
    case .body(let bytes): parts.append(String(buffer: bytes))
    case .end: parts.append("end")
    }
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    // Only behind something else, because the end of each read is handed on.
    if let last = parts.last, last != "complete" { parts.append("complete") }
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    if case ChannelEvent.inputClosed? = event as? ChannelEvent { parts.append("closed") }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    parts.append("error")
  }
}
