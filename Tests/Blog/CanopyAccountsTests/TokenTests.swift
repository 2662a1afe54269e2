import CanopyAccounts
import CanopyTesting
import Testing

@Suite struct TokenTests {
  private let fixture = ServiceFixture()

  @Test func `the store has only the digest of a token`() async throws {
    let session = try await fixture.signUp()
    let digests = await fixture.store.digests
    #expect(digests.count == 1)
    for digest in digests {
      #expect(digest.bytes.count == 32)
      #expect(!"\(digest)".contains(session.token))
    }
  }

  @Test func `a token is valid until just before thirty days have passed`() async throws {
    let session = try await fixture.signUp()
    fixture.clock.advance(30 * 24 * 3_600_000 - 1)
    #expect(try await fixture.service.authenticate(session.token) == session)
    fixture.clock.advance(1)
    await #expect(throws: AccountError.tokenRefused) {
      _ = try await fixture.service.authenticate(session.token)
    }
  }

  @Test func `the time of a token that never expires does not overflow`() async throws {
    let fixture = ServiceFixture { $0.tokenLifetimeMilliseconds = .max }
    let session = try await fixture.signUp()
    #expect(session.expiresAt == .max)
    #expect(try await fixture.service.authenticate(session.token) == session)
  }

  @Test func `logging out revokes one token`() async throws {
    let first = try await fixture.signUp()
    let second = try await fixture.logIn()
    try await fixture.service.logOut(first.token)
    await #expect(throws: AccountError.tokenRefused) {
      _ = try await fixture.service.authenticate(first.token)
    }
    #expect(try await fixture.service.authenticate(second.token) == second)
    try await fixture.service.logOut(first.token)
    try await fixture.service.logOut("no token")
  }

  @Test func `a malformed or unknown token is refused, and a malformed one costs no look-up`()
    async throws
  {
    let unknown = String(repeating: "A", count: 43)
    await #expect(throws: AccountError.tokenRefused) {
      _ = try await fixture.service.authenticate(unknown)
    }
    await fixture.store.fail(with: Planned())
    await #expect(throws: Planned.self) { _ = try await fixture.service.authenticate(unknown) }
    for token in ["", "A", unknown + "A", unknown.dropLast() + "="] {
      await #expect(throws: AccountError.tokenRefused) {
        _ = try await fixture.service.authenticate(String(token))
      }
      try await fixture.service.logOut(String(token))
    }
  }

  @Test func `the tokens of a disabled account are revoked permanently`() async throws {
    let session = try await fixture.signUp()
    try await fixture.service.setDisabled(true, .uid(session.uid))
    await #expect(throws: AccountError.tokenRefused) {
      _ = try await fixture.service.authenticate(session.token)
    }
    try await fixture.service.setDisabled(false, .uid(session.uid))
    await #expect(throws: AccountError.tokenRefused) {
      _ = try await fixture.service.authenticate(session.token)
    }
  }

  private static let lifetime: Int64 = 30 * 24 * 3_600_000

  @Test func `tokens are removed in batches when they have been expired for a time`() async throws {
    let fixture = ServiceFixture { $0.purgeBatchMax = 2 }
    try await fixture.signUp()
    for _ in 0..<2 { _ = try await fixture.logIn() }
    fixture.clock.advance(1_000)
    _ = try await fixture.logIn()
    #expect(try await fixture.service.purgeExpiredTokens() == 0)
    fixture.clock.advance(2 * Self.lifetime - 1_001)
    #expect(try await fixture.service.purgeExpiredTokens() == 0)
    fixture.clock.advance(1)
    #expect(try await fixture.service.purgeExpiredTokens() == 2)
    #expect(try await fixture.service.purgeExpiredTokens() == 1)
    #expect(try await fixture.service.purgeExpiredTokens() == 0)
    #expect(await fixture.store.digests.count == 1)
  }

  @Test func `a token is refused while the clock is ahead, and valid when it is right again`()
    async throws
  {
    let fixture = ServiceFixture()
    let session = try await fixture.signUp()
    let ahead: Int64 = 40 * 24 * 3_600_000
    fixture.clock.advance(ahead)
    #expect(try await fixture.service.purgeExpiredTokens() == 0)
    await #expect(throws: AccountError.tokenRefused) {
      _ = try await fixture.service.authenticate(session.token)
    }
    fixture.clock.advance(-ahead)
    #expect(try await fixture.service.authenticate(session.token) == session)
  }
}
