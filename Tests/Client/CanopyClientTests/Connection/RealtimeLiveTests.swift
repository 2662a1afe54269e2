import CanopyAccounts
import CanopyTesting
import CanopyTree
import Synchronization
import Testing

@testable import CanopyClient

/// Messages about the connection and the identity, from a live server over a WebSocket.
@Suite(.timeLimit(.minutes(20))) struct RealtimeLiveTests {
  /// The timers of a client that a test fires itself: all of a minute and more.
  private final class LongTimers: Sendable {
    private let timers = Mutex<[(milliseconds: Int64, body: @Sendable () -> Void)]>([])

    var environment: ClientEnvironment {
      var environment = ClientEnvironment.live
      environment.schedule = { milliseconds, body in
        guard milliseconds >= 60_000 else {
          return ClientEnvironment.live.schedule(milliseconds, body)
        }
        self.timers.withLock { $0.append((milliseconds, body)) }
      }
      return environment
    }

    /// The durations of all timers so far, in milliseconds.
    var milliseconds: [Int64] { timers.withLock { $0.map(\.milliseconds) } }

    func fireLast() {
      timers.withLock { $0.last?.body }?()
    }
  }

  /// Returns the identity token of a session.
  private func identityToken(_ database: Database) async -> String? {
    await withCheckedContinuation { done in
      database.repository.use { done.resume(returning: $0.identityToken?.text) }
    }
  }

  private func signUp(_ database: Database) async throws -> User {
    try await Auth.auth(database: database).createUser(
      withEmail: "ada@example.org", password: "secret words of ada", username: "ada"
    ).user
  }

  /// Observes the connection.
  private func observeConnection(_ database: Database) -> Received<Bool> {
    let states = Received<Bool>()
    database.reference(withPath: ".info/connected").observe(
      .value, with: { states.add($0.value as? Bool ?? false) })
    return states
  }

  @Test(.ported("AuthTests.testAutomaticTokenRefresh"))
  func `an identity token is renewed five minutes before it ends, on the same connection`()
    async throws
  {
    try await withBackend(over: .realtime) { backend in
      let timers = LongTimers()
      let database = try backend.anonymousClient { $0.environment = timers.environment }
      let user = try await signUp(database)
      let states = observeConnection(database)
      await states.wait { $0.last == true }
      let first = await identityToken(database)
      let due = try #require(timers.milliseconds.last)
      #expect((3_290_000...3_300_000).contains(due))
      backend.parts.clock.advance(3_300_000)
      timers.fireLast()
      try await eventually { await identityToken(database) != first }
      // The first token has ended by now, the second has not.
      backend.parts.clock.advance(400_000)
      try await database.reference(withPath: "users/\(user.uid)/username").setValue("ada-2")
      try await eventually { timers.milliseconds.count >= 2 }
      #expect(!states.values.dropFirst(states.values.firstIndex(of: true) ?? 0).contains(false))
    }
  }

  @Test(.ported("AuthTests.testAutomaticTokenRefreshInvalidTokenFailure"))
  func `a renewal that the server refuses signs out`() async throws {
    try await withBackend(over: .realtime) { backend in
      let timers = LongTimers()
      let database = try backend.anonymousClient { $0.environment = timers.environment }
      let user = try await signUp(database)
      try await eventually { !timers.milliseconds.isEmpty }
      try await backend.parts.accounts.setDisabled(true, .uid(user.uid))
      timers.fireLast()
      try await eventually { Auth.auth(database: database).currentUser == nil }
    }
  }

  @Test func `a client whose identity ends early connects again with another token`() async throws {
    try await withBackend(over: .realtime) { backend in
      let rules = #"{"rules":{"mine":{"$uid":{".read":"auth.uid === $uid",".write":true}}}}"#
      try await backend.replaceRules(by: rules)
      let database = try backend.anonymousClient()
      let user = try await signUp(database)
      let mine = database.reference(withPath: "mine/\(user.uid)")
      let log = Received<String>()
      mine.observe(.value, with: { log.add($0.text) }, withCancel: { _ in log.add("cancelled") })
      await log.wait(for: 1)
      let first = await identityToken(database)
      // A new connection looks at the token again when it ends: after 50 ms.
      backend.parts.clock.advance(3_600_000 - 50)
      database.goOffline()
      database.goOnline()
      try await mine.setValue(1)
      backend.parts.clock.advance(50)
      try await eventually {
        let token = await identityToken(database)
        return token != nil && token != first
      }
      try await mine.setValue(2)
      #expect(await log.wait(for: 3) == ["nothing", "1", "2"])
      #expect(Auth.auth(database: database).currentUser?.uid == user.uid)
    }
  }

  @Test func `a client whose session was revoked signs out, and its observers are cancelled`()
    async throws
  {
    try await withBackend(over: .realtime) { backend in
      let rules = #"{"rules":{"mine":{"$uid":{".read":"auth.uid === $uid",".write":true}}}}"#
      try await backend.replaceRules(by: rules)
      let database = try backend.anonymousClient()
      let user = try await signUp(database)
      let log = Received<String>()
      database.reference(withPath: "mine/\(user.uid)").observe(
        .value, with: { log.add($0.text) }, withCancel: { _ in log.add("cancelled") })
      await log.wait(for: 1)
      let other = Auth.auth(database: try backend.anonymousClient())
      try await other.signIn(withEmail: "ada@example.org", password: "secret words of ada")
      try await other.updatePassword(from: "secret words of ada", to: "other words of ada")
      #expect(await log.wait(for: 2) == ["nothing", "cancelled"])
      try await eventually { Auth.auth(database: database).currentUser == nil }
    }
  }

  // MARK: The host

  /// Runs a body with a proxy in front of the server, both with ports of five digits.
  private func withProxy(
    _ body: (Backend, RewritingProxy, _ port: Int) async throws -> Void
  ) async throws {
    try await withBackend(over: .realtime) { backend in
      let proxy = RewritingProxy(target: backend.port)
      let port = try await proxy.start()
      try #require(port >= 10_000 && backend.port >= 10_000)
      try await body(backend, proxy, port)
      try await proxy.stop()
    }
  }

  /// Ends the connection and waits for another.
  private func reconnect(_ database: Database) async throws {
    database.goOffline()
    database.goOnline()
    _ = try await database.reference(withPath: "posts").getData()
  }

  @Test func `later connections go to the host of the handshake`() async throws {
    try await withProxy { backend, proxy, port in
      proxy.replace("127.0.0.1:\(port)", by: "127.0.0.1:\(backend.port)")
      let database = try backend.anonymousClient(through: port)
      let reference = database.reference(withPath: "posts")
      _ = try await reference.getData()
      #expect(proxy.connections == 1)
      for _ in 0..<2 { try await reconnect(database) }
      #expect(proxy.connections == 1)
      #expect(reference.url == "http://127.0.0.1:\(port)/posts")
    }
  }

  @Test func `a host that cannot be reached is given up for that of the URL`() async throws {
    try await withProxy { backend, proxy, port in
      // A port at which no server listens any longer.
      let gone = RewritingProxy(target: backend.port)
      let closed = try await gone.start()
      try await gone.stop()
      try #require(closed >= 10_000)
      proxy.replace("127.0.0.1:\(port)", by: "127.0.0.1:\(closed)")
      let database = try backend.anonymousClient(through: port)
      _ = try await database.reference(withPath: "posts").getData()
      try await reconnect(database)
      #expect(proxy.connections == 2)
    }
  }

  @Test func `a reset sends the client to another host at once, and its observers go on`()
    async throws
  {
    try await withProxy { backend, proxy, port in
      let database = try backend.anonymousClient(through: port)
      let titles = Received<String>()
      database.reference(withPath: "posts/p/title").observe(.value, with: { titles.add($0.text) })
      await titles.wait(for: 1)
      let states = observeConnection(database)
      await states.wait(for: 1)
      try await proxy.send(#"{"t":"c","d":{"t":"r","d":"127.0.0.1:\#(backend.port)"}}"#)
      await states.wait { $0.suffix(2) == [false, true] }
      try await backend.client().reference(withPath: "posts/p/title").setValue("Moths")
      #expect(await titles.wait(for: 2) == ["nothing", "Moths"])
      #expect(proxy.connections == 1)
    }
  }
}
