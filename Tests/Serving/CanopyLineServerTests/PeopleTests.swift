import CanopyAccounts
import CanopyEngine
import CanopySession
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyLineServer

/// The administrator's verbs about accounts and their sessions.
@Suite(.timeLimit(.minutes(20))) struct PeopleTests {
  private func names(_ reply: JSONValue) -> [String] {
    (reply["users"]?.elements ?? []).map { $0["username"]?.string ?? "" }
  }

  @Test(arguments: Depth.allCases)
  func `USERS has all accounts in pages, and finds them by name and address`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      for name in ["bob", "Ada", "adam", "12", "124"] { _ = try await server.connect(as: name) }
      let client = try await server.connectAsAdministrator()
      #expect(names(try await client.value("USERS")) == ["124", "12", "Ada", "adam", "bob"])
      var page = try await client.value(#"USERS {"limit":2}"#)
      var all = names(page)
      while let after = page["after"]?.string {
        page = try await client.value("USERS {\"limit\":2,\"after\":\(quoted(after))}")
        all += names(page)
      }
      #expect(all == ["124", "12", "Ada", "adam", "bob"] && page["after"] == .null)
      // All five accounts fit exactly, so there is no next page.
      #expect(try await client.value(#"USERS {"limit":5}"#)["after"] == .null)
      for (text, found) in [
        ("ad", ["Ada", "adam"]), ("AD", ["Ada", "adam"]), ("ada", ["Ada", "adam"]),
        ("adam@", ["adam"]), ("bob@example.org", ["bob"]), ("12", ["12", "124"]), ("c", []),
        ("b/c", []),
      ] {
        #expect(
          names(try await client.value("USERS {\"find\":\(quoted(text))}")) == found, "\(text)")
      }
      #expect(names(try await client.value(#"USERS {"find":"a","limit":1}"#)) == ["Ada"])
      // A renamed account is found by its new name.
      let bob = try await server.connect()
      try await bob.value("LOGIN \(TestServer.email("bob")) \(quoted(TestServer.password("bob")))")
      try await bob.expect("RENAME robert", "+null")
      #expect(names(try await client.value(#"USERS {"find":"rob"}"#)) == ["robert"])
    }
  }

  @Test(arguments: Depth.allCases)
  func `USER has an account by its uid, name or address, without secrets`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let ada = try await server.connect()
      let session = try await ada.value(TestServer.signUp("ada"))
      let uid = try #require(session["uid"]?.string)
      let client = try await server.connectAsAdministrator()
      let reply = try await client.request("USER \(uid)")
      let time = server.parts.clock.now
      #expect(
        reply == #"+{"uid":"\#(uid)","username":"ada","email":"ada@example.org","#
          + #""provider":"password","verified":false,"disabled":false,"pending":false,"#
          + #""createdAt":\#(time),"lastLoginAt":\#(time)}"#)
      for name in ["@ADA", "ada@example.org", "ADA@EXAMPLE.ORG"] {
        try await client.expect("USER \(name)", reply)
      }
      for name in ["x", "@x", "x@example.org", "x@"] {
        try await client.expect("USER \(name)", failsWith: "NOT_FOUND")
      }
    }
  }

  @Test(arguments: Depth.allCases)
  func `DISABLE ends the logins and subscriptions of an account, and ENABLE lets it log in again`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      try await server.set(rules: #"{"rules":{"mine":{"$uid":{".read":"auth.uid === $uid"}}}}"#)
      let ada = try await server.connect()
      let session = try await ada.value(TestServer.signUp("ada"))
      let uid = try #require(session["uid"]?.string)
      let token = try #require(session["token"]?.string)
      let logIn = "LOGIN \(TestServer.email("ada")) \(quoted(TestServer.password("ada")))"
      _ = try await ada.begin("LISTEN /mine/\(uid)")
      let bob = try await server.connect(as: "bob")
      let client = try await server.connectAsAdministrator()
      try await client.expect("DISABLE @ada", contains: #""disabled":true"#)
      #expect(server.parts.engine.authorizationCounts.authorizations == 0)
      #expect(try await ada.readLine().contains(#""event":"cancel""#))
      try await ada.expect("POST a b", failsWith: "UNAUTHENTICATED")
      try await ada.expect("AUTH \(token)", failsWith: "UNAUTHENTICATED")
      try await ada.expect(logIn, failsWith: "PERMISSION_DENIED")
      try await bob.expectSuccess(of: "POST a b")
      try await client.expect("ENABLE @ada", contains: #""disabled":false"#)
      try await ada.expectSuccess(of: logIn)
      // To enable an account that is not disabled ends no login.
      try await client.expect("ENABLE \(uid)", contains: #""disabled":false"#)
      try await ada.expectSuccess(of: "POST a b")
    }
  }

  @Test(arguments: Depth.allCases)
  func `SETPASSWORD replaces the password and ends the sessions`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let ada = try await server.connect(as: "ada")
      let client = try await server.connectAsAdministrator()
      try await client.expect("SETPASSWORD @ada short", failsWith: "INVALID_DATA")
      try await ada.expectSuccess(of: "POST a b")
      let new = "quite another secret"
      try await client.expect("SETPASSWORD @ada \(quoted(new))", contains: #""username":"ada""#)
      try await ada.expect("POST a b", failsWith: "UNAUTHENTICATED")
      try await ada.expect(
        "LOGIN ada@example.org \(quoted(TestServer.password("ada")))", failsWith: "UNAUTHENTICATED")
      try await ada.expectSuccess(of: "LOGIN ada@example.org \(quoted(new))")
      #expect(!server.parts.log.lines.contains { $0.contains(new) })
    }
  }

  @Test(arguments: Depth.allCases)
  func `SESSIONS has each session without its token, and ENDSESSIONS ends all`(
    _ depth: Depth
  ) async throws {
    var settings = AccountSettings()
    settings.tokenLifetimeMilliseconds = 1_000
    try await withServer(depth) {
      $0.accounts = settings
    } _: { server in
      let begin = server.parts.clock.now
      let first = try await server.connect()
      let token = try #require(
        try await first.value(TestServer.signUp("ada"))["token"]?.string)
      server.parts.clock.advance(10)
      let second = try await server.connect()
      try await second.value(
        "LOGIN ada@example.org \(quoted(TestServer.password("ada")))")
      let third = try await server.connect()
      try await third.value("AUTH \(token)")
      let client = try await server.connectAsAdministrator()
      func session(_ time: Int64, _ connections: Int) -> String {
        #"{"begun":\#(time),"expires":\#(time + 1_000),"custom":false,"connections":\#(connections)}"#
      }
      try await client.expect(
        "SESSIONS @ada", "+[\(session(begin + 10, 1)),\(session(begin, 2))]")
      try await client.expect(#"SESSIONS @ada {"limit":1}"#, "+[\(session(begin + 10, 1))]")
      server.parts.clock.advance(990)
      // At its end a session is over.
      try await client.expect("SESSIONS @ada", "+[\(session(begin + 10, 1))]")
      try await client.expect("ENDSESSIONS @ada", contains: #""username":"ada""#)
      try await client.expect("SESSIONS @ada", "+[]")
      for client in [first, second, third] {
        try await client.expect("POST a b", failsWith: "UNAUTHENTICATED")
      }
    }
  }
}
