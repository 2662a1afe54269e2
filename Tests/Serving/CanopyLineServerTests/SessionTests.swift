import CanopyAccounts
import CanopyTesting
import CanopyTree
import CanopyWire
import Testing

@testable import CanopyLineServer
@testable import CanopySession

/// The verbs about the connection and the account.
@Suite(.timeLimit(.minutes(20))) struct SessionTests {
  @Test(arguments: Depth.allCases)
  func `HELLO has the version and the limits of the server`(_ depth: Depth) async throws {
    try await withServer(depth) {
      $0.limits.lineBytesMax = 5_000
    } _: { server in
      let client = try await server.connect()
      let hello = try await client.value("HELLO")
      #expect(hello.names == ["server", "version", "protocol", "time", "limits"])
      #expect(hello["time"]?.integer == server.parts.clock.now)
      #expect(hello["server"]?.string == "canopy")
      #expect(hello["version"]?.string == "test")
      #expect(hello["protocol"]?.integer == 1)
      #expect(hello["limits"]?["lineBytes"]?.integer == 5_000)
      #expect(hello["limits"]?["listeners"]?.integer == 1_000)
      #expect(hello["limits"]?["depth"]?.integer == 32)
      try await client.expect("ping", "+\"PONG\"")
    }
  }

  @Test(arguments: Depth.allCases)
  func `HELP lists the verbs of the table and no others`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let client = try await server.connect()
      let help = try await client.value("HELP")
      #expect(help.names == ["session", "blog", "tree", "administration"])
      let listed = help.names?.flatMap { help[$0]?.names ?? [] }
      #expect(listed == Command.all.map(\.usage))
      for command in Command.all {
        let one = try await client.value("HELP \(command.verb.lowercased())")
        #expect(one["usage"]?.string == command.usage)
        #expect(one["summary"]?.string == command.summary)
      }
      try await client.expect("HELP NOTHING", failsWith: "UNKNOWN_VERB")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a person signs up, disconnects and logs in again`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let first = try await server.connect()
      try await first.expect("WHOAMI", "+null")
      let joined = try await first.value("SIGNUP Ada@Example.org \"engine of 1843\" ada")
      #expect(joined.names == ["uid", "username", "email", "token", "expires"])
      #expect(joined["username"]?.string == "ada")
      #expect(joined["email"]?.string == "Ada@Example.org")
      #expect(joined["expires"]?.integer == server.parts.clock.now + 30 * 86_400_000)
      let uid = try #require(joined["uid"]?.string)
      let token = try #require(joined["token"]?.string)
      let identity = "+{\"uid\":\"\(uid)\",\"username\":\"ada\",\"email\":\"Ada@Example.org\"}"
      try await first.expect("WHOAMI", identity)

      let second = try await server.connect()
      let loggedIn = try await second.value("LOGIN ada@example.org \"engine of 1843\"")
      #expect(loggedIn.names == joined.names)
      #expect(loggedIn["uid"]?.string == uid)
      #expect(loggedIn["token"]?.string != token)
      try await second.expect("WHOAMI", identity)

      let third = try await server.connect()
      let authenticated = try await third.value("AUTH \(token)")
      #expect(authenticated.names == joined.names)
      #expect(authenticated["token"]?.string == token)
      try await third.expect("WHOAMI", identity)

      #expect(server.parts.operations.sessions.count == 3)
      try await second.expect("LOGOUT", "+null")
      // Logging out twice is not an error.
      try await second.expect("LOGOUT", "+null")
      try await second.expect("WHOAMI", "+null")
      // The session of another token goes on.
      try await first.expect("WHOAMI", identity)

      try await first.expect("QUIT", "+\"BYE\"")
      try await first.expectClosed()
      try await server.eventually { server.parts.operations.sessions.count == 1 }
    }
  }

  @Test(arguments: Depth.allCases)
  func `LOGOUT takes effect at once on every connection with the token`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let (first, second) = (try await server.connect(), try await server.connect())
      let token = try await first.text("token", TestServer.signUp("ada"))
      try await second.value("AUTH \(token)")
      try await second.value("POST mine body")
      try await first.expect("LOGOUT", "+null")
      try await second.expect("WHOAMI", "+null")
      try await second.expect("POST title body", failsWith: "UNAUTHENTICATED")
      try await second.expect("POSTS me", failsWith: "UNAUTHENTICATED")
      try await second.expect("RENAME eve", failsWith: "UNAUTHENTICATED")
      try await second.expect("PASSWORD x y", failsWith: "UNAUTHENTICATED")
      try await second.expect("AUTH \(token)", failsWith: "UNAUTHENTICATED")
      try await second.expect("LOGOUT", "+null")
    }
  }

  @Test(arguments: Depth.allCases)
  func `PASSWORD revokes every other token at once`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let (first, second) = (try await server.connect(), try await server.connect())
      let token = try await first.text("token", TestServer.signUp("ada"))
      try await second.value("LOGIN \(TestServer.email("ada")) \"secret words of ada\"")
      let bystander = try await server.connect(as: "eve")
      try await first.expect("PASSWORD wrong-one another-secret", failsWith: "UNAUTHENTICATED")
      try await first.expect("PASSWORD \"secret words of ada\" short", failsWith: "INVALID_DATA")
      try await second.expect("WHOAMI", hasPrefix: "+{")
      let changed = try await first.value(
        "PASSWORD \"secret words of ada\" \"other words of ada\"")
      #expect(changed.names == ["uid", "username", "email", "token", "expires"])
      try await second.expect("WHOAMI", "+null")
      try await second.expect("POST title body", failsWith: "UNAUTHENTICATED")
      try await first.expect("WHOAMI", hasPrefix: "+{")
      try await bystander.expect("WHOAMI", hasPrefix: "+{")
      try await second.expect("AUTH \(token)", failsWith: "UNAUTHENTICATED")
      let login = "LOGIN \(TestServer.email("ada"))"
      try await second.expect("\(login) \"secret words of ada\"", failsWith: "UNAUTHENTICATED")
      try await second.value("\(login) \"other words of ada\"")
      try await second.value("AUTH \(try #require(changed["token"]?.string))")
      try await first.value("POST title body")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a token expires by the clock`(_ depth: Depth) async throws {
    try await withServer(depth) {
      $0.accounts.tokenLifetimeMilliseconds = 10_000
    } _: { server in
      let client = try await server.connect()
      let token = try await client.text("token", TestServer.signUp("ada"))
      server.parts.clock.advance(9_999)
      try await client.value("POST title body")
      try await client.expect("WHOAMI", hasPrefix: "+{")
      server.parts.clock.advance(1)
      try await client.expect("WHOAMI", "+null")
      try await client.expect("POST title body", failsWith: "UNAUTHENTICATED")
      try await client.expect("AUTH \(token)", failsWith: "UNAUTHENTICATED")
      try await client.expect("LOGOUT", "+null")
    }
  }

  @Test(arguments: Depth.allCases)
  func `an invalid token is refused, and the connection keeps its user`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let client = try await server.connect(as: "ada")
      let identity = try await client.request("WHOAMI")
      let wrong = String(repeating: "A", count: 43)
      for token in ["x", wrong, "\"\"", "\"\(wrong) \"", String(repeating: "x", count: 100_000)] {
        try await client.expect("AUTH \(token)", failsWith: "UNAUTHENTICATED")
      }
      let code = try await client.code("LOGIN ada@example.org wrong-password")
      #expect(code == "UNAUTHENTICATED")
      try await client.expect("WHOAMI", identity)
      #expect(server.parts.operations.sessions.count == 1)
    }
  }

  @Test(arguments: Depth.allCases)
  func `one connection can serve several users in turn`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let client = try await server.connect(as: "ada")
      try await client.value(TestServer.signUp("eve"))
      try await client.expect("WHOAMI", contains: "\"username\":\"eve\"")
      #expect(server.parts.operations.sessions.count == 1)
      try await client.value("AUTH \(server.administratorToken)")
      try await client.expect("WHOAMI", "+{\"administrator\":true}")
      #expect(server.parts.operations.sessions.count == 0)
      try await client.expect("POST title body", failsWith: "UNAUTHENTICATED")
      try await client.expect("LOGOUT", "+null")
      try await client.expect("GET /", failsWith: "PERMISSION_DENIED")
    }
  }

  @Test(arguments: Depth.allCases)
  func `RENAME changes the name everywhere`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let (ada, eve) = (try await server.connect(as: "ada"), try await server.connect(as: "eve"))
      let id = try await ada.text("id", "POST title body")
      let other = try await eve.text("id", "POST title body")
      try await ada.value("COMMENT \(other) hello")
      try await ada.expect("RENAME EVE", failsWith: "CONFLICT")
      try await ada.expect("RENAME \"a b\"", failsWith: "INVALID_DATA")
      try await ada.expect("RENAME Countess", "+null")
      try await ada.expect("WHOAMI", contains: "\"username\":\"Countess\"")
      try await eve.expect("SHOW \(id)", contains: "\"author\":\"Countess\"")
      try await eve.expect("COMMENTS \(other)", contains: "\"author\":\"Countess\"")
      try await eve.expect("PROFILE @ada", failsWith: "NOT_FOUND")
      try await eve.expect("PROFILE @COUNTESS", contains: "\"username\":\"Countess\"")
      try await eve.value("RENAME ada")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a taken address and a taken name are refused with one and the same line`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      _ = try await server.connect(as: "ada")
      let client = try await server.connect()
      let password = "\"some other words\""
      let request = "SIGNUP ADA@example.org \(password) somebody"
      let address = try await client.request(request)
      let name = try await client.request("SIGNUP new@example.org \(password) ADA")
      let both = try await client.request("SIGNUP ada@example.org \(password) ada")
      expectReply(address, to: request, failsWith: "CONFLICT")
      #expect(address == name && name == both)
      try await client.expect("WHOAMI", "+null")
      #expect(await server.parts.accountStore.all.count == 1, "nothing is left of the refused")
      try await client.value("SIGNUP new@example.org \(password) somebody")
    }
  }

  @Test(arguments: Depth.allCases)
  func `an invalid sign-up is refused with a sentence`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let client = try await server.connect()
      for line in [
        "SIGNUP ada \"engine of 1843\" ada", "SIGNUP ada@example.org short ada",
        "SIGNUP ada@example.org password123 ada", "SIGNUP ada@example.org \"engine of\" \"a b\"",
        "SIGNUP ada@example.org \"engine of 1843\" \"\"",
        "SIGNUP ada@example.org ada@example.org ada",
        "SIGNUP ada@example.org \"engine of 1843\" \(String(repeating: "a", count: 33))",
      ] {
        try await client.expect(line, failsWith: "INVALID_DATA")
      }
      #expect(server.parts.journal.count == 0)
      #expect(await server.parts.accountStore.all.isEmpty)
    }
  }

  @Test(arguments: Depth.allCases)
  func `only the replies to logins have a token, and no reply or log line has a password`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let client = try await server.connect()
      var secrets = [
        "first secret 1", "second secret 2", "wrong secret 3", server.administratorToken,
      ]
      var others: [String] = []
      func giving(_ line: String) async throws {
        let token = try await client.text("token", line)
        secrets.append(token)
      }
      func other(_ line: String) async throws {
        others.append(try await client.request(line))
      }
      try await giving("SIGNUP ada@example.org \"first secret 1\" ada")
      try await giving("LOGIN ada@example.org \"first secret 1\"")
      try await giving("PASSWORD \"first secret 1\" \"second secret 2\"")
      try await giving("AUTH \(try #require(secrets.last))")
      try await other("WHOAMI")
      try await other("LOGIN ada@example.org \"wrong secret 3\"")
      try await other("PASSWORD \"wrong secret 3\" \"second secret 2\"")
      try await other("SIGNUP ada@example.org \"first secret 1\" ada")
      try await other("SIGNUP \"first secret 1\" \"first secret 1\" ada")
      try await other("PASSWORD \"first secret 1\"")
      try await other("LOGIN ada@example.org \"first secret 1\" extra")
      try await other("LOGIN ada@example.org \"first secret 1\"x")
      try await other("LOGIN ada@example.org \"first secret 1")
      try await other("LOGIN ada@example.org [\"first secret 1\"]")
      try await other("AUTH \(secrets[4])")
      try await other("AUTH \(secrets[4])x")
      try await other("PROFILE @ada")
      await server.parts.accountStore.fail(with: PlannedFailure())
      try await other("LOGIN ada@example.org \"second secret 2\"")
      try await other("AUTH \(try #require(secrets.last))")
      try await other("PASSWORD \"second secret 2\" \"first secret 1\"")
      try await other("LOGOUT")
      try await other("SIGNUP new@example.org \"first secret 1\" new")
      await server.parts.accountStore.fail(with: nil)
      server.parts.journal.fail(true)
      try await other("SIGNUP new@example.org \"first secret 1\" new")
      server.parts.journal.fail(false)
      try await other("AUTH \(server.administratorToken)")
      try await other("GET / {\"export\":true}")
      try await other("QUIT")
      try await client.expectClosed()
      #expect(!server.parts.log.lines.isEmpty)
      for secret in secrets {
        #expect(!others.contains { $0.contains(secret) })
        #expect(!server.parts.log.lines.contains { $0.contains(secret) })
      }
    }
  }
}
