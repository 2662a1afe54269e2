import CanopyTesting
import HTTPTypes
import NIOCore
import NIOEmbedded
import NIOHTTP1
import Testing

@testable import CanopyGateway

/// The bytes of responses.
struct ResponseOutputTests {
  /// Returns the bytes of a response, and the number of buffers.
  private func encode(
    _ head: HTTPResponse, _ parts: [ByteBuffer], trailers: HTTPFields? = nil, isOld: Bool = false
  ) -> (bytes: ByteBuffer, buffers: Int) {
    var output = ResponseOutput()
    var (bytes, buffers) = (ByteBuffer(), 0)
    func write(_ buffer: ByteBuffer?) {
      guard let buffer else { return }
      bytes.writeImmutableBuffer(buffer)
      buffers += 1
    }
    if !output.begin(head, isOld: isOld) { write(output.take()) }
    for part in parts where !output.append(part) {
      write(output.take())
      write(part)
      output.endLongBody()
    }
    output.end(trailers)
    write(output.take())
    return (bytes, buffers)
  }

  private func text(
    _ head: HTTPResponse, _ parts: [String], trailers: HTTPFields? = nil, isOld: Bool = false
  ) -> String {
    let parts = parts.map { ByteBuffer(string: $0) }
    return String(buffer: encode(head, parts, trailers: trailers, isOld: isOld).bytes)
  }

  @Test func `a body has the length of the head, or comes in chunks`() {
    let known = HTTPResponse(status: .ok, headerFields: [.contentLength: "3", .eTag: "x"])
    #expect(
      text(known, ["a", "bc"]) == "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nETag: x\r\n\r\nabc")
    let unknown = HTTPResponse(status: .notFound)
    let chunks = "HTTP/1.1 404 Not Found\r\ntransfer-encoding: chunked\r\n\r\n"
    #expect(text(unknown, []) == chunks + "0\r\n\r\n")
    let long = String(repeating: "x", count: 26)
    #expect(
      text(unknown, ["a", "", long], trailers: [.eTag: "t"])
        == chunks + "1\r\na\r\n1a\r\n\(long)\r\n0\r\nETag: t\r\n\r\n")
  }

  @Test func `a client of an earlier version gets no chunks`() {
    #expect(
      text(HTTPResponse(status: .ok), ["ab", "c"], isOld: true) == "HTTP/1.0 200 OK\r\n\r\nabc")
  }

  @Test func `a response without a body has neither a length nor chunks`() {
    for status in [HTTPResponse.Status.noContent, .notModified] {
      let fields: HTTPFields = [.contentLength: "3", .transferEncoding: "chunked", .eTag: "x"]
      let head = HTTPResponse(status: status, headerFields: fields)
      let line = "HTTP/1.1 \(status.code) \(status.reasonPhrase)\r\n"
      #expect(text(head, []) == line + "ETag: x\r\n\r\n")
    }
  }

  @Test func `a provisional response is complete, and another one follows`() {
    var output = ResponseOutput()
    let isWaiting = output.begin(HTTPResponse(status: .continue), isOld: false)
    #expect(!isWaiting)
    let sent = output.take().map { String(buffer: $0) }
    #expect(sent == "HTTP/1.1 100 Continue\r\n\r\n")
    let next = HTTPResponse(status: .ok, headerFields: [.contentLength: "0"])
    let isNextWaiting = output.begin(next, isOld: false)
    #expect(isNextWaiting)
  }

  @Test func `a head and a short body are one buffer, and a long part is another one`() {
    let most = ResponseOutput.copiedBytesMax
    for (count, buffers) in [(0, 1), (1, 1), (most, 1), (most + 1, 2)] {
      let head = HTTPResponse(status: .ok, headerFields: [.contentLength: "\(count)"])
      #expect(encode(head, [ByteBuffer(repeating: 7, count: count)]).buffers == buffers)
    }
    // The line break behind a long chunk goes with the end.
    let chunked = HTTPResponse(status: .ok)
    #expect(encode(chunked, [ByteBuffer(repeating: 7, count: most + 1)]).buffers == 3)
  }

  @Test func `random responses are read by a decoder as they were`() throws {
    var random = SeededGenerator(printingSeedFor: "ResponseOutputTests")
    for _ in 0..<300 {
      let counts = (0..<Int.random(in: 0...4, using: &random)).map { _ in
        random.oneIn(4)
          ? Int.random(in: 0...20_000, using: &random) : Int.random(in: 0...40, using: &random)
      }
      let parts = counts.map {
        ByteBuffer(repeating: UInt8.random(in: 0...255, using: &random), count: $0)
      }
      var head = HTTPResponse(status: random.pick([.ok, .badRequest, .init(code: 299)]))
      if random.oneIn(2) {
        head.headerFields[.contentLength] = "\(counts.reduce(0, +))"
      }
      for _ in 0..<Int.random(in: 0...5, using: &random) {
        head.headerFields.append(HTTPField(name: .setCookie, value: "é \(random.next())"))
      }
      let (bytes, _) = encode(head, parts)
      let channel = EmbeddedChannel()
      // The decoder wants to know the requests.
      let decoder = HTTPResponseDecoder()
      try channel.pipeline.syncOperations.addHandlers([
        HTTPRequestEncoder(), ByteToMessageHandler(decoder),
      ])
      try channel.writeOutbound(
        HTTPClientRequestPart.head(.init(version: .http1_1, method: .GET, uri: "/")))
      try channel.writeInbound(bytes)
      var (status, body, hasEnded) = (0, ByteBuffer(), false)
      while let part = try channel.readInbound(as: HTTPClientResponsePart.self) {
        switch part {
        case .head(let read):
          status = Int(read.status.code)
          #expect(read.headers["set-cookie"].count == head.headerFields[values: .setCookie].count)
        case .body(let part): body.writeImmutableBuffer(part)
        case .end: hasEnded = true
        }
      }
      #expect(status == head.status.code && hasEnded)
      #expect(Array(body.readableBytesView) == parts.flatMap { Array($0.readableBytesView) })
      _ = try channel.finish(acceptAlreadyClosed: true)
    }
  }
}
