import CanopyAccounts
import CanopyEngine
import CanopyIdentity
import CanopySession
import CanopyTesting
import CanopyTree
import Logging
import Testing

@testable import CanopyLineServer

/// The administrator's verbs that create accounts and codes, the level of the log, and the log of actions.
@Suite(.timeLimit(.minutes(20))) struct AccountAdministrationTests {
  @Test(arguments: Depth.allCases)
  func `ADDUSER creates an account with a user name`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let client = try await server.connectAsAdministrator()
      let secret = "engine of 1843"
      let reply = try await client.value("ADDUSER ada@example.org \(quoted(secret)) Ada")
      #expect(reply["username"]?.string == "Ada" && reply["pending"] == .leaf(false))
      for (line, code) in [
        ("ADDUSER ada@example.org \(quoted(secret)) other", "CONFLICT"),
        ("ADDUSER new@example.org \(quoted(secret)) ADA", "CONFLICT"),
        ("ADDUSER new@example.org short other", "INVALID_DATA"),
        ("ADDUSER new@example.org \(quoted(secret)) \"a b\"", "INVALID_DATA"),
        ("ADDUSER new \(quoted(secret)) other", "INVALID_DATA"),
      ] { try await client.expect(line, failsWith: code) }
      let ada = try await server.connect()
      try await ada.value("LOGIN ada@example.org \(quoted(secret))")
      try await ada.expectSuccess(of: "POST a b")
      try await ada.expect("ADDUSER x@example.org y z", failsWith: "PERMISSION_DENIED")
      #expect(!server.parts.log.lines.contains { $0.contains(secret) })
    }
  }

  @Test(arguments: Depth.allCases)
  func `a code of RESETCODE sets a new password once, and ends every session`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth, { $0.identity = IdentitySettings() }) { server in
      let ada = try await server.connect(as: "ada")
      let client = try await server.connectAsAdministrator()
      let reply = try await client.value("RESETCODE @ada")
      #expect(reply.names == ["uid", "email", "code", "expires"])
      let lifetime = AccountSettings().codeLifetimeMilliseconds
      #expect(reply["expires"]?.integer == server.parts.clock.now + lifetime)
      let code = try #require(reply["code"]?.string)
      let stranger = try await server.connect()
      try await stranger.expect("RESET \(code) short", failsWith: "INVALID_DATA")
      try await ada.expect("WHOAMI", hasPrefix: "+{")
      let new = "other words of ada"
      try await stranger.value("RESET \(code) \(quoted(new))")
      try await ada.expect("WHOAMI", "+null")
      try await stranger.expect("RESET \(code) \(quoted(new))", failsWith: "UNAUTHENTICATED")
      try await stranger.value("LOGIN ada@example.org \(quoted(new))")
      // A code is valid before its end, and not at it.
      let last = try await client.text("code", "RESETCODE @ada")
      server.parts.clock.advance(lifetime - 1)
      try await stranger.expectSuccess(of: "RESET \(last)")
      server.parts.clock.advance(1)
      try await stranger.expect("RESET \(last)", failsWith: "UNAUTHENTICATED", "EXPIRED_CODE")
      #expect(!server.parts.log.lines.contains { $0.contains(code) || $0.contains(last) })
    }
  }

  @Test func `RESETCODE refuses an account that cannot log in with a password`() async throws {
    try await withServer(.inProcess, { $0.identity = IdentitySettings() }) { server in
      let guest = try await server.connect()
      let uid = try await guest.text("uid", "ANONYMOUS")
      _ = try await server.connect(as: "ada")
      let client = try await server.connectAsAdministrator()
      try await client.expect("RESETCODE \(uid)", failsWith: "INVALID_DATA", "no e-mail address")
      try await client.value("DISABLE @ada")
      try await client.expect("RESETCODE @ada", failsWith: "PERMISSION_DENIED")
      try await client.expect("RESETCODE @nobody", failsWith: "NOT_FOUND")
      try await guest.expect("RESETCODE @ada", failsWith: "PERMISSION_DENIED")
    }
  }

  @Test(arguments: Depth.allCases)
  func `the log says what the administrator did, to whom and on which connection`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let ada = try await server.connect()
      let uid = try await ada.text("uid", TestServer.signUp("ada"))
      let client = try await server.connectAsAdministrator()
      let all = try await client.value("CLIENTS")["clients"]?.elements ?? []
      let own = try #require(all.first { $0["self"] == .leaf(true) }?["id"]?.integer)
      let actions = [
        ("DISABLE @ada", "has disabled an account"), ("ENABLE @ada", "has enabled an account"),
        ("SETPASSWORD @ada \"other words\"", "has set the password of an account"),
        ("ENDSESSIONS \(uid)", "has ended the sessions of an account"),
        ("RESETCODE @ada", "has made a code for a new password of an account"),
        ("DELETEUSER @ada", "has deleted an account"),
      ]
      for (line, action) in actions {
        try await client.expectSuccess(of: line)
        let found = server.parts.log.lines.filter { $0.contains("the administrator \(action)") }
        #expect(found.count == 1, "\(line)")
        #expect(found[0].contains(uid) && found[0].contains("\"client\": \(own)"), "\(found[0])")
        #expect(!found[0].contains("other words"))
      }
      // A refused request did nothing, and reads do nothing.
      let count = server.parts.log.lines.count
      try await client.expect("DISABLE @nobody", failsWith: "NOT_FOUND")
      try await client.expectSuccess(of: "USERS")
      #expect(server.parts.log.lines.count == count)
    }
  }

  @Test(arguments: Depth.allCases)
  func `LOGLEVEL shows and sets the lowest level that is logged`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let logger = server.parts.keptLogger
      let client = try await server.connectAsAdministrator()
      try await client.expect("LOGLEVEL", #"+{"level":"info"}"#)
      logger.debug("one")
      try await client.expect("LOGLEVEL debug", #"+{"level":"debug"}"#)
      logger.debug("two")
      try await client.expect("LOGLEVEL error", #"+{"level":"error"}"#)
      logger.warning("three")
      logger.error("four")
      try await client.expect("LOGLEVEL", #"+{"level":"error"}"#)
      let lines = try await client.value("LOG")["lines"]?.elements ?? []
      #expect(lines.map { $0["message"]?.string } == ["two", "four"])
      try await server.connect().expect("LOGLEVEL", failsWith: "PERMISSION_DENIED")
      #expect(
        server.parts.log.lines.count { $0.contains("the level of the log is changed") } == 2)
    }
  }
}
