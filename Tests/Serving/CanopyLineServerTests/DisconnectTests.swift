import CanopyAccounts
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyLineServer
@testable import CanopySession

/// Clients that go in the middle of something, and logins that end in the middle of something.
@Suite(.timeLimit(.minutes(5))) struct DisconnectTests {
  private func expectNothingLeft(_ server: TestServer) async throws {
    try await server.eventually { server.parts.operations.sessions.count == 0 }
    let client = try await server.connectAsAdministrator()
    #expect(try await client.request("SET /alive 1").hasPrefix("+{\"seq\":"))
    #expect(!server.parts.log.lines.contains { $0.hasPrefix("error") })
  }

  @Test(arguments: Depth.allCases)
  func `going while a login is hashed leaves nobody logged in`(_ depth: Depth) async throws {
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
  func `going while a login waits for others' hashes takes it out of the line`(
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
      #expect(try await first.readLine().hasPrefix("+{\"uid\":"))
      await first.disconnect()
      #expect(await server.parts.accountStore.all.count == 1)
      try await expectNothingLeft(server)
    }
  }

  @Test(arguments: Depth.allCases)
  func `a write that was received is made, though its client has gone`(
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
      #expect(try await other.request("GET /a") == "+1")
      try await expectNothingLeft(server)
    }
  }

  @Test(arguments: Depth.allCases)
  func `a write of a user that was received is judged as that user's, though its client has gone`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let text = "{\"rules\":{\"$any\":{\".write\":\"auth != null\"}}}"
      _ = try await server.parts.rules.replace(by: text, in: server.parts.engine)
      let (ada, other) = (try await server.connect(as: "ada"), try await server.connect(as: "eve"))
      // The writer is busy with another write, so this one is judged after its client has gone.
      server.parts.journal.gate.hold()
      try await other.send("SET /x 1\n")
      await server.parts.journal.gate.reached()
      try await ada.send("PING\nSET /a 1\n")
      #expect(try await ada.readLine() == "+\"PONG\"")
      await ada.disconnect()
      try await server.eventually { server.parts.operations.sessions.count == 1 }
      server.parts.journal.gate.open()
      try await server.eventually { server.root.at(try Path("/a")) == 1 }
    }
  }

  @Test(arguments: Depth.allCases)
  func `a sign-up whose profile is being stored is finished, though its client has gone`(
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
  func `half a line is forgotten with its connection`(_ depth: Depth) async throws {
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
  func `a token that is revoked while it logs in somewhere opens nothing there`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let (first, second) = (try await server.connect(), try await server.connect())
      let token = try await first.text("token", TestServer.signUp("ada"))
      // The look-up has found the token, and its answer is on the way.
      server.parts.accountStore.tokenGate.hold(1)
      try await second.send("AUTH \(token)\n")
      await server.parts.accountStore.tokenGate.reached()
      #expect(try await first.request("LOGOUT") == "+null")
      server.parts.accountStore.tokenGate.open()
      #expect(try await second.readLine().hasPrefix("-UNAUTHENTICATED "))
      #expect(try await second.request("WHOAMI") == "+null")
      #expect(try await second.code("POST a b") == "UNAUTHENTICATED")
      #expect(server.parts.operations.sessions.count == 0)
    }
  }

  @Test(arguments: Depth.allCases)
  func `a password that is changed while its old token logs in opens nothing`(
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
      #expect(try await second.readLine().hasPrefix("-UNAUTHENTICATED "))
      #expect(try await first.request("WHOAMI") != "+null")
      #expect(server.parts.operations.sessions.count == 1)
    }
  }
}
