import CanopyAccounts
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyLineServer
@testable import CanopySession

/// Clients that disconnect while a request is under way, and sessions that end meanwhile.
@Suite(.timeLimit(.minutes(20))) struct DisconnectTests {
  private func expectNothingLeft(_ server: TestServer) async throws {
    try await server.eventually { server.parts.operations.sessions.count == 0 }
    let client = try await server.connectAsAdministrator()
    try await client.expect("SET /alive 1", hasPrefix: "+{\"seq\":")
    #expect(!server.parts.log.lines.contains { $0.hasPrefix("error") })
  }

  @Test(arguments: Depth.allCases)
  func `a disconnection while a password is hashed leaves no login`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let first = try await server.connect(as: "ada")
      await first.disconnect()
      for line in ["LOGIN ada@example.org \"secret words of ada\"", TestServer.signUp("eve")] {
        let client = try await server.connect()
        server.parts.hash.hold()
        try await client.send(line + "\nPOST a b\n")
        try await server.eventually { server.parts.hash.running == 1 }
        await client.disconnect()
        server.parts.hash.release()
        try await server.eventually { server.parts.hash.running == 0 }
        try await expectNothingLeft(server)
      }
    }
  }

  @Test(arguments: Depth.allCases)
  func `a disconnection while a login waits for other hashes removes it from the queue`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) {
      $0.hashersMax = 1
    } _: { server in
      let first = try await server.connect()
      server.parts.hash.hold()
      try await first.send(TestServer.signUp("ada") + "\n")
      try await server.eventually { server.parts.hash.running == 1 }
      for name in ["bob", "eve"] {
        let client = try await server.connect()
        try await client.send(TestServer.signUp(name) + "\n")
        try await server.eventually { server.parts.hashesWaiting == 1 }
        await client.disconnect()
        try await server.eventually { server.parts.hashesWaiting == 0 }
      }
      server.parts.hash.release()
      try await first.expectNext(to: TestServer.signUp("ada"), hasPrefix: "+{\"uid\":")
      await first.disconnect()
      #expect(await server.parts.accountStore.all.count == 1)
      try await expectNothingLeft(server)
    }
  }

  @Test(arguments: Depth.allCases)
  func `a write that was received is made even if its client disconnects`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let client = try await server.connectAsAdministrator()
      server.parts.journal.gate.hold()
      try await client.send("SET /a 1\nSET /b 2\nGET /a\n")
      await server.parts.journal.gate.reached()
      await client.disconnect()
      server.parts.journal.gate.open()
      let other = try await server.connectAsAdministrator()
      try await server.eventually { server.parts.journal.count >= 1 }
      try await other.value("SET /c 3")
      try await other.expect("GET /a", "+1")
      try await expectNothingLeft(server)
    }
  }

  @Test(arguments: Depth.allCases)
  func `a received write is authorized for its user even if its client disconnects`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let text = "{\"rules\":{\"$any\":{\".write\":\"auth != null\"}}}"
      _ = try await server.parts.rules.replace(by: text, in: server.parts.engine)
      let (ada, other) = (try await server.connect(as: "ada"), try await server.connect(as: "eve"))
      // The engine is busy with another write, so this one is authorized after the disconnection.
      server.parts.journal.gate.hold()
      try await other.send("SET /x 1\n")
      await server.parts.journal.gate.reached()
      try await ada.send("PING\nSET /a 1\n")
      try await ada.expectNext(to: "PING", "+\"PONG\"")
      await ada.disconnect()
      try await server.eventually { server.parts.operations.sessions.count == 1 }
      server.parts.journal.gate.open()
      try await server.eventually { server.root.at(try Path("/a")) == 1 }
    }
  }

  @Test(arguments: Depth.allCases)
  func `a sign-up is finished even if its client disconnects while the profile is stored`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let client = try await server.connect()
      server.parts.journal.gate.hold()
      try await client.send(TestServer.signUp("ada") + "\n")
      await server.parts.journal.gate.reached()
      await client.disconnect()
      server.parts.journal.gate.open()
      try await server.eventually { await server.parts.accountStore.all.first?.isPending == false }
      try await expectNothingLeft(server)
      let again = try await server.connect()
      try await again.value("LOGIN ada@example.org \"secret words of ada\"")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a disconnection drops an unfinished line`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      for _ in 0..<20 {
        let client = try await server.connect()
        try await client.send("SET /a ")
        await client.disconnect()
      }
      try await expectNothingLeft(server)
      #expect(server.root.at(try Path("/a")).isAbsent)
    }
  }

  @Test(arguments: Depth.allCases)
  func `a token that is revoked during its login does not log in`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let (first, second) = (try await server.connect(), try await server.connect())
      let token = try await first.text("token", TestServer.signUp("ada"))
      // The store has found the token, and its answer has not arrived yet.
      server.parts.accountStore.tokenGate.hold(1)
      try await second.send("AUTH \(token)\n")
      await server.parts.accountStore.tokenGate.reached()
      try await first.expect("LOGOUT", "+null")
      server.parts.accountStore.tokenGate.open()
      try await second.expectNext(to: "AUTH \(token)", failsWith: "UNAUTHENTICATED")
      try await second.expect("WHOAMI", "+null")
      try await second.expect("POST a b", failsWith: "UNAUTHENTICATED")
      #expect(server.parts.operations.sessions.count == 0)
    }
  }

  @Test(arguments: Depth.allCases)
  func `an old token does not log in while the password is being changed`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let (first, second) = (try await server.connect(), try await server.connect())
      let token = try await first.text("token", TestServer.signUp("ada"))
      server.parts.accountStore.tokenGate.hold(1)
      try await second.send("AUTH \(token)\n")
      await server.parts.accountStore.tokenGate.reached()
      try await first.value("PASSWORD \"secret words of ada\" \"other words of ada\"")
      server.parts.accountStore.tokenGate.open()
      try await second.expectNext(to: "AUTH \(token)", failsWith: "UNAUTHENTICATED")
      try await first.expect("WHOAMI", hasPrefix: "+{")
      #expect(server.parts.operations.sessions.count == 1)
    }
  }
}
