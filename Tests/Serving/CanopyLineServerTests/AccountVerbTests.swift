import CanopyAccounts
import CanopyIdentity
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyLineServer
@testable import CanopySession

/// The verbs about credentials: anonymous accounts, custom tokens, recent logins, codes and deletion.
@Suite(.timeLimit(.minutes(20))) struct AccountVerbTests {
  private static let secret = TestServer.password("ada")
  private static let confirm = "CONFIRM \(TestServer.email("ada")) \"\(secret)\""
  private static let change = #"CREDENTIALS {"password":"other words of ada"}"#
  /// The time after which a login is recent no longer, in milliseconds.
  private static let recent: Int64 = 5 * 60 * 1_000

  private func withIdentity(
    _ depth: Depth, _ body: (TestServer) async throws -> Void
  ) async throws {
    try await withServer(depth, { $0.identity = IdentitySettings() }, body)
  }

  @Test(arguments: Depth.allCases)
  func `an anonymous account keeps its uid and data when it gets an address and a password`(
    _ depth: Depth
  ) async throws {
    try await withIdentity(depth) { server in
      let client = try await server.connect()
      let joined = try await client.value("ANONYMOUS")
      #expect(joined.names == ["uid", "username", "email", "token", "expires"])
      #expect(joined["email"]?.string == "" && joined["username"]?.string == "")
      let uid = try #require(joined["uid"]?.string)
      let account = try await client.value("ACCOUNT")
      #expect(
        account.names == ["uid", "username", "email", "provider", "verified", "createdAt"])
      #expect(account["provider"]?.string == "anonymous")
      try await client.expect(
        "CREDENTIALS {\"password\":\"\(Self.secret)\"}", failsWith: "INVALID_DATA")
      // The user cannot log in again, so an old login suffices.
      server.parts.clock.advance(Self.recent * 100)
      let linked = try await client.value(
        "CREDENTIALS {\"email\":\"\(TestServer.email("ada"))\",\"password\":\"\(Self.secret)\"}")
      #expect(linked["uid"]?.string == uid)
      #expect(linked["email"]?.string == TestServer.email("ada"))
      #expect(try await client.value("ACCOUNT")["provider"]?.string == "password")
      // The first credentials replace none, so that they end no session.
      let other = try await server.connect()
      try await other.value("AUTH \(try #require(joined["token"]?.string))")
      let login = try await other.value(
        "LOGIN \(TestServer.email("ada")) \"\(Self.secret)\"")
      #expect(login["uid"]?.string == uid)
      try await client.expect("CREDENTIALS {}", failsWith: "BAD_REQUEST")
      try await client.expect(#"CREDENTIALS {"email":1}"#, failsWith: "BAD_REQUEST")
      try await client.expect(#"CREDENTIALS {"name":"a"}"#, failsWith: "BAD_REQUEST")
    }
  }

  @Test(arguments: Depth.allCases)
  func `new credentials need a recent login, which CONFIRM renews, and end other sessions`(
    _ depth: Depth
  ) async throws {
    try await withIdentity(depth) { server in
      let (first, second) = (try await server.connect(as: "ada"), try await server.connect())
      try await second.value("LOGIN \(TestServer.email("ada")) \"\(Self.secret)\"")
      server.parts.clock.advance(Self.recent + 1_000)
      try await first.expect(Self.change, failsWith: "PERMISSION_DENIED", "recent login")
      try await first.expect("DELETEACCOUNT", failsWith: "PERMISSION_DENIED", "recent login")
      try await first.expect(
        "CONFIRM \(TestServer.email("ada")) wrong", failsWith: "UNAUTHENTICATED", "is wrong")
      try await first.expect(
        "CONFIRM eve@example.org \"\(Self.secret)\"", failsWith: "CONFLICT")
      let confirmed = try await first.value(Self.confirm)
      #expect(confirmed.names == ["uid", "username", "email", "token", "expires"])
      try await second.expect("WHOAMI", hasPrefix: "+{")
      server.parts.clock.advance(Self.recent)
      try await first.value(Self.change)
      try await second.expect("WHOAMI", "+null")
      try await first.expect("WHOAMI", hasPrefix: "+{")
      try await second.expect(
        "AUTH \(try #require(confirmed["token"]?.string))", failsWith: "UNAUTHENTICATED")
      try await second.expect(
        "LOGIN \(TestServer.email("ada")) \"\(Self.secret)\"", failsWith: "UNAUTHENTICATED")
      try await second.value("LOGIN \(TestServer.email("ada")) \"other words of ada\"")
      let moved = try await first.value(#"CREDENTIALS {"email":"countess@example.org"}"#)
      #expect(moved["email"]?.string == "countess@example.org")
      try await second.expect("WHOAMI", "+null")
      try await second.value("LOGIN countess@example.org \"other words of ada\"")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a connection that gets new credentials keeps its subscriptions`(
    _ depth: Depth
  ) async throws {
    try await withIdentity(depth) { server in
      let administrator = try await server.connectAsAdministrator()
      try await administrator.value(
        #"RULES "{\"rules\":{\"own\":{\".read\":\"auth != null\",\".write\":true}}}""#)
      let client = try await server.connect(as: "ada")
      try await client.value("LISTEN /own {\"events\":\"value\"}")
      #expect(try await client.event().brief == "value")
      try await client.value(Self.confirm)
      try await client.value(Self.change)
      try await administrator.value("SET /own 7")
      let event = try await client.event()
      #expect(event.brief == "value" && event.data?.integer == 7)
    }
  }

  @Test(arguments: Depth.allCases)
  func `a deleted account has no sessions and frees its address, and its posts stay`(
    _ depth: Depth
  ) async throws {
    try await withIdentity(depth) { server in
      let (first, second) = (try await server.connect(as: "ada"), try await server.connect())
      let token = try await second.text(
        "token", "LOGIN \(TestServer.email("ada")) \"\(Self.secret)\"")
      let post = try await first.text("id", "POST title body")
      try await first.expect("DELETEACCOUNT", "+null")
      try await first.expect("WHOAMI", "+null")
      try await second.expect("WHOAMI", "+null")
      try await second.expect("AUTH \(token)", failsWith: "UNAUTHENTICATED")
      try await second.expect(
        "LOGIN \(TestServer.email("ada")) \"\(Self.secret)\"", failsWith: "UNAUTHENTICATED")
      try await second.expect("DELETEACCOUNT", failsWith: "UNAUTHENTICATED")
      try await second.expect("SHOW \(post)", contains: "\"author\":\"ada\"")
      // The address is free; the user name stays with the posts.
      try await second.expect(TestServer.signUp("ada"), failsWith: "CONFLICT")
      try await second.value("SIGNUP \(TestServer.email("ada")) \"\(Self.secret)\" ada2")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a code of FORGOT sets a new password once, and ends every session`(
    _ depth: Depth
  ) async throws {
    try await withIdentity(depth) { server in
      let (ada, stranger) = (try await server.connect(as: "ada"), try await server.connect())
      try await stranger.expect("FORGOT eve@example.org", "+null")
      #expect(server.parts.codes.all.isEmpty)
      try await stranger.expect("FORGOT nonsense", failsWith: "INVALID_DATA")
      try await stranger.expect("FORGOT \(TestServer.email("ada"))", "+null")
      // The reply does not wait for the code. A stranger's address gets none.
      try await server.eventually { server.parts.codes.all.count == 1 }
      let code = try #require(server.parts.codes.all.last?.text)
      try await stranger.expect(
        "RESET \(code)", "+{\"email\":\"\(TestServer.email("ada"))\"}")
      try await stranger.expect("RESET \(code) short", failsWith: "INVALID_DATA")
      try await stranger.expect(
        "RESET \(String(code.reversed()))", failsWith: "UNAUTHENTICATED", "not valid")
      try await stranger.expect("VERIFY \(code)", failsWith: "UNAUTHENTICATED")
      try await ada.expect("WHOAMI", hasPrefix: "+{")
      try await stranger.value("RESET \(code) \"other words of ada\"")
      try await ada.expect("WHOAMI", "+null")
      try await stranger.expect("RESET \(code)", failsWith: "UNAUTHENTICATED")
      try await stranger.value("LOGIN \(TestServer.email("ada")) \"other words of ada\"")
      try await stranger.value("FORGOT \(TestServer.email("ada"))")
      try await server.eventually { server.parts.codes.all.count == 2 }
      let late = try #require(server.parts.codes.all.last?.text)
      server.parts.clock.advance(3_600_000)
      try await stranger.expect("RESET \(late)", failsWith: "UNAUTHENTICATED", "expired")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a code of VERIFY proves the address`(_ depth: Depth) async throws {
    try await withIdentity(depth) { server in
      let client = try await server.connect()
      try await client.expect("VERIFY", failsWith: "UNAUTHENTICATED")
      try await client.value("ANONYMOUS")
      try await client.expect("VERIFY", failsWith: "INVALID_DATA", "no e-mail address")
      try await client.value(TestServer.signUp("ada"))
      try await client.expect("VERIFY", "+null")
      try await client.expect("ACCOUNT", contains: "\"verified\":false")
      let code = try #require(server.parts.codes.all.last?.text)
      try await client.expect("VERIFY \(code)", "+{\"email\":\"\(TestServer.email("ada"))\"}")
      try await client.expect("ACCOUNT", contains: "\"verified\":true")
      try await client.expect("VERIFY \(code)", failsWith: "UNAUTHENTICATED")
    }
  }

  @Test(arguments: Depth.allCases)
  func `the rules see the claims of a custom token, also after a later AUTH`(
    _ depth: Depth
  ) async throws {
    try await withIdentity(depth) { server in
      let administrator = try await server.connectAsAdministrator()
      try await administrator.value(
        #"RULES "{\"rules\":{\"vault\":{\".read\":\"auth.token.level > 2\"}}}""#)
      let custom = try await administrator.text("token", #"ISSUE robot {"level":3}"#)
      for wrong in [#"ISSUE a/b {}"#, #"ISSUE robot {"email":"a"}"#] {
        try await administrator.expect(wrong, failsWith: "INVALID_DATA")
      }
      try await administrator.expect("ISSUE robot claims", failsWith: "BAD_REQUEST")
      let client = try await server.connect()
      try await client.expect("ISSUE robot", failsWith: "PERMISSION_DENIED")
      try await client.expect("CUSTOM nonsense", failsWith: "UNAUTHENTICATED", "custom token")
      let login = try await client.value("CUSTOM \(custom)")
      #expect(login["uid"]?.string == "robot")
      try await client.expect("GET /vault", "+null")
      try await client.expect("ACCOUNT", contains: "\"provider\":\"custom\"")
      let other = try await server.connect()
      try await other.expect("GET /vault", failsWith: "PERMISSION_DENIED")
      try await other.value("AUTH \(try #require(login["token"]?.string))")
      try await other.expect("GET /vault", "+null")
    }
  }

  @Test(arguments: Depth.allCases)
  func `an identity token of a session logs in for an hour`(_ depth: Depth) async throws {
    try await withIdentity(depth) { server in
      let client = try await server.connect()
      try await client.expect("IDTOKEN", failsWith: "UNAUTHENTICATED")
      try await client.value(TestServer.signUp("ada"))
      let reply = try await client.value("IDTOKEN")
      #expect(reply["expires"]?.integer == server.parts.clock.now + 3_600_000)
      let token = try #require(reply["token"]?.string)
      let other = try await server.connect()
      try await other.value("AUTH \(token)")
      #expect(try await other.value("IDTOKEN")["token"]?.string == token)
      server.parts.clock.advance(3_600_000)
      try await other.expect("IDTOKEN", failsWith: "UNAUTHENTICATED")
      try await client.value("IDTOKEN")
    }
  }

  @Test(arguments: Depth.allCases)
  func `LOGOUT drops the on-disconnect writes of an identity token on its connection only`(
    _ depth: Depth
  ) async throws {
    try await withIdentity(depth) { server in
      let administrator = try await server.connectAsAdministrator()
      try await administrator.value(#"RULES "{\"rules\":{\".write\":\"auth != null\"}}""#)
      let client = try await server.connect()
      try await client.value(TestServer.signUp("ada"))
      let token = try #require(try await client.value("IDTOKEN")["token"]?.string)
      let (first, second) = (try await server.connect(), try await server.connect())
      for (number, connection) in [first, second].enumerated() {
        try await connection.value("AUTH \(token)")
        try await connection.value("ONDISCONNECT SET /armed/k\(number) 1")
      }
      #expect(try await server.keptWrites() == 2)
      try await first.expect("LOGOUT", "+null")
      #expect(try await server.keptWrites() == 1)
      await first.disconnect()
      await second.disconnect()
      try await server.eventually { try await server.hasMadeWrites() }
      #expect(try await administrator.value("GET /armed")["k1"] == .leaf(1))
      #expect(try await administrator.value("GET /armed")["k0"] == nil)
    }
  }

  @Test(arguments: Depth.allCases)
  func `a server without identity tokens says so`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let client = try await server.connect(as: "ada")
      for request in [
        "CUSTOM token", "IDTOKEN", Self.change, "DELETEACCOUNT", "FORGOT a@example.org", "VERIFY",
      ] {
        try await client.expect(request, failsWith: "NOT_FOUND", "no identity tokens")
      }
      try await client.value("ACCOUNT")
      try await client.value(Self.confirm)
    }
  }
}
