import CanopyEngine
import CanopySession
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyLineServer

/// The effects of a revoked session on work that is under way.
@Suite(.timeLimit(.minutes(20))) struct RevocationTests {
  @Test(arguments: Depth.allCases)
  func `LOGOUT is answered after the listeners of the token on other connections are cancelled`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      try await server.set(rules: #"{"rules":{"mine":{"$uid":{".read":"auth.uid === $uid"}}}}"#)
      let owner = try await server.connect()
      let session = try await owner.value(TestServer.signUp("ada"))
      let uid = try #require(session["uid"]?.string)
      let token = try #require(session["token"]?.string)
      let other = try await server.connect()
      try await other.value("AUTH \(token)")
      _ = try await other.begin("LISTEN /mine/\(uid)")
      #expect(server.parts.engine.authorizationCounts.authorizations == 1)
      try await owner.expect("LOGOUT", "+null")
      #expect(server.parts.engine.authorizationCounts.authorizations == 0)
    }
  }

  @Test(arguments: Depth.allCases)
  func `a waiting request of the blog is refused if its session is revoked meanwhile`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let owner = try await server.connect()
      let session = try await owner.value(TestServer.signUp("ada"))
      let token = try #require(session["token"]?.string)
      let (other, third) = (try await server.connect(), try await server.connect())
      for client in [other, third] { try await client.value("AUTH \(token)") }
      let bystander = try await server.connect(as: "eve")
      // The engine waits for the disk, so the next request waits as well.
      server.parts.journal.gate.hold()
      try await bystander.send("POST one text\n")
      await server.parts.journal.gate.reached()
      try await other.send("POST two text\nPING\n")
      try await owner.send("LOGOUT\n")
      try await server.eventually { try await third.request("WHOAMI") == "+null" }
      server.parts.journal.gate.open()
      try await other.expectNext(to: "POST two text", failsWith: "UNAUTHENTICATED")
      try await owner.expectNext(to: "LOGOUT", "+null")
      #expect(server.root.at(try Path("/posts")).childCount == 1)
    }
  }

  @Test(arguments: Depth.allCases)
  func `a long line keeps its place among other requests`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let administrator = try await server.connectAsAdministrator()
      let text = String(repeating: "x", count: Operations.longTextBytes)
      let lines = ["SET /a 1", "SET /a \"\(text)\"", "GET /b", "SET /a {", "SET /b 2", "GET /b"]
      let long = "SET /b {\"c\": \"\(text)\" \"d\"}"
      try await administrator.send((lines + [long, "GET /a", "PING"]).map { $0 + "\n" }.joined())
      for line in lines[..<2] { try await administrator.expectNext(to: line, hasPrefix: "+{") }
      try await administrator.expectNext(to: lines[2], "+null")
      try await administrator.expectNext(to: lines[3], hasPrefix: "-")
      try await administrator.expectNext(to: lines[4], hasPrefix: "+{")
      try await administrator.expectNext(to: lines[5], "+2")
      // A long line that is invalid.
      try await administrator.expectNext(to: long, hasPrefix: "-")
      try await administrator.expectNext(to: "GET /a", "+\"\(text)\"")
      try await administrator.expectNext(to: "PING", "+\"PONG\"")
    }
  }
}
