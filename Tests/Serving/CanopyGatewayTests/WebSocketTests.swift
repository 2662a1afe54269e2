import CanopyEngine
import CanopyEvents
import CanopySession
import CanopyTesting
import CanopyTree
import CanopyWire
import NIOCore
import NIOEmbedded
import NIOExtras
import NIOHTTP1
import Testing

@testable import CanopyGateway

/// WebSockets on the HTTP port.
@Suite(.timeLimit(.minutes(20))) struct WebSocketTests {
  private static func request(_ number: Int, _ action: String, _ body: String) -> String {
    #"{"t":"d","d":{"r":\#(number),"a":"\#(action)","b":\#(body)}}"#
  }

  @Test func `REST, the realtime protocol and the line protocol share one port and one tree`()
    async throws
  {
    try await withGateway { server in
      try await server.connect { client in
        let put = try await client.request("PUT", "/open/a.json", [:], "0")
        #expect(put.status == 200, "\(put)")
      }
      try await server.connect { socket in
        #expect(try await socket.upgrade("/.ws?v=5&ns=default") == 101)
        #expect(try await socket.message().contains(#""h":"localhost""#))
        try await socket.send(message: Self.request(1, "q", #"{"p":"/open/a","h":""}"#))
        #expect(try await socket.message().contains(#""d":0"#))
        #expect(try await socket.message().contains(#""r":1,"b":{"s":"ok""#))
        try await server.connect { client in
          let put = try await client.request("PUT", "/open/a.json", [:], "1")
          #expect(put.status == 200, "\(put)")
          #expect(try await socket.message().contains(#""d":1"#))
          try await server.connect { line in
            #expect(try await line.upgrade("/line") == 101)
            try await line.expect(line: "SET /open/a 2", hasPrefix: "+{\"seq\":")
            #expect(try await socket.message().contains(#""d":2"#))
            try await client.expect("GET", "/open/a.json", text: "2")
            #expect(server.gate.count == 3)
          }
        }
      }
      try await eventually { server.gate.count == 0 }
    }
  }

  @Test func `a client that connects again with ls ends its earlier connection first`()
    async throws
  {
    try await withGateway { server in
      try await server.connect { earlier in
        #expect(try await earlier.upgrade("/.ws?v=5") == 101)
        let first = try JSONValue(json: try await earlier.message())
        let id = try #require(first["d"]?["d"]?["s"]?.string)
        try await earlier.send(message: Self.request(1, "o", #"{"p":"/open/state","d":"gone"}"#))
        #expect(try await earlier.message().contains(#""r":1,"b":{"s":"ok""#))
        try await server.connect { client in
          #expect(try await client.upgrade("/.ws?v=5&ls=\(id)") == 101)
          #expect(try await client.message().contains(#""t":"h""#))
          try await client.send(message: Self.request(1, "p", #"{"p":"/open/state","d":"here"}"#))
          #expect(try await client.message().contains(#""r":1,"b":{"s":"ok""#))
          #expect(server.parts.engine.snapshot.sequence == 2)
          try await server.connect { reader in
            let state = try await reader.request("GET", "/open/state.json")
            #expect(state.text == "\"here\"", "\(state)")
          }
        }
        #expect(try await earlier.end().isEmpty)
      }
    }
  }

  @Test(arguments: ["127.0.0.1", "0.0.0.0"])
  func `a page of another origin uses the line protocol only if it is allowed`(host: String)
    async throws
  {
    try await withGateway {
      $0.host = host
      $0.allowedOrigins = ["https://friend.example"]
    } _: { server in
      // The name of a page that resolves to this machine.
      try await server.connect { client in
        let fields = ["Origin": "http://evil.example", "Host": "evil.example"]
        let found = try await client.upgrade("/line", fields)
        #expect(found == 403)
      }
      for (origin, status) in [
        ("https://friend.example", 101), ("http://localhost", 101), ("https://evil.example", 403),
        ("null", 403),
      ] {
        try await server.connect { client in
          let found = try await client.upgrade("/line", ["Origin": origin])
          #expect(found == status, "\(origin)")
        }
        // The realtime protocol needs a token that only the page can have.
        try await server.connect { client in
          let found = try await client.upgrade("/.ws?v=5", ["Origin": origin])
          #expect(found == 101)
        }
      }
    }
  }

  @Test func `a request that cannot become a WebSocket is answered, and the connection ends`()
    async throws
  {
    try await withGateway { server in
      try await server.connect { client in
        let polling = try await client.request("GET", "/.lp?start=t&ser=1")
        #expect(
          polling.status == 400 && polling.json?["error"]?.string?.contains("/.ws") == true,
          "\(polling)")
        for target in ["/.ws?v=5", "/line"] {
          let plain = try await client.request("GET", target)
          #expect(plain.status == 426 && plain.fields["upgrade"] == "websocket", "\(plain)")
        }
        // Only the first request can upgrade its connection.
        try await client.begin(
          "GET", "/.ws",
          [
            "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
          ])
        let late = try await client.response()
        #expect(late.status == 426 && late.fields["connection"] == "close", "\(late)")
        #expect(try await client.end().isEmpty)
      }
      // Only a GET without a body upgrades.
      for (method, body) in [("POST", ""), ("PUT", ""), ("GET", String(repeating: "x", count: 40))]
      {
        for target in ["/.ws?v=5", "/line"] {
          try await server.connect { client in
            let upgrade = [
              "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
              "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
            ]
            let answer = try await client.request(method, target, upgrade, body)
            #expect((400..<500).contains(answer.status), "\(method) \(target)")
          }
        }
      }
      // Without a key there is no upgrade.
      try await server.connect { client in
        try await client.begin("GET", "/.ws", ["Connection": "Upgrade", "Upgrade": "websocket"])
        #expect(try await client.response().status == 426)
      }
      try await server.connect { client in
        try await client.begin("GET", "/open.json", ["Connection": "Upgrade", "Upgrade": "h2c"])
        #expect(try await client.response().status == 200)
      }
    }
  }

  @Test func `a client that sends no more gets its answers, and its connection ends at once`()
    async throws
  {
    let upgrade =
      "Host: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
      + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    let request = Self.request(1, "s", #"{"c":{}}"#)
    // The mask of zeros leaves the text as it is.
    let frame = [0x81, 0x80 | UInt8(request.utf8.count), 0, 0, 0, 0] + Array(request.utf8)
    let line: [UInt8] = [0x81, 0x84, 0, 0, 0, 0] + Array("PING".utf8)
    try await withGateway { server in
      for (bytes, answer) in [
        (Array("GET /.ws?v=5 HTTP/1.1\r\n\(upgrade)".utf8) + frame, #""r":1,"b":{"s":"ok""#),
        (Array("GET /line HTTP/1.1\r\n\(upgrade)".utf8) + line, "+\"PONG\""),
        (Array("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n".utf8), "\"ok\""),
        (Array("GET /health HTTP".utf8), "400 Bad Request"), ([], ""),
      ] {
        try await server.connect { client in
          // The end comes together with the request.
          if !bytes.isEmpty { try await client.send(bytes) }
          client.finish()
          let end = String(decoding: try await client.end(), as: UTF8.self)
          #expect(answer.isEmpty || end.contains(answer), "\(end)")
        }
      }
      try await eventually { server.gate.count == 0 }
    }
  }

  @Test
  func `a request for a WebSocket behind another request is refused, and ends the connection`()
    async throws
  {
    try await withGateway { server in
      try await server.connect { client in
        try await client.send(
          "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /.ws?v=5 HTTP/1.1\r\nHost: localhost\r\n"
            + "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            + "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\nGET /health HTTP/1.1\r\nHost: x\r\n\r\n"
        )
        #expect(try await client.response().status == 200)
        #expect(try await client.response().status == 426)
        #expect(try await client.end() == [])
      }
    }
  }

  @Test func `WebSockets count for the bound on connections`() async throws {
    var limits = Limits()
    limits.connectionsMax = 1
    try await withGateway(limits: limits) { server in
      try await server.connect { socket in
        #expect(try await socket.upgrade("/.ws?v=5") == 101)
        try await server.connect { other in
          let end = String(decoding: try await other.end(), as: UTF8.self)
          #expect(end.hasPrefix("HTTP/1.1 503 "))
        }
      }
    }
  }

  @Test func `a shutdown answers the requests of a WebSocket, and then closes it`() async throws {
    try await withGateway { server in
      try await server.connect { socket in
        #expect(try await socket.upgrade("/.ws?v=5") == 101)
        _ = try await socket.message()
        let gate = server.parts.journal.holdNextAppend()
        try await socket.send(message: Self.request(1, "p", #"{"p":"/open/a","d":1}"#))
        await gate.reached()
        await server.shutDown()
        gate.open()
        #expect(try await socket.message().contains(#""r":1,"b":{"s":"ok""#))
        _ = try await socket.end()
      }
    }
  }

  @Test func `a client without a whole first request is cut off in time, and at a shutdown`() throws
  {
    func connect() throws -> (EmbeddedChannel, EventLoopFuture<GatewayChannel.HTTP?>) {
      let channel = EmbeddedChannel()
      let http = channel.eventLoop.makePromise(of: GatewayChannel.HTTP?.self)
      let first = FirstRequest(
        http, seconds: 60, end: HeldInputEnd(), encoder: HTTPResponseEncoder()
      ) { nil }
      try channel.pipeline.syncOperations.addHandler(first)
      try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
      return (channel, http.futureResult)
    }
    let (channel, http) = try connect()
    channel.embeddedEventLoop.advanceTime(by: .seconds(59))
    #expect(channel.isActive)
    channel.embeddedEventLoop.advanceTime(by: .seconds(1))
    #expect(!channel.isActive)
    #expect(throws: ChannelError.eof) { try http.wait() }

    let (other, _) = try connect()
    other.pipeline.fireUserInboundEventTriggered(ChannelShouldQuiesceEvent())
    #expect(!other.isActive)
  }
}
