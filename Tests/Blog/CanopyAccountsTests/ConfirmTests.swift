import CanopyAccounts
import CanopyTesting
import Testing

/// The second proof of a password, and the limits of the doors beside the login.
@Suite struct ConfirmTests {
  private let fixture = ServiceFixture()

  private func confirm(
    _ session: Session, _ password: String = ServiceFixture.password,
    email: String = ServiceFixture.email, from remote: RemoteNetwork = ServiceFixture.remote
  ) async throws -> Session {
    try await fixture.service.confirm(
      uid: session.uid, session: session.token, email: email, password: password, from: remote)
  }

  @Test func `the right password gives another session, and the former one stays`() async throws {
    let session = try await fixture.signUp()
    let next = try await confirm(session, email: "\tADA@Example.ORG ")
    #expect(next.uid == session.uid && next.token != session.token)
    #expect(try await fixture.service.authenticate(next.token) == next)
    _ = try await fixture.service.authenticate(session.token)
  }

  @Test func `the address of another account is refused without a hash, whether or not it exists`()
    async throws
  {
    let session = try await fixture.signUp()
    try await fixture.signUp(email: "eve@example.org", username: "eve")
    let before = fixture.function.count
    for email in ["eve@example.org", "unknown@example.org"] {
      await #expect(throws: AccountError.otherAccount) {
        _ = try await confirm(session, email: email)
      }
    }
    await #expect(throws: AccountError.invalidEmail) { _ = try await confirm(session, email: "a") }
    #expect(fixture.function.count == before)
  }

  @Test func `a stolen session permits five guesses, and others of the account go on`()
    async throws
  {
    let session = try await fixture.signUp()
    let own = try await fixture.logIn()
    for _ in 0..<5 {
      await #expect(throws: AccountError.credentialsRefused) {
        _ = try await confirm(session, "wrong password")
      }
    }
    await #expect(throws: AccountError.rateLimited(retryAfterMilliseconds: 1_000)) {
      _ = try await confirm(session)
    }
    // The guesses count together with those at the change of the password.
    await #expect(throws: AccountError.rateLimited(retryAfterMilliseconds: 1_000)) {
      _ = try await fixture.changePassword(in: session, to: "difference engine")
    }
    _ = try await confirm(own)
    _ = try await fixture.logIn()
  }

  @Test func `a user of an identity token has the guesses of the address`() async throws {
    let session = try await fixture.signUp()
    for _ in 0..<5 {
      await #expect(throws: AccountError.credentialsRefused) {
        _ = try await fixture.service.confirm(
          uid: session.uid, session: "a.b.c", email: ServiceFixture.email, password: "wrong",
          from: ServiceFixture.remote)
      }
    }
    await #expect(throws: AccountError.rateLimited(retryAfterMilliseconds: 1_000)) {
      _ = try await fixture.logIn()
    }
  }

  @Test func `confirmations and checks of codes count as logins of their network`() async throws {
    let fixture = ServiceFixture { $0.loginsMax = 2 }
    let session = try await fixture.signUp()
    let (service, email) = (fixture.service, ServiceFixture.email)
    let remote = RemoteNetwork("2001:db8::1")
    _ = try await service.confirm(
      uid: session.uid, session: session.token, email: email, password: ServiceFixture.password,
      from: remote)
    await #expect(throws: AccountError.codeRefused) {
      _ = try await service.checkCode("guess", .resetPassword, from: remote)
    }
    let limited = AccountError.rateLimited(retryAfterMilliseconds: 30_000)
    // Another address of the same /64 network.
    let neighbour = RemoteNetwork("2001:db8::ffff:2")
    await #expect(throws: limited) {
      _ = try await service.checkCode("guess", .resetPassword, from: neighbour)
    }
    await #expect(throws: limited) {
      _ = try await service.resetPassword(code: "guess", new: "new words", from: neighbour)
    }
    await #expect(throws: limited) {
      _ = try await service.verifyEmail(code: "guess", from: neighbour)
    }
    await #expect(throws: limited) {
      _ = try await service.confirm(
        uid: session.uid, session: session.token, email: email,
        password: ServiceFixture.password, from: neighbour)
    }
    await #expect(throws: AccountError.codeRefused) {
      _ = try await service.checkCode("guess", .resetPassword, from: ServiceFixture.remote)
    }
  }

  @Test func `anonymous accounts count as sign-ups of their network, and cost no hash`()
    async throws
  {
    let fixture = ServiceFixture { $0.signUpsMax = 2 }
    for number in 1...2 {
      _ = try await fixture.service.beginSignUp(
        AccountDraft(), from: RemoteNetwork("2001:db8::\(number)"))
    }
    await #expect(throws: AccountError.rateLimited(retryAfterMilliseconds: 60_000)) {
      _ = try await fixture.service.beginSignUp(
        AccountDraft(), from: RemoteNetwork("2001:db8::ffff:3"))
    }
    _ = try await fixture.service.beginSignUp(
      AccountDraft(), from: RemoteNetwork("2001:db8:0:1::1"))
    #expect(fixture.function.count == 0)
  }
}
