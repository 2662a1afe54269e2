import CanopyAccounts
import CanopyTesting
import Testing

/// The limits of changes and of sessions, each of which is a transaction or a row of the store.
struct ChangeLimitTests {
  private static func named(_ name: String) -> AccountChanges {
    var changes = AccountChanges()
    changes.displayName = .set(name)
    return changes
  }

  /// Makes changes of an account until one is refused. Returns the number of those that were made.
  private func changes(
    _ fixture: ServiceFixture, _ uid: String, from remote: RemoteNetwork, upTo count: Int
  ) async throws -> Int {
    for number in 0..<count {
      do {
        _ = try await fixture.service.update(uid, Self.named("\(number)"), from: remote)
      } catch AccountError.rateLimited { return number }
    }
    return count
  }

  private func anonymous(_ fixture: ServiceFixture) async throws -> String {
    try await fixture.service.beginSignUp(AccountDraft(), from: .local).account.uid
  }

  @Test(arguments: [ServiceFixture.remote, .local])
  func `changes of one account are limited, from every network`(
    _ remote: RemoteNetwork
  ) async throws {
    let fixture = ServiceFixture { $0.changesMax = 3 }
    let uid = try await anonymous(fixture)
    #expect(try await changes(fixture, uid, from: remote, upTo: 10) == 3)
    #expect(try await fixture.store.account(uid: uid)?.details.displayName == "2")
    let other = try await anonymous(fixture)
    #expect(try await changes(fixture, other, from: remote, upTo: 10) == 3)
    fixture.clock.advance(20_000)
    #expect(try await changes(fixture, uid, from: remote, upTo: 10) == 1)
    _ = try await fixture.service.update(uid, Self.named("x"), from: nil)
    let empty = AccountChanges()
    await #expect(throws: AccountError.rateLimited(retryAfterMilliseconds: 20_000)) {
      try await fixture.service.update(uid, empty, from: remote)
    }
  }

  @Test func `accounts whose uids are canonically equivalent have limits of their own`()
    async throws
  {
    let fixture = ServiceFixture { $0.changesMax = 3 }
    for uid in ["usr\u{E9}", "usre\u{301}"] {
      var draft = AccountDraft()
      draft.uid = uid
      _ = try await fixture.service.createAccount(draft, from: nil)
      #expect(try await changes(fixture, uid, from: .local, upTo: 10) == 3)
      for _ in 0..<3 {
        _ = try await fixture.service.beginCustomLogin(uid: uid, claims: "{}", from: .local)
      }
      await #expect(throws: AccountError.self) {
        try await fixture.service.beginCustomLogin(uid: uid, claims: "{}", from: .local)
      }
    }
  }

  @Test func `changes of the name do not use up the changes of credentials`() async throws {
    let fixture = ServiceFixture { $0.changesMax = 3 }
    let uid = try await anonymous(fixture)
    #expect(try await changes(fixture, uid, from: .local, upTo: 10) == 3)
    var credentials = AccountChanges()
    credentials.email = .set("ada@example.org")
    credentials.password = .set(ServiceFixture.password)
    let account = try await fixture.service.update(uid, credentials, from: .local)
    #expect(account.email == "ada@example.org")
  }

  @Test func `changes from one network are limited, whatever the account`() async throws {
    let fixture = ServiceFixture {
      $0.changesMax = 3
      $0.networkChangesMax = 5
    }
    let uids = [try await anonymous(fixture), try await anonymous(fixture)]
    #expect(try await changes(fixture, uids[0], from: ServiceFixture.remote, upTo: 10) == 3)
    // The refused one has counted for the network.
    #expect(try await changes(fixture, uids[1], from: ServiceFixture.remote, upTo: 10) == 1)
    #expect(
      try await changes(fixture, uids[1], from: RemoteNetwork("192.0.2.2"), upTo: 10) == 2)
  }

  @Test func `custom logins of one account are limited`() async throws {
    let fixture = ServiceFixture { $0.changesMax = 2 }
    for _ in 0..<2 {
      _ = try await fixture.service.beginCustomLogin(uid: "robot", claims: "{}", from: .local)
    }
    await #expect(throws: AccountError.rateLimited(retryAfterMilliseconds: 30_000)) {
      try await fixture.service.beginCustomLogin(uid: "robot", claims: "{}", from: .local)
    }
    _ = try await fixture.service.beginCustomLogin(uid: "other", claims: "{}", from: .local)
  }

  @Test func `an account has a bounded number of sessions, and a new one ends the oldest`()
    async throws
  {
    let fixture = ServiceFixture { $0.sessionsPerAccountMax = 3 }
    var tokens = [try await fixture.signUp().token]
    let other = try await fixture.signUp(email: "bob@example.org", username: "bob").token
    for _ in 0..<4 {
      fixture.clock.advance(1_000)
      tokens.append(try await fixture.logIn().token)
    }
    #expect(await fixture.store.digests.count == 4)
    for token in tokens.dropLast(3) {
      await #expect(throws: AccountError.tokenRefused) {
        try await fixture.service.authenticate(token)
      }
    }
    for token in tokens.suffix(3) + [other] { _ = try await fixture.service.authenticate(token) }
  }

  @Test func `no e-mail address stands for the uid of an account without one`() async throws {
    for text in ["uid:abc@d", " UID:abc@d", "Uid:@d"] { #expect(EmailAddress(text) == nil) }
    for text in ["uid@d", "auid:abc@d", "uid-abc@d"] { #expect(EmailAddress(text) != nil) }
    let fixture = ServiceFixture()
    var draft = AccountDraft()
    draft.uid = "abc@d"
    _ = try await fixture.service.createAccount(draft, from: nil)
    await #expect(throws: AccountError.invalidEmail) {
      try await fixture.service.account(.email("uid:abc@d"))
    }
    await #expect(throws: AccountError.invalidEmail) {
      try await fixture.signUp(email: "uid:abc@d")
    }
    #expect(try await fixture.service.account(.uid("abc@d")).emailNormalized == "uid:abc@d")
  }
}

