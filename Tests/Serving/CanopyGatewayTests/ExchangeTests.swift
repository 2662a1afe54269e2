import CanopyEngine
import CanopyEvents
import CanopySession
import CanopyTesting
import HTTPTypes
import NIOCore
import NIOEmbedded
import NIOHTTP1
import NIOHTTPTypes
import Testing

@testable import CanopyGateway

/// The requests and responses of a connection, on a channel in memory: the order in which requests are handed on, and
/// the bytes that are charged.
@Suite(.timeLimit(.minutes(20))) struct ExchangeTests {
  /// Runs `body` with a connection, whose server has no other one.
  private func withWire(
    upgrader: PendingUpgrade? = nil, _ body: (Wire, MemoryBudget) throws -> Void
  ) async throws {
    let operations = try await LineParts().operations
    try body(Wire(operations, upgrader: upgrader), operations.memory)
    #expect(operations.memory.used == 0)
  }

  /// Returns a request that is longer than the bytes which the decoder gets at once.
  private func request(_ line: String, _ fields: String = "", body: String = "") -> String {
    "\(line) HTTP/1.1\r\nHost: x\r\nX: \(String(repeating: "x", count: 1500))\r\n\(fields)\r\n\(body)"
  }

  private var three: String {
    request("GET /1")
      + request("PUT /2", "Content-Length: 5\r\n", body: "hello")
      + request(
        "PUT /3", "Transfer-Encoding: chunked\r\n", body: "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
  }

  private let first = ["GET /1", "end"]
  private let second = ["PUT /2", "hello", "end"]
  private let third = ["PUT /3", "abcde", "end"]

  @Test(arguments: [1, 700, 100_000])
  func `a request is handed on when the one before it is answered`(partBytes: Int) async throws {
    try await withWire { wire, memory in
      try wire.receive(three, partBytes)
      #expect(wire.parts == first)
      #expect(memory.used > GatewayConnection.newBytes)
      try wire.answer()
      #expect(wire.parts == first + second)
      try wire.answer()
      #expect(wire.parts == first + second + third)
      try wire.answer()
      #expect(wire.parts == first + second + third)
      try wire.receive(three, partBytes)
      #expect(wire.parts == first + second + third + first)
      try wire.close()
    }
  }

  @Test func `the next request of a connection waits for its turn, and a turn has a few`()
    async throws
  {
    let operations = try await LineParts().operations
    var next: (() -> Void)?
    let loop = EmbeddedEventLoop()
    let turns = LoopTurns(loop: loop) { next = $0 }
    let wires = try (0..<20).map { _ in
      try Wire(operations, upgrader: nil, turns: { _ in turns }, loop: loop)
    }
    let batch = String(repeating: "GET /1 HTTP/1.1\r\nHost: x\r\n\r\n", count: 50)
    for wire in wires {
      try wire.receive(batch)
      #expect(wire.parts == first, "one request, however many a slice may have")
      try wire.answer()
      #expect(wire.parts == first, "the tasks of the loop hand on nothing")
    }
    var (counts, total): ([Int], Int) = ([], wires.count)
    while let turn = next.take() {
      turn()
      loop.run()
      let now = wires.reduce(0) { $0 + $1.parts.count / 2 }
      counts.append(now - total)
      total = now
    }
    #expect(counts == [8, 8, 4])
    for wire in wires { try wire.close() }
    #expect(operations.memory.used == 0)
  }

  @Test func `the end of the input follows the last request`() async throws {
    try await withWire { wire, _ in
      try wire.receive(three)
      wire.endInput()
      #expect(wire.parts == first)
      try wire.answer()
      #expect(wire.parts == first + second)
      try wire.answer()
      #expect(wire.parts == first + second + third + ["closed"])
      try wire.close()
    }
  }

  @Test func `nothing is handed on when the connection is gone`() async throws {
    try await withWire { wire, memory in
      try wire.receive(three)
      #expect(memory.used > GatewayConnection.newBytes)
      try wire.channel.close().wait()
      #expect(memory.used - GatewayConnection.newBytes < MemoryBudget.reportBytes)
      try? wire.answer()
      #expect(wire.requests == first)
      wire.connection.end()
    }
    try await withWire { wire, _ in
      try wire.receive(three)
      try wire.answer()
      // The next request has been handed on, and the last one waits.
      try wire.channel.close().wait()
      try? wire.answer()
      #expect(wire.requests == first + second)
      wire.connection.end()
    }
  }

  @Test func `a request that is answered before its end is read to its end`() async throws {
    try await withWire { wire, _ in
      let head = request("PUT /1", "Content-Length: 6\r\n")
      try wire.receive(head + "abc")
      #expect(wire.parts == ["PUT /1", "abc"])
      try wire.answer()
      try wire.receive("def" + three)
      #expect(wire.parts == ["PUT /1", "abc", "def", "end"] + first)
      try wire.answer()
      #expect(wire.parts.suffix(3) == second[...])
      try wire.close()
    }
  }

  @Test func `a provisional response is not the answer`() async throws {
    try await withWire { wire, _ in
      try wire.receive(request("PUT /1", "Expect: 100-continue\r\nContent-Length: 1\r\n"))
      wire.write(.head(HTTPResponse(status: .continue)))
      wire.channel.flush()
      try wire.receive("x" + three)
      #expect(wire.parts == ["PUT /1", "x", "end"])
      try wire.answer()
      #expect(wire.parts == ["PUT /1", "x", "end"] + first)
      try wire.close()
    }
  }

  @Test func `a client of HTTP 1_0 has one request, unless it keeps the connection`() async throws {
    let old = request("GET /1").replacing("HTTP/1.1", with: "HTTP/1.0")
    try await withWire { wire, _ in
      try wire.receive(old + three)
      try wire.answer()
      #expect(!wire.channel.isActive && wire.requests == first)
      #expect(wire.sent.hasPrefix("HTTP/1.0 200 ") && wire.sent.contains("onnection: close"))
      wire.connection.end()
    }
    let kept = old.replacing("\r\n\r\n", with: "\r\nConnection: keep-alive\r\n\r\n")
    try await withWire { wire, _ in
      try wire.receive(kept + three)
      try wire.answer()
      #expect(wire.channel.isActive && wire.parts == first + first)
      #expect(wire.sent.contains("onnection: keep-alive"))
      try wire.close()
    }
    try await withWire { wire, _ in
      try wire.receive(kept + three)
      // Only the end of the connection shows the end of this response.
      try wire.answer([:])
      #expect(!wire.channel.isActive && wire.requests == first)
      wire.connection.end()
    }
  }

  @Test func `input that cannot be understood ends the requests`() async throws {
    try await withWire { wire, memory in
      try wire.receive(request("GET /1") + request("B@D /2") + three)
      #expect(wire.parts == first)
      try wire.answer()
      #expect(wire.parts == first + ["error"])
      try wire.receive(three)
      #expect(wire.parts == first + ["error"])
      #expect(memory.used - GatewayConnection.newBytes < MemoryBudget.reportBytes)
      try wire.close()
    }
  }

  @Test func `fields behind a body are charged and bounded`() async throws {
    let head = "PUT /1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nT: "
    try await withWire { wire, memory in
      try wire.receive(head + String(repeating: "t", count: 10_000))
      #expect(memory.used > GatewayConnection.newBytes + 2 * 10_000)
      try wire.receive("\r\n\r\n")
      #expect(wire.parts == ["PUT /1", "x", "end"])
      try wire.close()
    }
    // The decoder keeps spaces without counting them.
    try await withWire { wire, _ in
      try wire.receive(head + String(repeating: " ", count: 30_000))
      #expect(wire.parts == ["PUT /1", "x", "error"])
      try wire.close()
    }
  }

  @Test func `a long head is charged until the request after it is handed on`() async throws {
    let long = "GET /1 HTTP/1.1\r\nHost: x\r\nX: \(String(repeating: "x", count: 15_000))\r\n\r\n"
    let short = "GET /2 HTTP/1.1\r\nHost: x\r\n\r\n"
    try await withWire { wire, memory in
      try wire.receive(long)
      #expect(wire.parts == ["GET /1", "end"])
      #expect(memory.used >= GatewayConnection.newBytes + 2 * 15_000)
      try wire.answer()
      #expect(memory.used >= GatewayConnection.newBytes + 2 * 15_000)
      try wire.receive(short)
      #expect(wire.parts == ["GET /1", "end", "GET /2", "end"])
      #expect(memory.used - GatewayConnection.newBytes < MemoryBudget.reportBytes)
      try wire.close()
    }
  }

  @Test func `a target of many short parts is charged with their texts`() async throws {
    try await withWire { wire, memory in
      try wire.receive("GET /?\(String(repeating: "a&", count: 8_000)) HTTP/1.1\r\nHost: x\r\n\r\n")
      #expect(wire.parts.count == 2)
      #expect(memory.used >= GatewayConnection.newBytes + 8_000 * 64)
      try wire.close()
    }
  }

  @Test func `short requests that come together are handed on one by one and charged`()
    async throws
  {
    try await withWire { wire, memory in
      let request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
      try wire.receive(String(repeating: request, count: 100))
      for count in 1...100 {
        #expect(wire.parts.count == 2 * count)
        let waiting = (100 - count) * request.utf8.count
        #expect(memory.used >= GatewayConnection.newBytes + waiting - MemoryBudget.reportBytes)
        try wire.answer()
      }
      try wire.close()
    }
  }

  @Test func `many short fields of an unfinished head are charged`() async throws {
    try await withWire { wire, memory in
      try wire.receive(
        "GET /1 HTTP/1.1\r\nHost: x\r\n"
          + String(repeating: "X:\r\n", count: RequestInput.fieldsMax - 1))
      let fields = RequestInput.fieldBytes * RequestInput.fieldsMax
      #expect(memory.used >= GatewayConnection.newBytes + fields)
      try wire.close()
    }
  }

  @Test func `a body is charged until the responder takes it or the request is answered`()
    async throws
  {
    try await withWire { wire, memory in
      let body = String(repeating: "b", count: 50_000)
      try wire.receive(request("PUT /1", "Content-Length: 50000\r\n", body: body))
      #expect(wire.parts == ["PUT /1", body, "end"])
      #expect(memory.used >= GatewayConnection.newBytes + 50_000)
      try wire.answer()
      #expect(memory.used - GatewayConnection.newBytes < MemoryBudget.reportBytes)
      try wire.close()
    }
  }

  @Test func `a response that the socket does not take is charged`() async throws {
    try await withWire { wire, memory in
      wire.socket.isFull = true
      try wire.receive(request("GET /1"))
      try wire.answer([.contentLength: "40000"], String(repeating: "b", count: 40_000))
      #expect(memory.used >= GatewayConnection.newBytes + 40_000)
      wire.socket.isFull = false
      #expect(memory.used - GatewayConnection.newBytes < MemoryBudget.reportBytes)
      // Short ones as well, when they are many.
      wire.socket.isFull = true
      for _ in 0..<1_000 {
        try wire.receive("GET /1 HTTP/1.1\r\nHost: x\r\n\r\n")
        try wire.answer()
      }
      let held = wire.socket.heldBytes
      #expect(held > 30_000)
      #expect(memory.used >= GatewayConnection.newBytes + held - 2 * MemoryBudget.reportBytes)
      try wire.close()
    }
  }

  @Test func `bytes behind a request for another protocol wait, are charged, and stop the reading`()
    async throws
  {
    let upgrade = PendingUpgrade()
    try await withWire(upgrader: upgrade) { wire, memory in
      let bytes = String(repeating: "frames", count: 10_000)
      try wire.receive(
        "GET /1 HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: other\r\n\r\n")
      wire.channel.read()
      #expect(wire.socket.readCount == 1)
      try wire.receive(bytes, 10_000)
      wire.channel.read()
      #expect(wire.parts.isEmpty && wire.socket.readCount == 1)
      #expect(memory.used >= GatewayConnection.newBytes + bytes.utf8.count)
      upgrade.input = wire.input
      upgrade.accept()
      wire.channel.embeddedEventLoop.run()
      #expect(wire.sent.hasPrefix("HTTP/1.1 101 "))
      #expect(upgrade.received == bytes && wire.socket.readCount == 2)
      #expect(memory.used - GatewayConnection.newBytes < MemoryBudget.reportBytes)
      try wire.receive("more")
      #expect(upgrade.received == bytes + "more")
      try wire.close()
    }
  }

  @Test(arguments: [
    "gzip, chunked", "chunked, chunked", "chunked\r\nTransfer-Encoding: chunked",
    "identity\r\nTransfer-Encoding: chunked",
  ])
  func `a body with another coding than chunks is refused, with everything behind it`(
    coding: String
  ) async throws {
    let field = "Transfer-Encoding: \(coding)\r\n"
    try await withWire { wire, _ in
      try wire.receive(request("PUT /3", "Transfer-Encoding: CHUNKED\r\n", body: "0\r\n\r\n"))
      try wire.answer()
      #expect(wire.parts == ["PUT /3", "end"])
      try wire.receive("PUT /4 HTTP/1.1\r\nHost: x\r\n\(field)\r\n1\r\nx\r\n0\r\n\r\n" + three)
      try wire.receive(three)
      #expect(wire.parts == ["PUT /3", "end", "error"])
      try wire.close()
    }
  }

  @Test func `a request for another protocol that is refused is handed on`() async throws {
    let upgrade = PendingUpgrade()
    try await withWire(upgrader: upgrade) { wire, _ in
      try wire.receive(
        "GET /1 HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: other\r\n\r\n" + three)
      #expect(wire.parts.isEmpty)
      upgrade.refuse()
      wire.channel.embeddedEventLoop.run()
      #expect(wire.parts == ["error"] + first)
      try wire.answer()
      #expect(wire.parts == ["error"] + first)
      try wire.close()
    }
  }
}
