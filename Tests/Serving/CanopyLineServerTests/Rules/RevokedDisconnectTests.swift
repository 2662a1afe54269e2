import CanopyAccounts
import CanopyEngine
import CanopyTesting
import CanopyTree
import CanopyWire
import Testing

@testable import CanopyLineServer
@testable import CanopySession

/// On-disconnect writes of sessions that have ended.
@Suite(.timeLimit(.minutes(20))) struct RevokedDisconnectTests {
  private static let rules = """
    { "rules": { "presence": { "$uid": { ".write": "auth.uid === $uid" } } } }
    """
  private static let login = "LOGIN ada@example.org \"secret words of ada\""
  private static let change = "PASSWORD \"secret words of ada\" \"other words of ada\""

  private func isDone(_ server: TestServer) async throws -> Bool {
    try await server.parts.journal.disconnectWrites().isEmpty
      && !server.parts.engine.hasCommitsUnderWay
  }

  /// Registers a write on one of Ada's two connections, calls `act` with both, ends the first one, and
  /// checks whether the write was made.
  private func check(
    isMade: Bool, _ depth: Depth, location: SourceLocation = #_sourceLocation,
    after act: (TestServer, _ armed: any LineClient, _ other: any LineClient, String) async throws
      -> Void
  ) async throws {
    try await withServer(depth) {
      $0.accounts.tokenLifetimeMilliseconds = 10_000
    } _: { server in
      _ = try await server.parts.rules.replace(by: Self.rules, in: server.parts.engine)
      let (armed, other) = (try await server.connect(), try await server.connect())
      let ada = try await armed.value(TestServer.signUp("ada"))
      let (uid, token) = (
        try #require(ada["uid"]?.string), try #require(ada["token"]?.string)
      )
      try await other.value(Self.login)
      try await armed.value("ONDISCONNECT SET /presence/\(uid) \"gone\"")
      try await act(server, armed, other, token)
      await armed.disconnect()
      try await server.eventually { try await isDone(server) }
      let presence = server.root.at(try Path("presence/\(uid)"))
      #expect(!presence.isAbsent == isMade, sourceLocation: location)
      let log = server.parts.log.lines
      #expect(!log.contains { $0.contains("rules do not allow") || $0.hasPrefix("error") })
      #expect(log.contains { $0.contains("have been revoked") } == !isMade)
      // The store keeps no sessions without writes.
      try await server.eventually { server.parts.operations.sessions.armedCount == 0 }
    }
  }

  @Test(arguments: Depth.allCases)
  func `a write is made while its session is valid`(_ depth: Depth) async throws {
    try await check(isMade: true, depth) { _, _, other, _ in try await other.value("LOGOUT") }
  }

  @Test(arguments: Depth.allCases)
  func `a write is dropped after its token was revoked on another connection`(
    _ depth: Depth
  ) async throws {
    try await check(isMade: false, depth) { _, _, other, token in
      try await other.value("AUTH \(token)")
      try await other.value("LOGOUT")
    }
    try await check(isMade: false, depth) { _, _, other, _ in try await other.value(Self.change) }
  }

  @Test(arguments: Depth.allCases)
  func `a write is dropped after its own connection has logged out`(_ depth: Depth) async throws {
    try await check(isMade: false, depth) { _, armed, _, _ in try await armed.value("LOGOUT") }
  }

  @Test(arguments: Depth.allCases)
  func `a revocation applies to the write after another user logs in on the connection`(
    _ depth: Depth
  ) async throws {
    try await check(isMade: true, depth) { _, armed, _, _ in
      try await armed.value(TestServer.signUp("eve"))
    }
    try await check(isMade: false, depth) { _, armed, other, _ in
      try await armed.value(TestServer.signUp("eve"))
      try await other.value(Self.change)
    }
  }

  @Test(arguments: Depth.allCases)
  func `a write is made after its own connection has changed the password`(
    _ depth: Depth
  ) async throws {
    try await check(isMade: true, depth) { _, armed, _, _ in try await armed.value(Self.change) }
    // It is dropped when the new session is revoked.
    try await check(isMade: false, depth) { _, armed, other, _ in
      try await armed.value(Self.change)
      try await other.value("LOGIN ada@example.org \"other words of ada\"")
      try await other.value("PASSWORD \"other words of ada\" \"third words of ada\"")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a write stays with its connection when CONFIRM renews the session`(
    _ depth: Depth
  ) async throws {
    try await check(isMade: true, depth) { _, armed, _, _ in try await armed.value(Self.confirm) }
    // The session of the connection decides from then on, and no longer the earlier one.
    try await check(isMade: true, depth) { _, armed, other, token in
      try await armed.value(Self.confirm)
      try await other.value("AUTH \(token)")
      try await other.value("LOGOUT")
    }
    try await check(isMade: false, depth) { _, armed, _, _ in
      try await armed.value(Self.confirm)
      try await armed.value("LOGOUT")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a write stays with its session when the same user logs in again`(
    _ depth: Depth
  ) async throws {
    try await check(isMade: true, depth) { _, armed, _, _ in
      try await armed.value(Self.login)
      try await armed.value("LOGOUT")
    }
    try await check(isMade: false, depth) { _, armed, other, token in
      try await armed.value(Self.login)
      try await other.value("AUTH \(token)")
      try await other.value("LOGOUT")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a write is made after its session has expired`(_ depth: Depth) async throws {
    try await check(isMade: true, depth) { server, armed, _, _ in
      server.parts.clock.advance(10_000)
      let identity = try await armed.request("WHOAMI")
      #expect(identity == "+null")
    }
  }

  /// Arms a write, calls `act`, and checks whether the next start would make the write if the server died then.
  private func checkNextStart(
    isMade: Bool, _ depth: Depth, location: SourceLocation = #_sourceLocation,
    after act: (TestServer, _ armed: any LineClient, _ other: any LineClient, String) async throws
      -> Void
  ) async throws {
    try await withServer(depth) { server in
      _ = try await server.parts.rules.replace(by: Self.rules, in: server.parts.engine)
      let (armed, other) = (try await server.connect(), try await server.connect())
      let ada = try await armed.value(TestServer.signUp("ada"))
      let (uid, token) = (
        try #require(ada["uid"]?.string), try #require(ada["token"]?.string)
      )
      try await armed.value("ONDISCONNECT SET /presence/\(uid) \"gone\"")
      try await armed.value("ONDISCONNECT SET /presence/\(uid)/x \"gone\"")
      try await act(server, armed, other, token)
      let kept = try await server.parts.journal.disconnectWrites()
      #expect(kept.count == 2 && Set(kept.map(\.group)).count == 1, sourceLocation: location)
      // The connections are still open: the writes are made as those of a process that has died.
      try await server.parts.operations.carryOutAbandoned()
      let presence = server.root.at(try Path("presence/\(uid)"))
      #expect(!presence.isAbsent == isMade, sourceLocation: location)
      #expect(try await server.parts.journal.disconnectWrites().isEmpty)
    }
  }

  /// Checks that the writes belong to the session that a request opens: they are denied when it ends.
  private func checkRenewal(
    by request: String, _ depth: Depth, location: SourceLocation = #_sourceLocation
  ) async throws {
    try await checkNextStart(isMade: true, depth, location: location) { _, armed, _, _ in
      try await armed.value(request)
    }
    try await checkNextStart(isMade: false, depth, location: location) { _, armed, _, _ in
      try await armed.value(request)
      try await armed.value("LOGOUT")
    }
  }

  private static let confirm = "CONFIRM ada@example.org \"secret words of ada\""

  @Test(arguments: Depth.allCases)
  func `after CONFIRM and a crash the renewed session decides`(_ depth: Depth) async throws {
    try await checkRenewal(by: Self.confirm, depth)
    try await checkNextStart(isMade: false, depth) { _, armed, other, _ in
      let token = try await armed.value(Self.confirm)["token"]?.string ?? ""
      try await other.value("AUTH \(token)")
      try await other.value("LOGOUT")
    }
    // The earlier session no longer counts.
    try await checkNextStart(isMade: true, depth) { _, armed, other, token in
      try await armed.value(Self.confirm)
      try await armed.value(Self.confirm)
      try await other.value("AUTH \(token)")
      try await other.value("LOGOUT")
    }
  }

  @Test(arguments: Depth.allCases)
  func `after PASSWORD and a crash the renewed session decides`(_ depth: Depth) async throws {
    try await checkRenewal(by: Self.change, depth)
  }

  @Test(arguments: Depth.allCases)
  func `after another login and a crash a write stays with the login that armed it`(
    _ depth: Depth
  ) async throws {
    try await checkNextStart(isMade: true, depth) { _, armed, _, _ in
      try await armed.value(Self.login)
      try await armed.value(Self.confirm)
      try await armed.value("LOGOUT")
    }
    try await checkNextStart(isMade: false, depth) { _, armed, other, token in
      try await armed.value(Self.login)
      try await armed.value(Self.confirm)
      try await other.value("AUTH \(token)")
      try await other.value("LOGOUT")
    }
  }

  @Test(arguments: Depth.allCases)
  func
    `if the store cannot keep a write with the renewed session, CONFIRM fails and changes nothing`(
      _ depth: Depth
    ) async throws
  {
    try await checkNextStart(isMade: false, depth) { server, armed, _, token in
      server.parts.journal.fail(true)
      try await armed.expect(Self.confirm, failsWith: "UNAVAILABLE")
      server.parts.journal.fail(false)
      #expect(server.parts.operations.sessions.count == 1)
      // The connection keeps its login.
      let isKept = try await armed.value("WHOAMI")["uid"] != nil
      #expect(isKept)
      try await armed.value("LOGOUT")
    }
  }

  @Test(arguments: Depth.allCases)
  func `if the store cannot keep a write with the renewed session, a new password is uncertain`(
    _ depth: Depth
  ) async throws {
    try await checkNextStart(isMade: false, depth) { server, armed, other, _ in
      server.parts.journal.fail(true)
      try await armed.expect(Self.change, contains: "may have been made or not")
      server.parts.journal.fail(false)
      #expect(server.parts.operations.sessions.count <= 1)
      try await armed.expect("WHOAMI", "+null")
      try await other.value("LOGIN ada@example.org \"other words of ada\"")
    }
  }

  @Test func `at the start a write is made if its token is still valid, or its account active`()
    async throws
  {
    let parts = try await LineParts()
    let engine = Task { await parts.run() }
    _ = try await parts.rules.replace(by: Self.rules, in: parts.engine)
    var expected: [String] = []
    /// Stores a write of a new account, in the present form or in that of an earlier version.
    func keep(
      _ name: String, withSession: Bool = true, isMade: Bool,
      after act: (CanopyAccounts.Session) async throws -> Void
    ) async throws {
      let session = try await parts.accounts.signUp(
        email: "\(name)@x", password: "secret words", username: name, from: .local
      ) { _ in }
      let auth = "{\"uid\":\"\(session.uid)\"}"
      let digest = try #require(TokenDigest(token: session.token)).text
      let identity = withSession ? "{\"auth\":\(auth),\"session\":\"\(digest)\"}" : auth
      _ = try await parts.journal.changeDisconnectWrites(
        adding: (identity, "SET /presence/\(session.uid) 1"), exceptions: [:], removing: [])
      try await act(session)
      if isMade { expected.append(session.uid) }
    }
    let accounts = parts.accounts
    try await keep("expired", isMade: false) { _ in parts.clock.advance(30 * 86_400_000) }
    try await keep("valid", isMade: true) { _ in }
    try await keep("revoked", isMade: false) { try await accounts.logOut($0.token) }
    try await keep("disabled", isMade: false) {
      try await accounts.setDisabled(true, .uid($0.uid))
    }
    try await keep("old", withSession: false, isMade: true) {
      try await accounts.logOut($0.token)
    }
    try await keep("old-disabled", withSession: false, isMade: false) {
      try await accounts.setDisabled(true, .uid($0.uid))
    }
    for identity in ["{\"uid\":\"nobody\"}", "{\"auth\":{\"uid\":\"nobody\"},\"session\":\"x\"}"] {
      _ = try await parts.journal.changeDisconnectWrites(
        adding: (identity, "SET /presence/nobody 1"), exceptions: [:], removing: [])
    }
    try await parts.operations.carryOutAbandoned()
    let presence = try WriteValue(
      json: "{\(expected.map { "\"\($0)\":1" }.joined(separator: ","))}"
    ).node
    #expect(parts.engine.root.at(try Path("presence")) == presence)
    #expect(try await parts.journal.disconnectWrites().isEmpty)
    #expect(parts.log.lines.count { $0.hasPrefix("error") } == 1, "one cannot be read")
    parts.engine.stop()
    await engine.value
  }

  @Test func `at the start a write of an identity token is made if the token is still valid`()
    async throws
  {
    let parts = try await LineParts()
    let engine = Task { await parts.run() }
    _ = try await parts.rules.replace(by: Self.rules, in: parts.engine)
    let second = parts.clock.now / 1_000
    var expected: [String] = []
    /// Arms a write as a new user who has logged in by an identity token, which the store does not know.
    func arm(
      _ name: String, expiry: Int64, isMade: Bool,
      after act: (CanopyAccounts.Session) async throws -> Void
    ) async throws {
      let session = try await parts.accounts.signUp(
        email: "\(name)@x", password: "secret words", username: name, from: .local
      ) { _ in }
      let auth = try WriteValue(
        json: "{\"uid\":\"\(session.uid)\",\"provider\":\"password\",\"token\":"
          + "{\"sub\":\"\(session.uid)\",\"auth_time\":\(second),\"exp\":\(expiry)}}"
      ).node
      let login = UserSession(
        uid: try Key(session.uid), email: "\(name)@x", token: "an.identity.token",
        expiresAt: expiry * 1_000, auth: auth)
      let text = "ONDISCONNECT SET /presence/\(session.uid) 1"
      let request = try Array(text.utf8).withUnsafeBytes {
        try Request(line: $0, limits: Limits())
      }
      guard case .connection(.onDisconnect(let request, let text)) = request else {
        throw PlannedFailure()
      }
      let completion = await parts.operations.onDisconnect(
        request, text: text, as: .user(login), [])
      #expect(completion.armed?.count == 1)
      try await act(session)
      if isMade { expected.append(session.uid) }
    }
    let accounts = parts.accounts
    try await arm("valid", expiry: second + 101, isMade: true) { _ in }
    try await arm("expired", expiry: second + 100, isMade: false) { _ in }
    try await arm("revoked", expiry: second + 3_600, isMade: false) {
      var changes = AccountChanges()
      changes.endsLogins = true
      _ = try await accounts.update($0.uid, changes, from: nil)
    }
    try await arm("password", expiry: second + 3_600, isMade: false) {
      _ = try await accounts.changePassword(
        uid: $0.uid, session: $0.token, current: "secret words", new: "other words of mine",
        from: .local)
    }
    try await arm("disabled", expiry: second + 3_600, isMade: false) {
      try await accounts.setDisabled(true, .uid($0.uid))
    }
    parts.clock.advance(100_000)
    try await parts.operations.carryOutAbandoned()
    let presence = try WriteValue(
      json: "{\(expected.map { "\"\($0)\":1" }.joined(separator: ","))}"
    ).node
    #expect(parts.engine.root.at(try Path("presence")) == presence)
    #expect(try await parts.journal.disconnectWrites().isEmpty)
    #expect(!parts.log.lines.contains { $0.hasPrefix("error") })
    parts.engine.stop()
    await engine.value
  }
}
