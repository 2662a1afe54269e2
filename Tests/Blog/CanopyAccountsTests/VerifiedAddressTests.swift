import CanopyAccounts
import Testing

/// The proof of an address when its spelling changes.
@Suite struct VerifiedAddressTests {
  @Test(arguments: [
    ("Kate@Corp.org", "kate@corp.ORG", true), ("kate@corp.org", " kate@corp.org ", true),
    ("\u{212A}ate@corp.org", "kate@corp.org", false),
    ("kate@corp.org", "\u{212A}ate@corp.org", false),
    ("ren\u{E9}@corp.org", "ren\u{C9}@corp.org", false),
    ("ren\u{E9}@corp.org", "rene\u{301}@corp.org", false),
    ("kate@corp.org", "jane@corp.org", false),
  ])
  func `an address stays verified only if no more than the case of ASCII letters changes`(
    before: String, after: String, stays: Bool
  ) async throws {
    let fixture = ServiceFixture()
    let session = try await fixture.signUp(email: before)
    let issued = try #require(
      try await fixture.service.issueCode(for: before, .verifyEmail, from: nil))
    let account = try await fixture.service.verifyEmail(
      code: issued.text, from: ServiceFixture.remote)
    #expect(account.details.isEmailVerified)
    var changes = AccountChanges()
    changes.email = .set(after)
    let changed = try await fixture.service.update(session.uid, changes, from: nil)
    #expect(changed.details.isEmailVerified == stays)
  }
}