/// The end of logins while the clock goes back. A login that was given before must end, whatever the clock says.
struct ClockSetBackTests {
  @Test func `an end of logins is after every login that was given`() async throws {
    let fixture = ServiceFixture()
    _ = try await fixture.signUp()
    fixture.clock.advance(60_000)
    let login = try await fixture.service.beginLogin(
      email: ServiceFixture.email, password: ServiceFixture.password, from: .local)
    fixture.clock.advance(-50_000)
    _ = try await fixture.logIn()
    let ended = try await fixture.changePassword(
      in: login.session, to: "engine of 1844")
    let state = try await fixture.service.state(of: login.account.uid)
    #expect(state == .active(validSince: login.time + 1))
    #expect(try await fixture.service.login(ofSession: ended.token).time == login.time + 1)
  }

  @Test func `disabling and enabling ends them too`() async throws {
    let fixture = ServiceFixture()
    let uid = try await fixture.signUp().uid
    let login = try await fixture.service.account(.uid(uid)).latestLogin
    fixture.clock.advance(-10_000)
    try await fixture.service.setDisabled(true, .uid(uid))
    try await fixture.service.setDisabled(false, .uid(uid))
    #expect(try await fixture.service.state(of: uid) == .active(validSince: login + 1))
  }

  @Test func `an account with the uid of a deleted one begins after its logins`() async throws {
    let fixture = ServiceFixture()
    let first = try await fixture.service.beginCustomLogin(
      uid: "robot", claims: "{}", from: .local
    ).login
    try await fixture.service.deleteAccount(uid: "robot")
    fixture.clock.advance(-10_000)
    let second = try await fixture.service.beginCustomLogin(
      uid: "robot", claims: "{}", from: .local
    ).login
    #expect(second.time > first.time)
    #expect(
      try await fixture.service.state(of: "robot") == .active(validSince: second.time))
  }
}
