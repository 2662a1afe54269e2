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
    let token = try await fixture.service.makeCustomToken(uid: "robot")
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
    let token = try await fixture.service.makeCustomToken(uid: "robot")
    let body = #"{"token":"\#(token)"}"#
    let first = try await fixture.call("signInWithCustomToken", body)
    try await fixture.accounts.deleteAccount(uid: "robot")
    fixture.clock.advance(-10_000)
    #expect(
      try await fixture.call("signInWithCustomToken", body).word == "INVALID_CUSTOM_TOKEN")
    let new = try await fixture.service.makeCustomToken(uid: "robot")
    let second = try await fixture.call("signInWithCustomToken", #"{"token":"\#(new)"}"#)
    for advance in [0, 20_000] as [Int64] {
      fixture.clock.advance(advance)
      #expect(try await fixture.problem(first["idToken"]) == .revoked)
      #expect(try await fixture.problem(second["idToken"]) == nil)
    }
  }

  @Test func `a login that is later than now is not recent`() async throws {
    let fixture = try await IdentityFixture()
    let account = try await fixture.signUp()
    let session = try account.text("refreshToken")
    func update() async throws -> Answer {
      let token = try await fixture.refresh(session).text("id_token")
      return try await fixture.call("update", #"{"idToken":"\#(token)","email":"x@example.org"}"#)
    }
    for back in [1_000, 60_000, 86_400_000] as [Int64] {
      fixture.clock.advance(-back)
      // A new token of an earlier login is not a new login.
      #expect(try await update().word == "CREDENTIAL_TOO_OLD_LOGIN_AGAIN")
      await #expect(throws: IdentityProblem.loginTooOld) {
        try await fixture.service.recentIdentity(of: session)
      }
      fixture.clock.advance(back)
    }
    _ = try await fixture.service.recentIdentity(of: session)
    #expect(try await update().status == 200)
  }

  @Test func `a login just after an end of logins is recent, although its time is ahead`()
    async throws
  {
    let fixture = try await IdentityFixture()
    var account = try await fixture.signUp()
    for number in 0..<3 {
      let token = try account.text("idToken")
      account = try await fixture.call(
        "update",
        #"{"idToken":"\#(token)","password":"engine of 190\#(number)","returnSecureToken":true}"#)
      #expect(account.status == 200, "\(account.word ?? "")")
    }
    _ = try await fixture.service.recentIdentity(of: try account.text("refreshToken"))
  }

  @Test func `ending all logins also ends sessions with a future time`() async throws {
    let fixture = try await IdentityFixture()
    let account = try await fixture.signUp()
    fixture.clock.advance(-3_600_000)
    let fresh = try await fixture.refresh(try account.text("refreshToken")).text("id_token")
    #expect(try await fixture.problem(fresh) == nil)
    var changes = AccountChanges()
    changes.endsLogins = true
    _ = try await fixture.accounts.update(try account.text("localId"), changes, from: nil)
    #expect(try await fixture.problem(fresh) == .revoked)
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
