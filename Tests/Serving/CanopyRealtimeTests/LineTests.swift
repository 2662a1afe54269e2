import CanopyEngine
import CanopySession
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyRealtime

/// The line protocol over a WebSocket.
@Suite(.timeLimit(.minutes(20))) struct LineTests {
  @Test(arguments: Depth.allCases)
  func `a message is a line, and a line of the server is a message`(_ depth: Depth) async throws {
    try await withRealtime(depth) { server in
      let client = try await server.connectForLines()
      try await client.send("PING")
      try await client.expect("+\"PONG\"")
      try await client.send("LISTEN /a {\"events\":\"sync\"}")
      let reply = try await client.next()
      #expect(reply.hasPrefix(#"+{"sub":1,"seq":"#))
      try await client.expect(#">{"sub":1,"event":"put","path":"/","data":null,"seq":0}"#)
      try await client.send("SET /a \"\\r\\n\"")
      let event = try await client.next()
      #expect(event.hasPrefix(#">{"sub":1,"event":"put","path":"/","data":"\r\n","#))
      expectReply(try await client.next(), to: "SET /a \"\\r\\n\"", hasPrefix: "+{\"seq\":")
      try await client.send(bytes: ClientFrame.bytes(0x89, Array("x".utf8)))
      try await client.expect("(pong x)")
      try await client.send("QUIT")
      try await client.expect("+\"BYE\"")
      try await client.expect("(close 1000)")
      try await client.expectClosed()
    }
  }

  @Test(arguments: Depth.allCases)
  func `a long line is one message`(_ depth: Depth) async throws {
    try await withRealtime(depth) { server in
      let client = try await server.connectForLines()
      for count in [1000, 70_000, 800_000] {
        let text = String(repeating: "é", count: count / 2)
        try await client.send(bytes: ClientFrame.bytes(0x81, Array("SET /a \"\(text)\"".utf8)))
        let reply = try await client.next()
        expectReply(reply, to: "SET /a \"\(text)\"", hasPrefix: "+{\"seq\":")
        try await client.send("GET /a")
        try await client.send("PING")
        expectReply(try await client.next(), to: "GET /a", "+\"\(text)\"")
        try await client.expect("+\"PONG\"")
      }
    }
  }

  @Test(arguments: Depth.allCases)
  func `a message with two lines ends the connection`(_ depth: Depth) async throws {
    try await withRealtime(depth) { server in
      let client = try await server.connectForLines()
      try await client.send("PING")
      try await client.expect("+\"PONG\"")
      try await client.send("PING\nPING")
      try await client.expect("(close 1002)")
      try await client.expectClosed()
    }
  }

  @Test(arguments: Depth.allCases)
  func `requests before the end of the client are answered, and its on-disconnect writes are made`(
    _ depth: Depth
  ) async throws {
    try await withRealtime(depth) { server in
      let client = try await server.connectForLines()
      try await client.send("ONDISCONNECT SET /gone true")
      try await client.send("SET /a 1")
      try await client.send(bytes: ClientFrame.bytes(0x88, []))
      try await client.expect("+null")
      expectReply(try await client.next(), to: "SET /a 1", hasPrefix: "+{\"seq\":")
      try await client.expect("(close 1000)")
      let engine = server.parts.engine
      let gone = try Path("gone")
      try await eventually { engine.root.at(gone) == true }
    }
  }

  @Test func `for a client on this machine no name of the Internet is the server's own`()
    async throws
  {
    var configuration = RealtimeConnections.Configuration()
    configuration.allowedOrigins = ["https://page.example"]
    let connections = RealtimeConnections(
      try await LineParts().operations, configuration: configuration)
    for host in [
      "localhost:9000", "LOCALHOST", "app.localhost:9000", "127.0.0.1:9000", "127.0.0.2",
      "[::1]:9000",
      "machine:9000",
    ] {
      #expect(
        connections.mayOpenLine(origin: "http://\(host)", host: host, from: "127.0.0.1"), "\(host)")
    }
    // The name of a page that resolves to this machine.
    for host in ["evil.example:9000", "localhost.evil.example", "127.0.0.1.evil.example", "a.b."] {
      #expect(
        !connections.mayOpenLine(origin: "http://\(host)", host: host, from: "127.0.0.1"), "\(host)"
      )
      // A program has no origin.
      #expect(connections.mayOpenLine(origin: nil, host: host, from: "127.0.0.1"))
      // A client on another machine may know the server by this name.
      #expect(
        connections.mayOpenLine(origin: "http://\(host)", host: host, from: "192.0.2.1"), "\(host)")
    }
    #expect(
      connections.mayOpenLine(origin: "https://page.example", host: "page.example", from: "::1"))
  }

  @Test func `a web page needs its own origin or one that is allowed`() async throws {
    try await withRealtime(.socket) { server in
      let connections = server.connections
      let remote = "192.0.2.1"
      #expect(connections.mayOpenLine(origin: nil, host: nil, from: remote))
      #expect(connections.mayOpenLine(origin: nil, host: "a:1", from: remote))
      #expect(connections.mayOpenLine(origin: "http://a:1", host: "a:1", from: remote))
      #expect(connections.mayOpenLine(origin: "https://A", host: "a", from: remote))
      #expect(connections.mayOpenLine(origin: "https://page.example", host: "a", from: remote))
      for origin in [
        "", "null", "a:1", "http://b", "http://a:2", "http://a:1/x", "https://page.example:1",
        "file://", "://",
      ] {
        #expect(!connections.mayOpenLine(origin: origin, host: "a:1", from: remote))
      }
      #expect(!connections.mayOpenLine(origin: "http://a", host: nil, from: remote))
      #expect(
        connections.mayOpenLine(
          origin: "http://evil.example:9", host: "evil.example:9", from: remote))
      let stranger = try await server.connectForLines(fields: "Origin: https://evil.example\r\n")
      try await stranger.expect("(HTTP/1.1 403 Forbidden)")
      let friend = try await server.connectForLines(fields: "Origin: https://page.example\r\n")
      try await friend.send("PING")
      try await friend.expect("+\"PONG\"")
    }
  }
}
