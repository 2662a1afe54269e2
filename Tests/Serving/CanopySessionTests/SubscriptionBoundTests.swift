import CanopyEngine
import CanopyTree
import CanopyWire
import Testing

@testable import CanopySession

/// The bounds on the queries of a connection, and on the work when its user changes.
struct SubscriptionBoundTests {
  private static func request(_ path: String, _ limit: Int) throws -> SubscriptionRequest {
    let query = try Query(order: .key, limit: .last(limit))
    return SubscriptionRequest(
      subject: .tree(Listening(try Path(path), query)), since: nil, isAuthorized: true)
  }

  @Test func `a connection has so many different queries at one location and no more`() throws {
    var limits = Limits()
    limits.queriesPerLocationMax = 10
    var session = Session(limits: limits)
    for index in 1...10 { _ = try session.subscribe(try Self.request("a", index), index) }
    for _ in 0..<10 { _ = try session.subscribe(try Self.request("b", 1), 0) }
    // The same query again, and another location.
    let last = try session.subscribe(try Self.request("a", 10), 0)
    for index in 1...9 { _ = try session.subscribe(try Self.request("a/b", index), 0) }
    let error = #expect(throws: WireError.self) {
      try session.subscribe(try Self.request("a", 11), 0)
    }
    expectRefusal(error, of: "LISTEN a with query 11", .tooLarge)
    #expect(
      error?.sentence.hasPrefix("a connection may have at most 10 different queries") == true)
    try session.unsubscribe(last)
    #expect(throws: WireError.self) { try session.subscribe(try Self.request("a", 11), 0) }
    try session.unsubscribe(last - 20)
    _ = try session.subscribe(try Self.request("a", 11), 0)
  }

  private static func login(
    _ name: String = "ada", token: String = "token", expiresAt: Int64 = 1_000
  ) throws -> UserSession {
    UserSession(
      uid: try Key(name), email: "\(name)@example.org", token: token, expiresAt: expiresAt)
  }

  /// Logs in on a session, and returns the actions.
  private static func logIn(
    _ session: inout Session, _ identity: Identity
  ) -> (reauthorizes: Bool, releases: UserSession?) {
    var result: (reauthorizes: Bool, releases: UserSession?) = (false, nil)
    session.receive(.account(.authenticate(token: "t")), bytes: 10)
    while let action = session.nextAction() {
      switch action {
      case .begin(_, let slot): session.finish(slot, Session.Completion(.null, identity: identity))
      case .reauthorize:
        result.reauthorizes = true
        session.reauthorized()
      case .release(let login): result.releases = login
      default: break
      }
    }
    return result
  }

  @Test func `a login as the same caller leaves the subscriptions as they are`() throws {
    var session = Session(limits: Limits())
    _ = try session.subscribe(try Self.request("a", 1), 0)
    let first = try Self.login()
    #expect(Self.logIn(&session, .user(first)) == (true, nil))
    for _ in 0..<3 {
      let again = try Self.login()
      let actions = Self.logIn(&session, .user(again))
      #expect(!actions.reauthorizes && actions.releases === again)
      #expect(session.identity.session === first)
    }
    session.lose()
    guard case .endSubscriptions? = session.nextAction(),
      case .release(let last)? = session.nextAction()
    else {
      Issue.record("the login is not released")
      return
    }
    #expect(last === first)
  }

  @Test
  func `a login as another caller, or after a revocation, authorizes the subscriptions again`()
    throws
  {
    let others: [(name: String, token: String, expiresAt: Int64)] = [
      ("bob", "token", 1_000), ("ada", "other", 1_000), ("ada", "token", 1_001),
    ]
    for other in others {
      var session = Session(limits: Limits())
      _ = try session.subscribe(try Self.request("a", 1), 0)
      let first = try Self.login()
      _ = Self.logIn(&session, .user(first))
      let next = try Self.login(other.name, token: other.token, expiresAt: other.expiresAt)
      #expect(Self.logIn(&session, .user(next)) == (true, first))
      #expect(session.identity.session === next)
      next.revoke()
      let again = try Self.login(other.name, token: other.token, expiresAt: other.expiresAt)
      #expect(Self.logIn(&session, .user(again)) == (true, next))
      #expect(Self.logIn(&session, .administrator) == (true, again))
      #expect(Self.logIn(&session, .administrator) == (false, nil))
      #expect(Self.logIn(&session, .anonymous) == (true, nil))
      #expect(Self.logIn(&session, .anonymous) == (false, nil))
    }
  }
}

private func == (
  _ a: (reauthorizes: Bool, releases: UserSession?), _ b: (Bool, UserSession?)
) -> Bool {
  a.reauthorizes == b.0 && a.releases === b.1
}
