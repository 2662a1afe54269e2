import CanopyAccounts
import CanopyTesting
import Testing

@Suite struct AdministrationTests {
  private let fixture = ServiceFixture()

  private func create(_ email: String) async throws -> Account {
    try await fixture.service.createAccount(
      email: email, password: ServiceFixture.password, username: "u"
    ) { _ in }
  }

  @Test func `an administrator creates an account without a session`() async throws {
    let account = try await create("Ada@example.org")
    #expect(!account.isPending)
    #expect(await fixture.store.digests.isEmpty)
    #expect(try await fixture.service.account(.uid(account.uid)) == account)
    #expect(try await fixture.service.account(.email("ada@EXAMPLE.org")) == account)
    #expect(try await fixture.logIn().uid == account.uid)
    await #expect(throws: AccountError.taken) { _ = try await create("ada@example.org") }
    await #expect(throws: AccountError.invalidEmail) { _ = try await create("ada") }
    await #expect(throws: Planned.self) {
      _ = try await fixture.service.createAccount(
        email: "eve@x", password: ServiceFixture.password, username: "eve"
      ) { _ in throw Planned() }
    }
    #expect(try await fixture.service.accounts().count == 1)
  }

  @Test func `accounts are listed page by page in order of their addresses`() async throws {
    for name in ["d", "b", "e", "a", "c"] { _ = try await create("\(name)@x") }
    var listed: [String] = []
    var after: String?
    repeat {
      let page = try await fixture.service.accounts(after: after, limit: 2)
      listed += page.map(\.email)
      after = page.last?.emailNormalized
    } while after != nil
    #expect(listed == ["a@x", "b@x", "c@x", "d@x", "e@x"])
    #expect(try await fixture.service.accounts(limit: 0).count == 1)
    #expect(try await fixture.service.accounts(limit: .min).count == 1)
    #expect(try await fixture.service.accounts(limit: .max).count == 5)
  }

  @Test func `a new password of the administrator revokes all tokens and ends the wait`()
    async throws
  {
    let session = try await fixture.signUp()
    for _ in 0..<5 { _ = await fixture.refusal(of: "wrong password") }
    await #expect(throws: AccountError.invalidPassword(.tooCommon)) {
      try await fixture.service.setPassword("password1", .uid(session.uid))
    }
    #expect(try await fixture.service.authenticate(session.token) == session)
    try await fixture.service.setPassword("a new engine", .email(ServiceFixture.email))
    await #expect(throws: AccountError.tokenRefused) {
      _ = try await fixture.service.authenticate(session.token)
    }
    #expect(await fixture.refusal(of: ServiceFixture.password).error == .credentialsRefused)
    _ = try await fixture.logIn("a new engine")
  }

  @Test func `an account that does not exist is not found`() async {
    for selector in [AccountSelector.uid("nobody"), .email("nobody@x")] {
      await #expect(throws: AccountError.notFound) {
        _ = try await fixture.service.account(selector)
      }
      await #expect(throws: AccountError.notFound) {
        try await fixture.service.setDisabled(true, selector)
      }
      await #expect(throws: AccountError.notFound) {
        try await fixture.service.setPassword("a new engine", selector)
      }
    }
    await #expect(throws: AccountError.invalidEmail) {
      try await fixture.service.setDisabled(true, .email("nobody"))
    }
  }
}
