import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyLineServer
@testable import CanopySession

/// The shutdown of a server, and the bound on its connections.
@Suite(.timeLimit(.minutes(20))) struct ShutdownTests {
  @Test(arguments: Depth.allCases)
  func `received requests are answered, then connections close and new ones are refused`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let client = try await server.connectAsAdministrator()
      let idle = try await server.connect()
      server.parts.journal.gate.hold()
      try await client.send("SET /a 1\nSET /b 2\nGET /a\nSET /c")
      await server.parts.journal.gate.reached()
      async let end: Void = server.shutDown()
      try await idle.expectClosed()
      await #expect(throws: (any Error).self) { _ = try await server.connect() }
      #expect(client.mailbox.count == 0)
      server.parts.journal.gate.open()
      #expect(try await client.readToEnd() == ["+{\"seq\":1}", "+{\"seq\":2}", "+1"])
      try await end
      #expect(server.parts.journal.count == 2)
      #expect(server.parts.operations.sessions.count == 0)
    }
  }

  @Test(arguments: Depth.allCases)
  func `a login that is being hashed is answered`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let client = try await server.connect()
      server.parts.hash.hold()
      try await client.send(TestServer.signUp("ada") + "\nPOST title body\n")
      try await server.eventually { server.parts.hash.running == 1 }
      let idle = try await server.connect()
      async let end: Void = server.shutDown()
      try await idle.expectClosed()
      server.parts.hash.release()
      let replies = try await client.readToEnd()
      try #require(replies.count == 2, "\(replies)")
      expectReply(replies[1], to: "POST title body", hasPrefix: "+{\"id\":")
      try await end
    }
  }

  @Test func `requests that arrive after the shutdown has begun are not carried out`() async throws
  {
    try await withServer(.inProcess) { server in
      let client = try await server.connectAsAdministrator()
      let idle = try await server.connect()
      server.parts.journal.gate.hold()
      try await client.send("SET /a 1\n")
      await server.parts.journal.gate.reached()
      async let end: Void = server.shutDown()
      // This connection is notified last.
      try await idle.expectClosed()
      try await client.send("SET /b 2\nPING\n")
      server.parts.journal.gate.open()
      #expect(try await client.readToEnd() == ["+{\"seq\":1}"])
      try await end
      #expect(server.parts.journal.count == 1)
    }
  }

  @Test func `a client that does not read is cut off after the shutdown time`() async throws {
    try await withServer(.socket) {
      $0.shutdownSeconds = 1
      $0.receiveBytes = 8_192
    } _: { server in
      let ada = try await server.connect(as: "ada")
      let body = String(repeating: "x", count: 60_000)
      let id = try await ada.text("id", "POST title \(body)")
      let client = try await server.connect()
      try await client.pauseReading()
      try await client.send(String(repeating: "SHOW \(id)\n", count: 500))
      try await ada.expect("PING", "+\"PONG\"")
      try await server.shutDown()
      try await ada.expectClosed()
      try await client.resumeReading()
      let replies = try await client.readToEnd()
      #expect(replies.count < 500)
    }
  }

  @Test func `shutting down does not wait for a client that keeps its side open`() async throws {
    try await withServer(.socket) {
      $0.shutdownSeconds = 3_600
    } _: { server in
      let client = try await LineSocketClient(port: server.port, staysOpen: true)
      let other = try await LineSocketClient(port: server.port, staysOpen: true)
      try await client.expect("PING", "+\"PONG\"")
      try await other.expect("QUIT", "+\"BYE\"")
      try await other.expectClosed()
      try await server.shutDown()
      try await client.expectClosed()
      await client.disconnect()
      await other.disconnect()
    }
  }

  @Test func `a cancelled server ends like one that is shut down`() async throws {
    try await withServer(.socket) { server in
      let client = try await server.connectAsAdministrator()
      server.parts.journal.gate.hold()
      try await client.send("SET /a 1\n")
      await server.parts.journal.gate.reached()
      let cancel = try #require(server.cancel)
      async let end: Void = cancel()
      server.parts.journal.gate.open()
      #expect(try await client.readToEnd() == ["+{\"seq\":1}"])
      try await end
    }
  }

  @Test func `a connection beyond the bound gets an error and closes, until others have closed`()
    async throws
  {
    try await withServer(.socket) {
      $0.limits.connectionsMax = 3
    } _: { server in
      let clients = [
        try await server.connect(), try await server.connect(), try await server.connect(),
      ]
      for client in clients { try await client.expect("PING", "+\"PONG\"") }
      for _ in 0..<20 {
        let client = try await server.connect()
        try await client.expectNext(to: "a connection", failsWith: "OVERLOADED")
        try await client.expectClosed()
      }
      try await clients[0].expect("QUIT", "+\"BYE\"")
      try await clients[0].expectClosed()
      try await server.eventually {
        let client = try await server.connect()
        // A connection that is refused may be closed before it sends.
        return (try? await client.request("PING")) == "+\"PONG\""
      }
      try await clients[1].expect("PING", "+\"PONG\"")
    }
  }

  @Test func `a port that is in use is an error`() async throws {
    try await withServer(.socket) { server in
      var configuration = LineServer.Configuration()
      configuration.port = server.port
      let second = LineServer(
        server.parts.operations, configuration: configuration, logger: server.parts.log.logger
      ) { _, _ in Issue.record("two servers are ready on one port") }
      await #expect(throws: (any Error).self) { try await second.run() }
    }
  }
}
