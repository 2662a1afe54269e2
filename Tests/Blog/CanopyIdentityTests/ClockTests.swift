import CanopyAccounts
import CanopyTesting
import Testing

@testable import CanopyIdentity

/// Tokens while the clock goes back.
struct ClockTests {
  private let tolerance = IdentitySettings().clockToleranceMilliseconds

  @Test func `a token from the future is refused until the clock reaches it`() async throws {
    let fixture = try await IdentityFixture()
    let account = try await fixture.signUp()
    let token = account["idToken"]
    #expect(try await fixture.problem(token) == nil)
    fixture.clock.advance(-tolerance)
    #expect(try await fixture.problem(token) == nil)
    fixture.clock.advance(-1_000)
    #expect(try await fixture.problem(token) == .expired, "it is in memory")
    #expect(try await fixture.problem(token) == .expired, "it is decoded again")
    let fresh = try await fixture.refresh(try account.text("refreshToken"))
    #expect(try await fixture.problem(fresh["id_token"]) == nil)
    fixture.clock.advance(1_000)
    #expect(try await fixture.problem(token) == nil)
  }

  @Test func `a custom token from the future is refused`() async throws {
    let fixture = try await IdentityFixture()
    let token = try fixture.service.makeCustomToken(uid: "robot")
    let body = #"{"token":"\#(token)"}"#
    fixture.clock.advance(-tolerance - 1_000)
    #expect(
      try await fixture.call("signInWithCustomToken", body).word == "INVALID_CUSTOM_TOKEN")
    fixture.clock.advance(1_000)
    #expect(try await fixture.call("signInWithCustomToken", body).status == 200)
  }

  @Test func `a password change ends the logins of a later time`() async throws {
    let fixture = try await IdentityFixture()
    try await fixture.signUp()
    fixture.clock.advance(30_000)
    let stolen = try await fixture.signIn()
    fixture.clock.advance(-20_000)
    let own = try await fixture.signIn()
    let changed = try await fixture.call(
      "update",
      #"{"idToken":"\#(try own.text("idToken"))","password":"engine of 1844","returnSecureToken":true}"#
    )
    #expect(changed.status == 200)
    for advance in [0, 60_000] as [Int64] {
      fixture.clock.advance(advance)
      #expect(try await fixture.problem(stolen["idToken"]) == .revoked)
      #expect(try await fixture.problem(own["idToken"]) == .revoked)
      #expect(try await fixture.problem(changed["idToken"]) == nil)
    }
  }

  @Test func `the tokens of a deleted user stay invalid for a new one with the same uid`()
    async throws
  {
    let fixture = try await IdentityFixture()
    let token = try fixture.service.makeCustomToken(uid: "robot")
    let body = #"{"token":"\#(token)"}"#
    let first = try await fixture.call("signInWithCustomToken", body)
    try await fixture.accounts.deleteAccount(uid: "robot")
    fixture.clock.advance(-10_000)
    let second = try await fixture.call("signInWithCustomToken", body)
    for advance in [0, 20_000] as [Int64] {
      fixture.clock.advance(advance)
      #expect(try await fixture.problem(first["idToken"]) == .revoked)
      #expect(try await fixture.problem(second["idToken"]) == nil)
    }
  }

  @Test func `a login that is far ahead of the clock is not recent`() async throws {
    let fixture = try await IdentityFixture()
    let account = try await fixture.signUp()
    let body = #"{"idToken":"\#(try account.text("idToken"))","email":"x@example.org"}"#
    fixture.clock.advance(-61_000)
    #expect(try await fixture.call("update", body).word == "CREDENTIAL_TOO_OLD_LOGIN_AGAIN")
    fixture.clock.advance(1_000)
    #expect(try await fixture.call("update", body).status == 200)
  }

  @Test func `a change without new credentials adds no session`() async throws {
    let store = InMemoryAccountStore()
    let fixture = try await IdentityFixture(store: store)
    let account = try await fixture.signUp()
    let token = try account.text("idToken")
    for part in ["", #","displayName":"Ada""#, #","photoUrl":"https://x/y""#] {
      let answer = try await fixture.call(
        "update", #"{"idToken":"\#(token)","returnSecureToken":true\#(part)}"#)
      #expect(answer.status == 200 && answer["idToken"] == nil && answer["refreshToken"] == nil)
    }
    #expect(await store.digests.count == 1)
    #expect(try await fixture.refresh(try account.text("refreshToken")).status == 200)
  }

  @Test func `changes of one user are limited over HTTP`() async throws {
    let fixture = try await IdentityFixture { $0.changesMax = 2 }
    let token = try #require(try await fixture.call("signUp", "{}")["idToken"])
    let body = #"{"idToken":"\#(token)","displayName":"Ada"}"#
    for _ in 0..<2 {
      #expect(try await fixture.call("update", body, from: "127.0.0.1").status == 200)
    }
    #expect(
      try await fixture.call("update", body, from: "127.0.0.1").word
        == "TOO_MANY_ATTEMPTS_TRY_LATER")
  }
}
