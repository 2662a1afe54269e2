import CanopyAccounts
import CanopyTesting
import CanopyTree
import CanopyWire
import Testing

@testable import CanopyLineServer
@testable import CanopySession

/// PASS, REDEEM and ENDPASS: the login of the console by a link. NAMESPACES: its choice of a database.
@Suite(.timeLimit(.minutes(20))) struct PassTests {
  @Test
  func `a pass of the administrator logs one connection in, and its token further ones`()
    async throws
  {
    try await withServer(.socket) { server in
      let administrator = try await server.connectAsAdministrator()
      let pass = try await administrator.text("token", "PASS")
      let client = try await server.connect()
      let token = try await client.text("token", "REDEEM \(pass)")
      try await client.expect("WHOAMI", "+{\"administrator\":true}")
      #expect(token != pass && token != server.parts.administratorToken.text)
      let second = try await server.connect()
      try await second.expect("REDEEM \(pass)", failsWith: "UNAUTHENTICATED")
      // The token is one of REDEEM alone: neither other requests nor other protocols take it.
      try await second.expect("AUTH \(token)", failsWith: "UNAUTHENTICATED")
      try await second.expect("WHOAMI", "+null")
      #expect(try await second.text("token", "REDEEM \(token)") == token)
      try await client.value("ONDISCONNECT SET /gone true")
      try await administrator.expect("ENDPASS \(token)", "+true")
      try await administrator.expect("ENDPASS \(token)", "+false")
      try await server.connect().expect("REDEEM \(token)", failsWith: "UNAUTHENTICATED")
      // The connections that have logged in with it end.
      for client in [client, second] { try await expectEnd(of: client) }
      try await server.eventually { try await server.hasMadeWrites() }
      #expect(server.root.isAbsent)
      try await administrator.expect("WHOAMI", "+{\"administrator\":true}")
    }
  }

  private func expectEnd(of client: any LineClient) async throws {
    #expect(
      try await client.readLine()
        == "-UNAUTHENTICATED the login of this connection has ended; make another pass with canopy console"
    )
    await #expect(throws: (any Error).self) { _ = try await client.readLine() }
  }

  @Test(arguments: [("LOGOUT", "+null"), ("ENDPASS", "+true")])
  func `a connection that ends its login by a pass goes on without it, and the others end`(
    verb: String, reply: String
  ) async throws {
    try await withServer(.socket) { server in
      let administrator = try await server.connectAsAdministrator()
      let pass = try await administrator.text("token", "PASS")
      let client = try await server.connect()
      let token = try await client.text("token", "REDEEM \(pass)")
      let second = try await server.connect()
      try await second.value("REDEEM \(token)")
      try await client.value("ONDISCONNECT SET /gone true")
      try await client.expect(verb == "ENDPASS" ? "ENDPASS \(token)" : verb, reply)
      try await client.expect("WHOAMI", "+null")
      try await client.expect("SET /x 1", failsWith: "PERMISSION_DENIED")
      try await client.expect("REDEEM \(token)", failsWith: "UNAUTHENTICATED")
      try await expectEnd(of: second)
      // The write is not made at the end of the connection, and not after a crash.
      try await server.eventually { try await server.keptWrites() == 0 }
      await client.disconnect()
      try await administrator.expect("GET /", "+null")
    }
  }

  @Test(arguments: [true, false])
  func `a write that is armed in a login by a pass is made unless the login was revoked`(
    _ isRevoked: Bool
  ) async throws {
    try await withServer(.inProcess) { server in
      let operations = server.parts.operations
      let token = try #require(operations.passes.redeem(operations.passes.make().token)).token
      let login = try #require(operations.login(ofPassToken: token))
      let completion = await operations.onDisconnect(
        .set(Location(try Path("gone")), try WriteValue(json: "true")), text: "SET /gone true",
        as: .administrator, [], in: login)
      let armed = try #require(completion.armed)
      if isRevoked { #expect(operations.passes.end(token)) }
      server.parts.clock.advance(AdministratorPasses.loginMilliseconds)
      operations.carryOut(armed, as: .administrator, from: "a") { _ in }
      try await server.eventually { try await server.hasMadeWrites() }
      #expect(server.root.at(try Path("gone")) == (isRevoked ? .absent : true))
    }
  }

  @Test func `a login by a pass ends after twelve hours, on open connections too`() async throws {
    try await withServer(.socket) { server in
      let administrator = try await server.connectAsAdministrator()
      let client = try await server.connect()
      try await client.value("REDEEM \(try await administrator.text("token", "PASS"))")
      server.parts.clock.advance(AdministratorPasses.loginMilliseconds - 1)
      try await client.expect("WHOAMI", "+{\"administrator\":true}")
      // Another login takes the place of the first one, which then does not end the connection.
      let other = try await server.connect()
      try await other.value("REDEEM \(try await administrator.text("token", "PASS"))")
      try await other.value("AUTH \(server.parts.administratorToken.text)")
      server.parts.clock.advance(AdministratorPasses.loginMilliseconds)
      try await client.send("SET /late true\n")
      try await expectEnd(of: client)
      try await other.expect("GET /", "+null")
    }
  }

  @Test(arguments: ["192.0.2.9", "::ffff:10.0.0.1", "2001:db8::1"])
  func `a pass is refused from other machines, and stays good`(_ address: String) async throws {
    try await withServer(.socket) { server in
      let administrator = try await server.connectAsAdministrator()
      let pass = try await administrator.text("token", "PASS")
      let operations = server.parts.operations
      let there = await operations.account(
        .redeemPass(token: pass), as: .anonymous, from: address)
      #expect(there.identity == nil)
      for here in ["127.0.0.1", "::1"] {
        let completion = await operations.account(
          .redeemPass(token: try await administrator.text("token", "PASS")), as: .anonymous,
          from: here)
        guard case .administrator? = completion.identity else {
          Issue.record("refused from \(here)")
          return
        }
      }
      _ = try await server.connect().text("token", "REDEEM \(pass)")
    }
  }

  @Test(arguments: Depth.allCases)
  func `NAMESPACES has the databases of the server and the last commit of the selected one`(
    _ depth: Depth
  ) async throws {
    let source = try MemoryNamespaces(["shop", "a"])
    try await withServer(depth) {
      $0.namespaces = source
    } _: { server in
      let client = try await server.connectAsAdministrator()
      for name in ["default", "shop"] {
        try await client.value("USE \(name)")
        let before = try await client.value("NAMESPACES")["seq"]?.integer ?? -1
        try await client.value("SET /x 1")
        try await client.expect(
          "NAMESPACES",
          #"+{"selected":"\#(name)","seq":\#(before + 1),"names":["default","a","shop"]}"#)
      }
    }
  }
}
