import CanopyAccounts
import CanopyTesting
import Testing

@Suite struct ChangePasswordTests {
  private let fixture = ServiceFixture()
  private let new = "difference 1822"

  @Test func `a change revokes every token and issues a new one`() async throws {
    let first = try await fixture.signUp()
    let second = try await fixture.logIn()
    let changed = try await fixture.service.changePassword(
      uid: first.uid, current: ServiceFixture.password, new: new)
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

  @Test func `a change that is refused changes nothing`() async throws {
    let session = try await fixture.signUp()
    let refused: [(current: String, new: String, error: AccountError)] = [
      ("wrong password", new, .credentialsRefused),
      (ServiceFixture.password, "short", .invalidPassword(.tooShort)),
      (ServiceFixture.password, "password1", .invalidPassword(.tooCommon)),
      (ServiceFixture.password, ServiceFixture.email, .invalidPassword(.sameAsEmail)),
    ]
    for (current, new, error) in refused {
      await #expect(throws: error) {
        _ = try await fixture.service.changePassword(uid: session.uid, current: current, new: new)
      }
    }
    #expect(try await fixture.service.authenticate(session.token) == session)
    _ = try await fixture.logIn()
  }

  @Test func `changes and logins share one throttle`() async throws {
    let session = try await fixture.signUp()
    for number in 0..<5 {
      if number.isMultiple(of: 2) {
        #expect(await fixture.refusal(of: "wrong password").error == .credentialsRefused)
      } else {
        await #expect(throws: AccountError.credentialsRefused) {
          _ = try await fixture.service.changePassword(
            uid: session.uid, current: "wrong password", new: new)
        }
      }
    }
    let before = fixture.function.count
    await #expect(throws: AccountError.rateLimited(retryAfterMilliseconds: 1_000)) {
      _ = try await fixture.service.changePassword(
        uid: session.uid, current: ServiceFixture.password, new: new)
    }
    #expect(
      await fixture.refusal(of: ServiceFixture.password).error
        == .rateLimited(retryAfterMilliseconds: 1_000))
    #expect(fixture.function.count == before)
  }

  @Test func `an account that is gone or disabled is refused`() async throws {
    await #expect(throws: AccountError.tokenRefused) {
      _ = try await fixture.service.changePassword(
        uid: "nobody", current: ServiceFixture.password, new: new)
    }
    let session = try await fixture.signUp()
    try await fixture.service.setDisabled(true, .uid(session.uid))
    await #expect(throws: AccountError.disabled) {
      _ = try await fixture.service.changePassword(
        uid: session.uid, current: ServiceFixture.password, new: new)
    }
  }

  @Test func `of five changes at once the last word is one password and one token`() async throws {
    let session = try await fixture.signUp()
    let fixture = fixture
    let changed = await withTaskGroup(of: (Int, Session)?.self) { group in
      for number in 0..<5 {
        group.addTask {
          let session = try? await fixture.service.changePassword(
            uid: session.uid, current: ServiceFixture.password, new: "engine number \(number)")
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
