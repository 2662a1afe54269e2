import CanopyAccounts
import CanopySession
import CanopyTesting
import CanopyTree
import CanopyWire
import Testing

@testable import CanopyLineServer

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
      try await second.expect("ENDPASS \(token)", "+true")
      try await second.expect("ENDPASS \(token)", "+false")
      try await server.connect().expect("REDEEM \(token)", failsWith: "UNAUTHENTICATED")
      // The connections that have logged in stay logged in.
      try await client.expect("WHOAMI", "+{\"administrator\":true}")
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
