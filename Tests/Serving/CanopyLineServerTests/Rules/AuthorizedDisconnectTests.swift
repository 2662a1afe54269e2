import CanopyAccounts
import CanopyEngine
import CanopyTesting
import CanopyTree
import NIOCore
import NIOEmbedded
import Testing

@testable import CanopyLineServer
@testable import CanopySession

/// ONDISCONNECT of callers to whom the rules apply.
@Suite(.timeLimit(.minutes(20))) struct AuthorizedDisconnectTests {
  private static let rules = """
    { "rules": {
        "gate": { ".write": true },
        "presence": { ".read": true, "$uid": {
          ".write": "auth.uid === $uid && root.child('gate').val() !== false",
          ".validate": "newData.val() <= now" } },
        "anyone": { ".write": "root.child('gate').val() !== false" }
    } }
    """

  private func kept(_ server: TestServer) async throws -> Int {
    try await server.parts.journal.disconnectWrites().count
  }

  /// Whether all writes have been made and are visible.
  private func isDone(_ server: TestServer) async throws -> Bool {
    try await kept(server) == 0 && !server.parts.engine.hasCommitsUnderWay
  }

  @Test(arguments: Depth.allCases)
  func `a write is authorized for its user, at the time when it is made`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      try await server.set(rules: Self.rules)
      let ada = try await server.connect(as: "ada")
      let uid = try await ada.text("uid", "WHOAMI")
      try await ada.expect("ONDISCONNECT SET /presence/eve 1", failsWith: "PERMISSION_DENIED")
      try await ada.expect(
        "ONDISCONNECT SET /presence/\(uid) \"x\"", failsWith: "PERMISSION_DENIED")
      try await ada.value("ONDISCONNECT SET /presence/\(uid) {\".sv\":\"timestamp\"}")
      // It stays hers after another user logs in on the connection.
      try await ada.value(TestServer.signUp("eve"))
      try await ada.expect("ONDISCONNECT SET /presence/\(uid) 2", failsWith: "PERMISSION_DENIED")
      server.parts.clock.advance(5_000)
      await ada.disconnect()
      try await server.eventually { try await isDone(server) }
      #expect(server.root.at(try Path("presence/\(uid)")) == Node(server.parts.clock.now))
    }
  }

  @Test(arguments: Depth.allCases)
  func `a write that is no longer allowed is dropped, and the others are made`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      try await server.set(rules: Self.rules)
      let ada = try await server.connect(as: "ada")
      let uid = try await ada.text("uid", "WHOAMI")
      // The first of these writes forbids the second one, and allows the fourth again.
      try await ada.value("ONDISCONNECT SET /gate false")
      try await ada.value("ONDISCONNECT SET /presence/\(uid) 1")
      try await ada.value("ONDISCONNECT SET /anyone/x 1")
      try await ada.value("ONDISCONNECT SET /gate/now \"open\"")
      try await ada.value("ONDISCONNECT SET /anyone/y 1")
      #expect(try await kept(server) == 5)
      await ada.disconnect()
      try await server.eventually { try await isDone(server) }
      #expect(
        server.root.at(try Path("anyone")) == (try WriteValue(json: "{\"y\":1}").node))
      #expect(server.root.at(try Path("presence")).isAbsent)
      func lines() -> [String] {
        server.parts.log.lines.filter { $0.contains("do not allow on-disconnect") }
      }
      try await server.eventually { !lines().isEmpty }
      #expect(lines().count == 1 && lines()[0].contains("/anyone/x"))
      #expect(!server.parts.log.lines.contains { $0.hasPrefix("error") })
    }
  }

  @Test(arguments: Depth.allCases)
  func `writes that are tried again are authorized again`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      try await server.set(rules: Self.rules)
      let (nobody, other) = (try await server.connect(), try await server.connect())
      try await nobody.value("ONDISCONNECT SET /anyone/x 1")
      server.parts.journal.plan(.failBefore)
      server.parts.journal.gate.hold()
      await nobody.disconnect()
      await server.parts.journal.gate.reached()
      // Changes the rules as soon as the first attempt has failed, long before the second one.
      try await other.send("SET /gate false\n")
      server.parts.journal.gate.open()
      try await server.eventually {
        server.parts.log.lines.contains { $0.contains("on-disconnect writes failed") }
      }
      try await server.eventually { server.root.at(try Path("gate")) == false }
      if let channel = (nobody as? ChannelClient)?.channel {
        await channel.testingEventLoop.advanceTime(by: .seconds(1))
      }
      try await server.eventually { try await isDone(server) }
      #expect(server.root.at(try Path("anyone")).isAbsent)
    }
  }

  @Test func `the writes of an earlier server are authorized for their users at the next start`()
    async throws
  {
    let parts = try await LineParts()
    let journal = parts.journal
    let engine = Task { await parts.run() }
    _ = try await parts.rules.replace(by: Self.rules, in: parts.engine)
    let uid = try await parts.accounts.createAccount(
      email: "a@b.c", password: "engine of 1843", username: "ada"
    ) { _ in }.uid
    // In the form of an earlier version, which did not store the session.
    let ada = "{\"provider\":\"password\",\"token\":{\"email\":\"a@b.c\"},\"uid\":\"\(uid)\"}"
    for (identity, request) in [
      (ada, "SET /presence/\(uid) 1"), (ada, "SET /presence/eve 1"),
      ("null", "SET /presence/\(uid) 2"),
      ("null", "SET /anyone 1"), ("administrator", "SET /presence/x 1"), ("{", "SET /anyone 2"),
    ] {
      _ = try await journal.changeDisconnectWrites(
        adding: (identity, request), exceptions: [:], removing: [])
    }
    try await parts.operations.carryOutAbandoned()
    #expect(
      parts.engine.root
        == (try WriteValue(json: "{\"anyone\":1,\"presence\":{\"\(uid)\":1,\"x\":1}}").node))
    #expect(try await journal.disconnectWrites().isEmpty)
    #expect(parts.log.lines.count { $0.hasPrefix("error") } == 1, "one cannot be read")
    parts.engine.stop()
    await engine.value
  }

  @Test(arguments: Depth.allCases)
  func `a stored write has the user who asked for it`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      try await server.set(rules: Self.rules)
      let client = try await server.connect()
      try await client.value("ONDISCONNECT SET /anyone/a 1")
      try await client.value("ONDISCONNECT SET /gate true")
      let signedUp = try await client.value(TestServer.signUp("ada"))
      let uid = try #require(signedUp["uid"]?.string)
      let token = try #require(signedUp["token"]?.string)
      let digest = try #require(TokenDigest(token: token))
      try await client.value("ONDISCONNECT SET /anyone/b 1")
      try await client.value("AUTH \(server.administratorToken)")
      try await client.value("ONDISCONNECT SET /anyone/c 1")
      let auth =
        "{\"provider\":\"password\",\"token\":{\"email\":\"ada@example.org\"},\"uid\":\"\(uid)\"}"
      #expect(
        try await server.parts.journal.disconnectWrites().map(\.identity)
          == [
            "null", "null", "{\"auth\":\(auth),\"session\":\"\(digest.text)\"}", "administrator",
          ])
    }
  }
}
