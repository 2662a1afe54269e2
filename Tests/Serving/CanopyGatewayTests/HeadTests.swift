import CanopyEngine
import CanopySession
import CanopyTesting
import CanopyWire
import Testing

@testable import CanopyGateway

/// The heads of requests, the input that waits, and HTTP/1.0.
@Suite(.timeLimit(.minutes(20))) struct HeadTests {
  private static let streamHead =
    "GET /open/a.json HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n"

  /// Returns a request whose target and fields have this many bytes.
  private static func request(_ bytes: Int, inTarget: Bool) -> String {
    let rest = bytes - "/open.json?x=HostxX".utf8.count
    let text = String(repeating: "a", count: rest)
    return "GET /open.json?x=\(inTarget ? text : "") HTTP/1.1\r\nHost: x\r\n"
      + "X: \(inTarget ? "" : text)\r\n\r\n"
  }

  @Test(arguments: [false, true])
  func `a head at the bound is taken, and a longer one is refused`(inTarget: Bool) async throws {
    try await withGateway { server in
      let longest = Self.request(RequestInput.headBytesMax, inTarget: inTarget)
      let tooLong = Self.request(RequestInput.headBytesMax + 1, inTarget: inTarget)
      try await server.connect { client in
        try await client.send(tooLong)
        #expect(try await client.response().status == 431)
        #expect(try await client.end() == [])
      }
      try await server.connect { client in
        for _ in 0..<2 {
          try await client.send(longest)
          #expect(try await client.response().status == 200)
        }
        try await client.send(tooLong)
        #expect(try await client.response().status == 431)
        #expect(try await client.end() == [])
      }
    }
  }

  @Test func `a head that never ends is refused`() async throws {
    try await withGateway { server in
      try await server.connect { client in
        try? await client.send(
          "GET / HTTP/1.1\r\nHost: x\r\nX:" + String(repeating: " ", count: 100_000))
        let response = try await client.response()
        #expect(response.status == 431, "\(response)")
      }
    }
  }

  @Test func `a connection, a stream, a head and an unfinished head are charged`() async throws {
    try await withGateway { server in
      let memory = server.parts.operations.memory
      try await server.connect { client in
        try await eventually { memory.used == GatewayConnection.newBytes }
        let field = "X: \(String(repeating: "a", count: 15_000))\r\n"
        try await client.send("GET /open.json HTTP/1.1\r\nHost: x\r\n" + field)
        try await eventually { memory.used >= GatewayConnection.baseBytes + 2 * 15_000 }
        try await client.send("\r\n")
        #expect(try await client.response().status == 200)
        // The last head is kept until the next one.
        try await eventually { memory.used >= GatewayConnection.baseBytes + 2 * 15_000 }
        try await client.expect("GET", "/open.json", status: 200)
        // A change of less than the bound is reported with the next one.
        let settled = GatewayConnection.baseBytes + MemoryBudget.reportBytes
        try await eventually { memory.used < settled }
        try await client.send(Self.streamHead + field + "\r\n")
        _ = try await client.head()
        #expect(try await client.event().hasPrefix("put "))
        try await eventually { memory.used >= GatewayConnection.baseBytes + 2 * 15_000 + 16_384 }
      }
      try await eventually { memory.used == 0 }
    }
  }

  @Test(arguments: [
    ("HTTP/1.1", "", 400), ("HTTP/1.1", "Host: x\r\n", 200), ("HTTP/1.1", "Host:\r\n", 200),
    ("HTTP/1.1", "Host: x\r\nHost: x\r\n", 400), ("HTTP/1.0", "", 200),
    ("HTTP/1.0", "Host: x\r\nhost: y\r\n", 400),
    ("HTTP/1.1", "Host: x\r\nOrigin: a\r\n", 200),
    ("HTTP/1.1", "Host: x\r\nOrigin: a\r\norigin: a\r\n", 400),
  ])
  func `a request names its host once, and its origin at most once`(
    version: String, fields: String, status: Int
  ) async throws {
    try await withGateway { server in
      try await server.connect { client in
        try await client.send("GET /health \(version)\r\n\(fields)\r\n")
        #expect(try await client.response().status == status)
        if status == 400 { #expect(try await client.end() == []) }
      }
    }
  }

  @Test func `a request for a WebSocket with two origins is refused`() async throws {
    try await withGateway { server in
      try await server.connect { client in
        try await client.send(
          "GET /line HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
            + "Origin: http://localhost\r\nOrigin: https://other.example\r\n\r\n")
        #expect(try await client.response().status == 400)
        #expect(try await client.end() == [])
      }
    }
  }

  @Test func `requests behind a stream wait as bytes, which are charged`() async throws {
    try await withGateway { server in
      let memory = server.parts.operations.memory
      try await server.connect { client in
        try await client.send(Self.streamHead + "\r\n")
        _ = try await client.head()
        #expect(try await client.event().hasPrefix("put "))
        let before = memory.used
        let request = "GET /x HTTP/1.1\r\nHost: x\r\n\r\n"
        try await client.send(String(repeating: request, count: 15_000 / request.utf8.count))
        try await eventually { memory.used >= before + 14_000 }
        // Further events are sent.
        try await server.connect { other in
          _ = try await other.request("PUT", "/open/a.json", [:], "1")
        }
        #expect(try await client.event() == #"put {"path":"/","data":1}"#)
        // The client sends no more, so the stream ends, and the requests behind it are answered.
        client.finish()
        await #expect(throws: (any Error).self) { try await client.event() }
        let rest = String(decoding: try await client.end(), as: UTF8.self)
        #expect(rest.components("HTTP/1.1 404") == 15_000 / request.utf8.count)
      }
      try await eventually { memory.used == 0 }
    }
  }

  @Test func `the body of a request for a stream is charged`() async throws {
    try await withGateway { server in
      let memory = server.parts.operations.memory
      try await server.connect { client in
        try await client.send(Self.streamHead + "Content-Length: 1000000\r\n\r\n")
        _ = try await client.head()
        #expect(try await client.event().hasPrefix("put "))
        let before = memory.used
        try await client.send(String(repeating: "x", count: 50_000))
        try await eventually { memory.used >= before + 50_000 - MemoryBudget.reportBytes }
      }
      try await eventually { memory.used == 0 }
    }
  }

  @Test func `chunks of a byte are joined`() async throws {
    try await withGateway { server in
      try await server.connect { client in
        let text = "\"" + String(repeating: "abc", count: 10_000) + "\""
        let chunks = text.map { "1\r\n\($0)\r\n" }.joined()
        try await client.send(
          "PUT /open/a.json HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n\(chunks)0\r\n\r\n"
        )
        #expect(try await client.response().text == text)
      }
    }
  }

  @Test func `a client of HTTP 1_0 gets no chunks, and the connection ends`() async throws {
    let text = String(repeating: "x", count: 200_000)
    try await withGateway { server in
      try await server.connect { client in
        let written = try await client.request("PUT", "/open.json?print=silent", [:], "\"\(text)\"")
        #expect(written.status == 204, "\(written)")
      }
      for fields in ["", "Connection: keep-alive\r\n"] {
        try await server.connect { client in
          try await client.send("GET /open.json HTTP/1.0\r\n\(fields)\r\n")
          let response = String(decoding: try await client.end(), as: UTF8.self)
          #expect(response.hasPrefix("HTTP/1.0 200 "))
          #expect(!response.contains("ransfer-"))
          #expect(response.hasSuffix("\r\n\r\n\"\(text)\""))
        }
      }
      try await server.connect { client in
        try await client.send("GET /health HTTP/1.0\r\n\r\n")
        #expect(try await client.response().fields["connection"] == "close")
        #expect(try await client.end() == [])
      }
    }
  }

  @Test func `a client of HTTP 1_0 may keep the connection`() async throws {
    try await withGateway { server in
      try await server.connect { client in
        for _ in 0..<3 {
          try await client.send("GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
          #expect(try await client.response().fields["connection"] == "keep-alive")
        }
      }
    }
  }

  @Test func `pages do not see the metrics unless they have the administrator's credential`()
    async throws
  {
    try await withGateway { server in
      try await server.connect { client in
        try await client.expect("GET", "/metrics", status: 200)
        let origin = ["Origin": "https://evil.example"]
        try await client.expect("GET", "/metrics", origin, status: 401)
        let fields = origin.merging(server.administrator) { $1 }
        let response = try await client.request("GET", "/metrics", fields)
        #expect(response.status == 200, "\(response)")
        #expect(response.fields["access-control-allow-origin"] == nil, "\(response)")
      }
    }
  }
}

extension String {
  /// Returns the number of times that a text occurs.
  fileprivate func components(_ text: String) -> Int {
    Array(utf8).ranges(of: Array(text.utf8)).count
  }
}
