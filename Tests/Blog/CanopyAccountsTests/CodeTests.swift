import CanopyAccounts
import CanopyTesting
import Testing

/// Codes of e-mails: requests of strangers do not harm the owner of the address.
struct CodeTests {
  private static let lifetime = AccountSettings().codeLifetimeMilliseconds

  private func issue(
    _ fixture: ServiceFixture, _ purpose: CodePurpose = .resetPassword, from network: Int
  ) async throws -> IssuedCode? {
    try await fixture.service.issueCode(
      for: ServiceFixture.email, purpose, from: RemoteNetwork("198.51.100.\(network)"))
  }

  private func isValid(_ code: IssuedCode, _ fixture: ServiceFixture) async throws -> Bool {
    do {
      _ = try await fixture.service.checkCode(
        code.text, code.record.purpose, from: ServiceFixture.remote)
      return true
    } catch let error as AccountError where error == .codeRefused || error == .codeExpired {
      return false
    }
  }

  @Test func `requests of strangers do not end the code of the owner`() async throws {
    let fixture = ServiceFixture { $0.codesPerAccountMax = 3 }
    try await fixture.signUp()
    let own = try #require(try await issue(fixture, from: 0))
    for network in 1...9 {
      let code = try await issue(fixture, from: network)
      #expect((code != nil) == (network < 3))
      #expect(try await isValid(own, fixture))
    }
    #expect(try await issue(fixture, .verifyEmail, from: 1) != nil, "another purpose counts apart")
    let unbounded = try await fixture.service.issueCode(
      for: ServiceFixture.email, .resetPassword, from: nil, isBounded: false)
    #expect(unbounded != nil, "an administrator gets a code")
    fixture.clock.advance(Self.lifetime - 1)
    #expect(try await isValid(own, fixture))
    #expect(try await issue(fixture, from: 10) == nil)
    fixture.clock.advance(1)
    #expect(try await !isValid(own, fixture))
    #expect(try await issue(fixture, from: 11) != nil, "an expired code makes room")
  }

  @Test func `codes that a clock far ahead has made do not keep an account from new ones`()
    async throws
  {
    let fixture = ServiceFixture { $0.codesPerAccountMax = 1 }
    try await fixture.signUp()
    fixture.clock.advance(Self.lifetime)
    _ = try #require(try await issue(fixture, from: 0))
    fixture.clock.advance(-Self.lifetime)
    #expect(try await issue(fixture, from: 1) == nil, "it may be the code of the owner")
    fixture.clock.advance(-1)
    #expect(try await issue(fixture, from: 2) != nil)
  }

  @Test func `each network has a limit of its own for an address, and this machine has none`()
    throws
  {
    let fixture = ServiceFixture { $0.codesMax = 2 }
    let (first, second) = (RemoteNetwork("192.0.2.1"), RemoteNetwork("192.0.2.2"))
    func admit(_ email: String, _ remote: RemoteNetwork) throws {
      try fixture.service.admitCode(for: email, from: remote)
    }
    for _ in 0..<2 { try admit("ada@example.org", first) }
    #expect(throws: AccountError.rateLimited(retryAfterMilliseconds: 30 * 60 * 1_000)) {
      try admit("Ada@Example.org", first)
    }
    try admit("ada@example.org", second)
    try admit("bob@example.org", first)
    for _ in 0..<9 { try admit("ada@example.org", RemoteNetwork("127.0.0.1")) }
  }
}
