import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyLineServer

/// Clients of other protocols, such as a browser that sends a request for a web page.
@Suite(.timeLimit(.minutes(20))) struct ForeignClientTests {
  private static let refusal =
    "-BAD_REQUEST this port speaks lines, not HTTP; the connection closes"

  /// The request of a browser for a form of another site. The page chooses the body.
  private static func browserRequest(_ body: String) -> String {
    "POST / HTTP/1.1\r\nHost: 127.0.0.1:7070\r\nOrigin: http://evil.example\r\n"
      + "Content-Type: text/plain\r\nContent-Length: \(body.utf8.count)\r\n\r\n" + body
  }

  @Test(arguments: Depth.allCases)
  func `a cross-site request of a browser executes nothing`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let client = try await server.connect()
      let body = TestServer.signUp("eve") + "\r\nPOST spam spam\r\nPING\r\n"
      try await client.send(Self.browserRequest(body))
      #expect(try await client.readToEnd() == [Self.refusal])
      let next = try await server.connect()
      try await next.expect("RECENT", "+[]")
      #expect(await server.parts.accountStore.all.isEmpty)
      #expect(server.parts.journal.count == 0)
    }
  }

  @Test(arguments: Depth.allCases)
  func `it executes nothing, in pieces of any size and in the middle of a session`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let client = try await server.connectAsAdministrator()
      for byte in Self.browserRequest("SET /a 1\n").utf8 {
        // A client cannot send after the server has closed.
        do { try await client.send([byte]) } catch { break }
      }
      #expect(try await client.readToEnd() == [Self.refusal])
      #expect(server.root.isAbsent)

      // Earlier requests are carried out and answered in order.
      let other = try await server.connectAsAdministrator()
      try await other.send("SET /a 1\nhost: x\nSET /a 2\nPING\n")
      let replies = try await other.readToEnd()
      try #require(replies.count == 2, "\(replies)")
      expectReply(replies[0], to: "SET /a 1", hasPrefix: "+{\"seq\":")
      expectReply(replies[1], to: "host: x", Self.refusal)
      #expect(server.root.at(try Path("/a")) == 1)
    }
  }

  @Test(arguments: Depth.allCases)
  func `a TLS handshake gets an error and executes nothing`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let client = try await server.connectAsAdministrator()
      try await client.send([0x16, 0x03, 0x01, 0x02, 0x00, 0x0A] + Array("SET /a 1\n".utf8))
      #expect(
        try await client.readToEnd()
          == ["-BAD_REQUEST this port speaks lines without TLS; the connection closes"])
      #expect(server.root.isAbsent)
    }
  }

  @Test(arguments: Depth.allCases)
  func `a post about HTTP is a post`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let ada = try await server.connect(as: "ada")
      for line in ["POST Protocols HTTP/1.1", "POST / \"HTTP/1.1\"", "POST GET \"GET / HTTP/1.1\""]
      {
        try await ada.value(line)
      }
    }
  }
}
