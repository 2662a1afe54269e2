import CanopyAccounts
import CanopyEngine
import CanopyIdentity
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyLineServer
@testable import CanopySession

/// Open connections whose session ends in the store, or whose account changes.
@Suite(.timeLimit(.minutes(20))) struct SessionEndTests {
  private static let login = "LOGIN \(TestServer.email("ada")) \"\(TestServer.password("ada"))\""
  private static let change = "PASSWORD \"\(TestServer.password("ada"))\" \"other words of ada\""
  private static let rules = #"{"rules":{"own":{".read":"auth != null"}}}"#

  private func withRules(
    _ depth: Depth, _ rules: String = Self.rules, sessionsMax: Int = 100,
    _ body: (TestServer) async throws -> Void
  ) async throws {
    try await withServer(depth) {
      $0.identity = IdentitySettings()
      $0.accounts.sessionsPerAccountMax = sessionsMax
    } _: { server in
      try await server.set(rules: rules)
      try await body(server)
    }
  }

  /// Expects that a connection with a subscription to `/own` has neither a user nor the subscription.
  private func expectEnded(_ client: any LineClient) async throws {
    #expect(try await client.event().name == "cancel")
    try await client.expect("WHOAMI", "+null")
  }

  @Test(arguments: Depth.allCases)
  func `a login that ends the oldest session of its account ends its open connections`(
    _ depth: Depth
  ) async throws {
    try await withRules(depth, sessionsMax: 2) { server in
      let first = try await server.connect(as: "ada")
      _ = try await first.begin("LISTEN /own")
      server.parts.clock.advance(1_000)
      let second = try await server.connect()
      try await second.value(Self.login)
      try await first.expect("WHOAMI", hasPrefix: "+{")
      server.parts.clock.advance(1_000)
      let third = try await server.connect()
      try await third.value(Self.login)
      try await expectEnded(first)
      for client in [second, third] { try await client.expect("WHOAMI", hasPrefix: "+{") }
    }
  }

  @Test(arguments: Depth.allCases)
  func `AUTH with the same token renews the claims that the rules see`(
    _ depth: Depth
  ) async throws {
    let rules = #"{"rules":{"own":{".read":"auth.token.name === 'Ada'"}}}"#
    try await withRules(depth, rules) { server in
      let client = try await server.connect()
      let session = try await client.value(TestServer.signUp("ada"))
      let (uid, token) = (
        try #require(session["uid"]?.string), try #require(session["token"]?.string)
      )
      func name(_ text: AccountChanges.Text) async throws {
        var changes = AccountChanges()
        changes.displayName = text
        _ = try await server.parts.accounts.update(uid, changes, from: nil)
      }
      try await name(.set("Ada"))
      try await client.expect("GET /own", failsWith: "PERMISSION_DENIED")
      try await client.value("AUTH \(token)")
      try await client.expect("GET /own", "+null")
      _ = try await client.begin("LISTEN /own")
      try await client.value("AUTH \(token)")
      try await client.expect("GET /own", "+null")
      try await name(.remove)
      let (events, reply) = try await client.events(until: "AUTH \(token)")
      #expect(events.map(\.name) == ["cancel"] && reply.first == "+")
      try await client.expect("GET /own", failsWith: "PERMISSION_DENIED")
      try await server.eventually { server.parts.operations.sessions.count == 1 }
    }
  }

  @Test(arguments: Depth.allCases)
  func `a change of the password without a new session ends the subscriptions of all connections`(
    _ depth: Depth
  ) async throws {
    try await withRules(depth) { server in
      let first = try await server.connect()
      let uid = try await first.text("uid", TestServer.signUp("ada"))
      let second = try await server.connect()
      try await second.value(Self.login)
      for client in [first, second] { _ = try await client.begin("LISTEN /own") }
      let store = server.parts.accountStore
      await store.beforeNextToken { _ = try await store.setDisabled(true, uid: uid) }
      try await first.send(Self.change + "\n")
      for client in [first, second] { #expect(try await client.event().name == "cancel") }
      try await first.expectNext(to: Self.change, failsWith: "UNAVAILABLE")
      for client in [first, second] { try await client.expect("WHOAMI", "+null") }
      #expect(server.parts.engine.authorizationCounts.authorizations == 0)
    }
  }

  @Test(arguments: Depth.allCases)
  func `a store that fails after RESET or DELETEACCOUNT was made says that it may have been`(
    _ depth: Depth
  ) async throws {
    try await withRules(depth) { server in
      let (ada, stranger) = (try await server.connect(as: "ada"), try await server.connect())
      _ = try await ada.begin("LISTEN /own")
      try await stranger.value("FORGOT \(TestServer.email("ada"))")
      try await server.eventually { server.parts.codes.all.count == 1 }
      let code = try #require(server.parts.codes.all.first?.text)
      await server.parts.accountStore.failAfterNextChange(with: PlannedFailure())
      try await stranger.expect(
        "RESET \(code) \"other words of ada\"", failsWith: "UNAVAILABLE", "may have been made")
      try await expectEnded(ada)
      try await ada.value("LOGIN \(TestServer.email("ada")) \"other words of ada\"")
      _ = try await ada.begin("LISTEN /own")
      await server.parts.accountStore.failAfterNextChange(with: PlannedFailure())
      try await ada.send("DELETEACCOUNT\n")
      #expect(try await ada.event().name == "cancel")
      try await ada.expectNext(to: "DELETEACCOUNT", failsWith: "UNAVAILABLE")
      try await ada.expect("WHOAMI", "+null")
      #expect(server.parts.log.lines.count { $0.contains("the store failed") } == 2)
    }
  }
}
