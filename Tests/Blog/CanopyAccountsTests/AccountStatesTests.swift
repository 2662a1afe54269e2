import CanopyTesting
import Testing

@testable import CanopyAccounts

struct AccountStatesTests {
  @Test func `a state that was read before a change is not kept`() {
    let states = AccountStates(capacity: 2)
    let before = states.state(of: "u").changes
    states.forget("other")
    states.keep(.active(validSince: 1), of: "u", changes: before)
    #expect(states.state(of: "u").state == nil)
    states.keep(.active(validSince: 1), of: "u", changes: states.state(of: "u").changes)
    #expect(states.state(of: "u").state == .active(validSince: 1))
    states.forget("u")
    #expect(states.state(of: "u").state == nil)
  }

  @Test func `uids with equal texts and other bytes are other accounts`() {
    let states = AccountStates(capacity: 2)
    states.keep(.disabled, of: "\u{e9}", changes: 0)
    #expect(states.state(of: "e\u{301}").state == nil)
  }

  @Test func `logins that end twice in a second end both times`() {
    var account = Account(
      uid: "u", email: "", emailNormalized: Account.addressless("u"), username: "",
      passwordHash: "", createdAt: 0)
    account.endLogins(at: 5_999)
    #expect(account.details.validSince == 6)
    account.endLogins(at: 5_999)
    #expect(account.details.validSince == 7)
    account.endLogins(at: .max)
    account.details.validSince = .max
    account.endLogins(at: 0)
    #expect(account.details.validSince == .max)
  }

  @Test func `the state in memory follows each change`() async throws {
    let fixture = ServiceFixture()
    let uid = try await fixture.signUp().uid
    #expect(fixture.service.knownState(of: uid) == nil)
    #expect(try await fixture.service.state(of: uid) == .active(validSince: 0))
    #expect(fixture.service.knownState(of: uid) == .active(validSince: 0))
    try await fixture.service.setDisabled(true, .uid(uid))
    #expect(try await fixture.service.state(of: uid) == .disabled)
    try await fixture.service.setDisabled(false, .uid(uid))
    let second = fixture.clock.now / 1_000
    #expect(try await fixture.service.state(of: uid) == .active(validSince: second + 1))
    try await fixture.service.setPassword("engine of 1844", .uid(uid))
    #expect(try await fixture.service.state(of: uid) == .active(validSince: second + 2))
    try await fixture.service.deleteAccount(uid: uid)
    #expect(try await fixture.service.state(of: uid) == .missing)
    #expect(try await fixture.service.state(of: "nobody") == .missing)
  }

  @Test func `the provider follows from the credentials`() {
    var account = Account(
      uid: "u", email: "", emailNormalized: Account.addressless("u"), username: "",
      passwordHash: "", createdAt: 0)
    #expect(account.provider == "anonymous")
    account.details.isCustom = true
    #expect(account.provider == "custom")
    account.passwordHash = "hash"
    #expect(account.provider == "password")
  }
}
