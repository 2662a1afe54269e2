import CanopyAccounts
import CanopyTesting
import Testing

@Suite struct ChangePasswordTests {
  private let fixture = ServiceFixture()
  private let new = "difference 1822"

  @Test func `a change revokes every token and issues a new one`() async throws {
    let first = try await fixture.signUp()
    let second = try await fixture.logIn()
    let changed = try await fixture.changePassword(in: first, to: new)
    #expect(changed.uid == first.uid)
    #expect(try await fixture.service.authenticate(changed.token) == changed)
    for token in [first.token, second.token] {
      await #expect(throws: AccountError.tokenRefused) {
        _ = try await fixture.service.authenticate(token)
      }
    }
    #expect(await fixture.refusal(of: ServiceFixture.password).error == .credentialsRefused)
    _ = try await fixture.logIn(new)
  }

  @Test func `a refused change has no effect`() async throws {
    let session = try await fixture.signUp()
    let refused: [(current: String, new: String, error: AccountError)] = [
      ("wrong password", new, .credentialsRefused),
      (ServiceFixture.password, "short", .invalidPassword(.tooShort)),
      (ServiceFixture.password, "password1", .invalidPassword(.tooCommon)),
      (ServiceFixture.password, ServiceFixture.email, .invalidPassword(.sameAsEmail)),
    ]
    for (current, new, error) in refused {
      await #expect(throws: error) {
        _ = try await fixture.changePassword(in: session, current, to: new)
      }
    }
    #expect(try await fixture.service.authenticate(session.token) == session)
    _ = try await fixture.logIn()
  }

  @Test func `failed logins of strangers do not prevent the user's change of the password`()
    async throws
  {
    let session = try await fixture.signUp()
    for _ in 0..<5 {
      #expect(await fixture.refusal(of: "wrong password").error == .credentialsRefused)
    }
    #expect(
      await fixture.refusal(of: ServiceFixture.password).error
        == .rateLimited(retryAfterMilliseconds: 1_000))
    let changed = try await fixture.changePassword(in: session, to: new)
    #expect(try await fixture.service.authenticate(changed.token) == changed)
    _ = try await fixture.logIn(new)
  }

  @Test func `a stolen session permits five guesses, and does not affect the user's session`()
    async throws
  {
    let borrowed = try await fixture.signUp()
    let own = try await fixture.logIn()
    for _ in 0..<5 {
      await #expect(throws: AccountError.credentialsRefused) {
        _ = try await fixture.changePassword(in: borrowed, "wrong password", to: new)
      }
    }
    let before = fixture.function.count
    for wait in [1_000, 600] as [Int64] {
      await #expect(throws: AccountError.rateLimited(retryAfterMilliseconds: wait)) {
        _ = try await fixture.changePassword(in: borrowed, to: new)
      }
      fixture.clock.advance(400)
    }
    #expect(fixture.function.count == before)
    fixture.clock.advance(200)
    await #expect(throws: AccountError.credentialsRefused) {
      _ = try await fixture.changePassword(in: borrowed, "wrong password", to: new)
    }
    await #expect(throws: AccountError.rateLimited(retryAfterMilliseconds: 2_000)) {
      _ = try await fixture.changePassword(in: borrowed, to: new)
    }
    _ = try await fixture.logIn()
    _ = try await fixture.changePassword(in: own, to: new)
  }

  @Test func `changes that succeed are limited for each account, and each counts as two logins`()
    async throws
  {
    let fixture = ServiceFixture { $0.loginsMax = 6 }
    var session = try await fixture.signUp()
    let passwords = [ServiceFixture.password, new]
    for number in 0..<3 {
      session = try await fixture.changePassword(
        in: session, passwords[number % 2], to: passwords[1 - number % 2],
        from: RemoteNetwork("192.0.2.\(10 + number)"))
    }
    let before = fixture.function.count
    await #expect(throws: AccountError.rateLimited(retryAfterMilliseconds: 10_000)) {
      _ = try await fixture.changePassword(in: session, new, to: ServiceFixture.password)
    }
    #expect(fixture.function.count == before)
    #expect(try await fixture.service.authenticate(session.token) == session)
    let other = try await fixture.signUp(email: "eve@example.org", username: "eve")
    _ = try await fixture.changePassword(in: other, to: new)
    _ = try await fixture.logIn(new)
    fixture.clock.advance(10_000)
    _ = try await fixture.changePassword(
      in: session, new, to: ServiceFixture.password, from: .local)
  }

  @Test func `changes from one network are limited as logins are, whatever the account`()
    async throws
  {
    let fixture = ServiceFixture { $0.loginsMax = 4 }
    var sessions: [Session] = []
    for name in ["ada", "eve", "bob"] {
      sessions.append(try await fixture.signUp(email: "\(name)@example.org", username: name))
    }
    for session in sessions.dropLast() {
      _ = try await fixture.changePassword(in: session, to: new)
    }
    let before = fixture.function.count
    await #expect(throws: AccountError.rateLimited(retryAfterMilliseconds: 15_000)) {
      _ = try await fixture.changePassword(in: sessions[2], to: new)
    }
    var changes = AccountChanges()
    changes.password = .set(new)
    await #expect(throws: AccountError.rateLimited(retryAfterMilliseconds: 15_000)) {
      _ = try await fixture.service.update(
        sessions[2].uid, changes, from: ServiceFixture.remote)
    }
    // The network has no logins left either.
    await #expect(throws: AccountError.rateLimited(retryAfterMilliseconds: 15_000)) {
      _ = try await fixture.logIn(email: "bob@example.org")
    }
    #expect(fixture.function.count == before)
    // Other networks have, and this machine has no limit.
    for remote in [RemoteNetwork("192.0.2.2"), .local] {
      _ = try await fixture.logIn(email: "bob@example.org", from: remote)
    }
    _ = try await fixture.changePassword(in: sessions[2], to: new, from: .local)
  }

  @Test func `attempts that must wait in a stolen session do not use up the user's changes`()
    async throws
  {
    let fixture = ServiceFixture { $0.loginsMax = 12 }
    let borrowed = try await fixture.signUp()
    let own = try await fixture.logIn()
    for _ in 0..<5 {
      await #expect(throws: AccountError.credentialsRefused) {
        _ = try await fixture.changePassword(in: borrowed, "wrong password", to: new)
      }
    }
    for _ in 0..<20 {
      await #expect(throws: AccountError.rateLimited(retryAfterMilliseconds: 1_000)) {
        _ = try await fixture.changePassword(in: borrowed, "wrong password", to: new)
      }
    }
    _ = try await fixture.changePassword(in: own, to: new)
  }

  @Test func `a missing or disabled account is refused`() async throws {
    let session = try await fixture.signUp()
    for (uid, token) in [("nobody", session.token), (session.uid, "no token")] {
      await #expect(throws: AccountError.tokenRefused) {
        _ = try await fixture.service.changePassword(
          uid: uid, session: token, current: ServiceFixture.password, new: new,
          from: ServiceFixture.remote)
      }
    }
    try await fixture.service.setDisabled(true, .uid(session.uid))
    await #expect(throws: AccountError.disabled) {
      _ = try await fixture.changePassword(in: session, to: new)
    }
  }

  @Test func `after five simultaneous changes there is one password and one token`() async throws {
    let session = try await fixture.signUp()
    let fixture = fixture
    let changed = await withTaskGroup(of: (Int, Session)?.self) { group in
      for number in 0..<5 {
        group.addTask {
          let session = try? await fixture.changePassword(
            in: session, to: "engine number \(number)")
          return session.map { (number, $0) }
        }
      }
      return await group.reduce(into: []) { $0.append($1) }
    }
    let succeeded = changed.compactMap { $0 }
    #expect(succeeded.count == 1)
    #expect(await fixture.store.digests.count == 1)
    for (number, session) in succeeded {
      #expect(try await fixture.service.authenticate(session.token) == session)
      fixture.clock.advance(3_600_000)
      _ = try await fixture.logIn("engine number \(number)")
    }
  }
}
