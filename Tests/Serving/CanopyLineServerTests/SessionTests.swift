import CanopyAccounts
import CanopyTesting
import CanopyTree
import CanopyWire
import Testing

@testable import CanopyLineServer
@testable import CanopySession

/// The Session table of the protocol's page.
@Suite(.timeLimit(.minutes(5))) struct SessionTests {
  @Test(arguments: Depth.allCases)
  func `HELLO says what the server is and its limits`(_ depth: Depth) async throws {
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
      #expect(try await client.request("ping") == "+\"PONG\"")
    }
  }

  @Test(arguments: Depth.allCases)
  func `HELP lists the verbs of the table and no others`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let client = try await server.connect()
      let help = try await client.value("HELP")
      #expect(help.names == ["session", "blog", "tree"])
      let listed = help.names?.flatMap { help[$0]?.names ?? [] }
      #expect(listed == Command.all.map(\.usage))
      for command in Command.all {
        let one = try await client.value("HELP \(command.verb.lowercased())")
        #expect(one["usage"]?.string == command.usage)
        #expect(one["summary"]?.string == command.summary)
      }
      #expect(try await client.code("HELP NOTHING") == "UNKNOWN_VERB")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a person signs up, goes and comes back`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let first = try await server.connect()
      #expect(try await first.request("WHOAMI") == "+null")
      let joined = try await first.value("SIGNUP Ada@Example.org \"engine of 1843\" ada")
      #expect(joined.names == ["uid", "username", "email", "token", "expires"])
      #expect(joined["username"]?.string == "ada")
      #expect(joined["email"]?.string == "Ada@Example.org")
      #expect(joined["expires"]?.integer == server.parts.clock.now + 30 * 86_400_000)
      let uid = try #require(joined["uid"]?.string)
      let token = try #require(joined["token"]?.string)
      let identity = "+{\"uid\":\"\(uid)\",\"username\":\"ada\",\"email\":\"Ada@Example.org\"}"
      #expect(try await first.request("WHOAMI") == identity)

      let second = try await server.connect()
      let loggedIn = try await second.value("LOGIN ada@example.org \"engine of 1843\"")
      #expect(loggedIn.names == joined.names)
      #expect(loggedIn["uid"]?.string == uid)
      #expect(loggedIn["token"]?.string != token)
      #expect(try await second.request("WHOAMI") == identity)

      let third = try await server.connect()
      let authenticated = try await third.value("AUTH \(token)")
      #expect(authenticated.names == joined.names)
      #expect(authenticated["token"]?.string == token)
      #expect(try await third.request("WHOAMI") == identity)

      #expect(server.parts.operations.sessions.count == 3)
      #expect(try await second.request("LOGOUT") == "+null")
      #expect(try await second.request("LOGOUT") == "+null", "again is no mistake")
      #expect(try await second.request("WHOAMI") == "+null")
      #expect(try await first.request("WHOAMI") == identity, "another token is another matter")

      #expect(try await first.request("QUIT") == "+\"BYE\"")
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
      #expect(try await first.request("LOGOUT") == "+null")
      #expect(try await second.request("WHOAMI") == "+null")
      #expect(try await second.code("POST title body") == "UNAUTHENTICATED")
      #expect(try await second.code("POSTS me") == "UNAUTHENTICATED")
      #expect(try await second.code("RENAME eve") == "UNAUTHENTICATED")
      #expect(try await second.code("PASSWORD x y") == "UNAUTHENTICATED")
      #expect(try await second.code("AUTH \(token)") == "UNAUTHENTICATED")
      #expect(try await second.request("LOGOUT") == "+null")
    }
  }

  @Test(arguments: Depth.allCases)
  func `PASSWORD revokes every other token at once`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let (first, second) = (try await server.connect(), try await server.connect())
      let token = try await first.text("token", TestServer.signUp("ada"))
      try await second.value("LOGIN \(TestServer.email("ada")) \"secret words of ada\"")
      let bystander = try await server.connect(as: "eve")
      #expect(try await first.code("PASSWORD wrong-one another-secret") == "UNAUTHENTICATED")
      #expect(try await first.code("PASSWORD \"secret words of ada\" short") == "INVALID_DATA")
      #expect(try await second.request("WHOAMI") != "+null", "a failure changes nothing")
      let changed = try await first.value(
        "PASSWORD \"secret words of ada\" \"other words of ada\"")
      #expect(changed.names == ["uid", "username", "email", "token", "expires"])
      #expect(try await second.request("WHOAMI") == "+null")
      #expect(try await second.code("POST title body") == "UNAUTHENTICATED")
      #expect(try await first.request("WHOAMI") != "+null")
      #expect(try await bystander.request("WHOAMI") != "+null")
      #expect(try await second.code("AUTH \(token)") == "UNAUTHENTICATED")
      let login = "LOGIN \(TestServer.email("ada"))"
      #expect(try await second.code("\(login) \"secret words of ada\"") == "UNAUTHENTICATED")
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
      #expect(try await client.request("WHOAMI") != "+null")
      server.parts.clock.advance(1)
      #expect(try await client.request("WHOAMI") == "+null")
      #expect(try await client.code("POST title body") == "UNAUTHENTICATED")
      #expect(try await client.code("AUTH \(token)") == "UNAUTHENTICATED")
      #expect(try await client.request("LOGOUT") == "+null")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a token that is none is refused, and the connection stays who it was`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let client = try await server.connect(as: "ada")
      let identity = try await client.request("WHOAMI")
      let wrong = String(repeating: "A", count: 43)
      for token in ["x", wrong, "\"\"", "\"\(wrong) \"", String(repeating: "x", count: 100_000)] {
        #expect(try await client.code("AUTH \(token)") == "UNAUTHENTICATED")
      }
      let code = try await client.code("LOGIN ada@example.org wrong-password")
      #expect(code == "UNAUTHENTICATED")
      #expect(try await client.request("WHOAMI") == identity)
      #expect(server.parts.operations.sessions.count == 1)
    }
  }

  @Test(arguments: Depth.allCases)
  func `one connection is one person after another`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let client = try await server.connect(as: "ada")
      try await client.value(TestServer.signUp("eve"))
      #expect(try await client.text("username", "WHOAMI") == "eve")
      #expect(server.parts.operations.sessions.count == 1)
      try await client.value("AUTH \(server.administratorToken)")
      #expect(try await client.request("WHOAMI") == "+{\"administrator\":true}")
      #expect(server.parts.operations.sessions.count == 0)
      #expect(try await client.code("POST title body") == "UNAUTHENTICATED")
      #expect(try await client.request("LOGOUT") == "+null")
      #expect(try await client.code("GET /") == "PERMISSION_DENIED")
    }
  }

  @Test(arguments: Depth.allCases)
  func `RENAME changes the name everywhere`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let (ada, eve) = (try await server.connect(as: "ada"), try await server.connect(as: "eve"))
      let id = try await ada.text("id", "POST title body")
      let other = try await eve.text("id", "POST title body")
      try await ada.value("COMMENT \(other) hello")
      #expect(try await ada.code("RENAME EVE") == "CONFLICT")
      #expect(try await ada.code("RENAME \"a b\"") == "INVALID_DATA")
      #expect(try await ada.request("RENAME Countess") == "+null")
      #expect(try await ada.text("username", "WHOAMI") == "Countess")
      #expect(try await eve.text("author", "SHOW \(id)") == "Countess")
      #expect(try await eve.request("COMMENTS \(other)").contains("\"author\":\"Countess\""))
      #expect(try await eve.code("PROFILE @ada") == "NOT_FOUND")
      #expect(try await eve.text("username", "PROFILE @COUNTESS") == "Countess")
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
      let address = try await client.request("SIGNUP ADA@example.org \(password) somebody")
      let name = try await client.request("SIGNUP new@example.org \(password) ADA")
      let both = try await client.request("SIGNUP ada@example.org \(password) ada")
      #expect(address.hasPrefix("-CONFLICT "))
      #expect(address == name && name == both)
      #expect(try await client.request("WHOAMI") == "+null")
      #expect(await server.parts.accountStore.all.count == 1, "nothing is left of the refused")
      try await client.value("SIGNUP new@example.org \(password) somebody")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a sign-up that cannot be is refused with a sentence`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let client = try await server.connect()
      for line in [
        "SIGNUP ada \"engine of 1843\" ada", "SIGNUP ada@example.org short ada",
        "SIGNUP ada@example.org password123 ada", "SIGNUP ada@example.org \"engine of\" \"a b\"",
        "SIGNUP ada@example.org \"engine of 1843\" \"\"",
        "SIGNUP ada@example.org ada@example.org ada",
        "SIGNUP ada@example.org \"engine of 1843\" \(String(repeating: "a", count: 33))",
      ] {
        #expect(try await client.code(line) == "INVALID_DATA", "\(line)")
      }
      #expect(server.parts.journal.count == 0)
      #expect(await server.parts.accountStore.all.isEmpty)
    }
  }

  @Test(arguments: Depth.allCases)
  func `sign-ups from one address are limited, and the wait is told`(_ depth: Depth) async throws {
    try await withServer(depth) {
      $0.accounts.signUpsMax = 2
    } _: { server in
      _ = try await server.connect(as: "ada")
      server.parts.clock.advance(15_000)
      _ = try await server.connect(as: "eve")
      let client = try await server.connect()
      // A socket of this machine is exempt.
      if depth == .inProcess {
        let (code, sentence) = try await client.refusal(TestServer.signUp("bob"))
        #expect(code == "RATE_LIMITED")
        #expect(sentence == "too many attempts; try again in 45 seconds")
        server.parts.clock.advance(45_000)
      }
      try await client.value(TestServer.signUp("bob"))
    }
  }

  @Test(arguments: Depth.allCases)
  func `after five failures the wait is told, in the same lines for an unknown address`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      _ = try await server.connect(as: "ada")
      let client = try await server.connect()
      var replies: [String: [String]] = [:]
      for address in ["ada@example.org", "nobody@example.org"] {
        for _ in 0..<6 {
          replies[address, default: []].append(
            try await client.request("LOGIN \(address) wrong-password"))
        }
      }
      #expect(replies["ada@example.org"] == replies["nobody@example.org"])
      let lines = try #require(replies["ada@example.org"])
      #expect(lines.prefix(5).allSatisfy { $0.hasPrefix("-UNAUTHENTICATED ") })
      #expect(lines[5] == "-RATE_LIMITED too many attempts; try again in 1 second")
      let right = "LOGIN ada@example.org \"secret words of ada\""
      #expect(try await client.code(right) == "RATE_LIMITED")
      server.parts.clock.advance(1_000)
      try await client.value(right)
    }
  }

  @Test(arguments: Depth.allCases)
  func `failures of strangers delay LOGIN, and not PASSWORD in a session`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let ada = try await server.connect(as: "ada")
      let stranger = try await server.connect()
      for _ in 0..<5 {
        #expect(
          try await stranger.code("LOGIN ada@example.org wrong-password") == "UNAUTHENTICATED")
      }
      let right = "LOGIN ada@example.org \"secret words of ada\""
      #expect(try await stranger.code(right) == "RATE_LIMITED")
      try await ada.value("PASSWORD \"secret words of ada\" \"other words of ada\"")
      for _ in 0..<5 {
        #expect(try await ada.code("PASSWORD wrong-password another-secret") == "UNAUTHENTICATED")
      }
      #expect(
        try await ada.request("PASSWORD \"other words of ada\" another-secret")
          == "-RATE_LIMITED too many attempts; try again in 1 second")
    }
  }

  @Test(arguments: Depth.allCases)
  func `logins from one address are limited, and the wait is told`(_ depth: Depth) async throws {
    try await withServer(depth) {
      $0.accounts.loginsMax = 2
    } _: { server in
      _ = try await server.connect(as: "ada")
      let login = "LOGIN ada@example.org \"secret words of ada\""
      for _ in 0..<2 { try await server.connect().value(login) }
      let client = try await server.connect()
      // A socket of this machine is exempt.
      if depth == .inProcess {
        #expect(
          try await client.request(login)
            == "-RATE_LIMITED too many attempts; try again in 30 seconds")
        server.parts.clock.advance(30_000)
      }
      try await client.value(login)
    }
  }

  @Test(arguments: Depth.allCases)
  func `no reply or log line has a password or token but the replies that give one`(
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
      await server.parts.accountStore.fail(true)
      try await other("LOGIN ada@example.org \"second secret 2\"")
      try await other("AUTH \(try #require(secrets.last))")
      try await other("PASSWORD \"second secret 2\" \"first secret 1\"")
      try await other("LOGOUT")
      try await other("SIGNUP new@example.org \"first secret 1\" new")
      await server.parts.accountStore.fail(false)
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
