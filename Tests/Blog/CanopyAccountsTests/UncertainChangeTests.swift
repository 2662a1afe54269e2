import CanopyAccounts
import CanopyTesting
import Synchronization
import Testing

/// Changes that a later failure makes uncertain, sign-ups in one step, and the observers of changes.
struct UncertainChangeTests {
  /// The users whose changes an observer has heard of, and the tokens that new sessions have ended.
  private final class Heard: Sendable {
    private let changes = Mutex<[String]>([])
    private let ends = Mutex<[(uid: String, tokens: Set<TokenDigest>)]>([])

    func observe(_ service: AccountService) {
      service.add(
        AccountObserver { [self] uid in
          changes.withLock { $0.append(uid) }
        } sessionsEnded: { [self] uid, tokens in
          ends.withLock { $0.append((uid, tokens)) }
        })
    }

    var changed: [String] { changes.withLock { $0 } }
    var ended: [(uid: String, tokens: Set<TokenDigest>)] { ends.withLock { $0 } }
  }

  @Test func `a change whose store fails late is uncertain, and one that is refused is not`()
    async throws
  {
    let fixture = ServiceFixture()
    let session = try await fixture.signUp()
    await fixture.store.failAfterNextChange(with: Planned())
    let error = await #expect(throws: UncertainChange.self) {
      try await fixture.changePassword(in: session, to: "engine of 1844")
    }
    #expect(error?.uid == session.uid && error?.reason is Planned)
    let next = try await fixture.logIn("engine of 1844")
    await #expect(throws: AccountError.credentialsRefused) {
      try await fixture.changePassword(in: next, "wrong words", to: "engine of 1845")
    }
    await fixture.store.failAfterNextChange(with: Planned())
    await #expect(throws: UncertainChange.self) {
      try await fixture.service.deleteAccount(uid: session.uid)
    }
    await #expect(throws: AccountError.notFound) {
      try await fixture.service.deleteAccount(uid: session.uid)
    }
  }

  @Test func `a password change without a new session is uncertain, because it was made`()
    async throws
  {
    let fixture = ServiceFixture()
    let first = try await fixture.signUp()
    await fixture.store.beforeNextToken { throw Planned() }
    await #expect(throws: UncertainChange.self) {
      try await fixture.changePassword(in: first, to: "engine of 1844")
    }
    let second = try await fixture.logIn("engine of 1844")
    await fixture.store.beforeNextToken { [store = fixture.store] in
      _ = try await store.setDisabled(true, uid: first.uid)
    }
    await #expect(throws: UncertainChange.self) {
      try await fixture.changePassword(in: second, "engine of 1844", to: "engine of 1845")
    }
  }

  @Test func `an account without a password and its session are added in one step`() async throws {
    let fixture = ServiceFixture()
    // A second step would fail.
    await fixture.store.beforeNextToken { throw Planned() }
    let login = try await fixture.service.beginSignUp(AccountDraft(), from: .local)
    #expect(try await fixture.service.authenticate(login.session.token) == login.session)
    let account = try await fixture.service.account(.uid(login.account.uid))
    #expect(account == login.account && account.details.lastLoginAt == fixture.clock.now)
    await fixture.store.fail(with: Planned())
    await #expect(throws: Planned.self) {
      try await fixture.service.beginSignUp(AccountDraft(), from: .local)
    }
    await fixture.store.fail(with: nil)
    #expect(await fixture.store.all.count == 1)
    #expect(await fixture.store.digests.count == 1)
  }

  @Test func `observers hear of the sessions that a new one ends`() async throws {
    let fixture = ServiceFixture { $0.sessionsPerAccountMax = 2 }
    let heard = Heard()
    heard.observe(fixture.service)
    var tokens = [try await fixture.signUp().token]
    for _ in 0..<3 {
      fixture.clock.advance(1_000)
      tokens.append(try await fixture.logIn().token)
    }
    let uid = try await fixture.service.account(.email(ServiceFixture.email)).uid
    #expect(heard.ended.map(\.uid) == [uid, uid])
    let digests = try tokens.prefix(2).map { Set([try #require(TokenDigest(token: $0))]) }
    #expect(heard.ended.map(\.tokens) == digests)
  }

  @Test func `observers hear of changes, also of one that fails late`() async throws {
    let fixture = ServiceFixture()
    let uid = try await fixture.signUp().uid
    let heard = Heard()
    heard.observe(fixture.service)
    var named = AccountChanges()
    named.displayName = .set("Ada")
    let changes = named
    _ = try await fixture.service.update(uid, changes, from: nil)
    await fixture.store.failAfterNextChange(with: Planned())
    await #expect(throws: UncertainChange.self) {
      try await fixture.service.update(uid, changes, from: nil)
    }
    _ = try await fixture.logIn()
    #expect(heard.changed == [uid, uid])
  }

  @Test func `a new address counts as a sign-up of the network, whether it is taken or not`()
    async throws
  {
    let fixture = ServiceFixture { $0.signUpsMax = 4 }
    try await fixture.signUp()
    let login = try await fixture.service.beginSignUp(AccountDraft(), from: .local)
    func move(to email: String, from remote: RemoteNetwork?) async throws {
      var changes = AccountChanges()
      changes.email = .set(email)
      _ = try await fixture.service.update(login.account.uid, changes, from: remote)
    }
    for _ in 0..<2 {
      await #expect(throws: AccountError.taken) {
        try await move(to: ServiceFixture.email, from: ServiceFixture.remote)
      }
    }
    try await move(to: "bob@example.org", from: ServiceFixture.remote)
    // The same address in another spelling reveals nothing.
    try await move(to: "Bob@example.org", from: ServiceFixture.remote)
    for email in [ServiceFixture.email, "eve@example.org"] {
      await #expect(throws: AccountError.rateLimited(retryAfterMilliseconds: 60_000)) {
        try await move(to: email, from: ServiceFixture.remote)
      }
    }
    try await move(to: "eve@example.org", from: nil)
  }

  @Test func `a limiter says how long to wait without counting`() {
    var limiter = RateLimiter<String>(attemptsMax: 2, windowMilliseconds: 1_000, keysMax: 1)
    for _ in 0..<9 { #expect(limiter.wait("a", now: 0) == nil) }
    for _ in 0..<2 { #expect(limiter.take("a", now: 0) == nil) }
    #expect(limiter.wait("a", now: 0) == 500 && limiter.wait("a", now: 499) == 1)
    #expect(limiter.wait("a", now: 500) == nil)
  }
}
