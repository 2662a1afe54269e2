import CanopyAccounts
import CanopyTesting
import Testing

/// Two changes of an account without an address, each of which began before the other was made.
struct FirstAddressTests {
  private static func address(_ email: String) -> AccountChanges {
    var changes = AccountChanges()
    changes.email = .set(email)
    return changes
  }

  /// Holds a first address before the account is changed, and sets another meanwhile. Returns the outcome of the first.
  private func overlap(
    _ fixture: ServiceFixture, _ uid: String, held: String, other: String
  ) async throws -> Result<Account, any Error> {
    let gate = fixture.store.changeGate
    gate.hold(1)
    let service = fixture.service
    let first = Task { try await service.update(uid, Self.address(held), from: nil) }
    await gate.reached()
    let account = try await service.update(uid, Self.address(other), from: nil)
    #expect(account.email == other)
    gate.open()
    return await first.result
  }

  @Test func `a first address that another one has overtaken is refused, so it replaces none`()
    async throws
  {
    let fixture = ServiceFixture()
    let login = try await fixture.service.beginSignUp(AccountDraft(), from: .local)
    let uid = login.account.uid
    let result = try await overlap(
      fixture, uid, held: "ada@example.org", other: "bob@example.org")
    #expect(throws: AccountError.credentialsRefused) { try result.get() }
    #expect(try await fixture.service.account(.uid(uid)).email == "bob@example.org")
    // Neither has ended the login: a first address replaces none.
    #expect(try await fixture.service.authenticate(login.session.token).uid == uid)
    // Called again, the same change replaces an address, and ends the login.
    let third = try await fixture.service.update(uid, Self.address("ada@example.org"), from: nil)
    #expect(third.email == "ada@example.org")
    await #expect(throws: AccountError.tokenRefused) {
      try await fixture.service.authenticate(login.session.token)
    }
  }

  @Test func `a first address that is set twice at once changes nothing the second time`()
    async throws
  {
    let fixture = ServiceFixture()
    let login = try await fixture.service.beginSignUp(AccountDraft(), from: .local)
    let result = try await overlap(
      fixture, login.account.uid, held: "Ada@example.org", other: "ada@example.org")
    #expect(try result.get().emailNormalized == "ada@example.org")
    #expect(try await fixture.service.authenticate(login.session.token).uid == login.account.uid)
  }
}
