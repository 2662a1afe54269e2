import CanopyAccounts
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyIdentity

struct AccountTests {
  @Test func `a lookup shows the account with times as text`() async throws {
    let fixture = try await IdentityFixture()
    let account = try await fixture.signUp(email: "Ada@example.org")
    let token = try account.text("idToken")
    let answer = try await fixture.call("lookup", #"{"idToken":"\#(token)"}"#)
    #expect(answer["kind"] == "identitytoolkit#GetAccountInfoResponse")
    let user = try #require(answer.json["users"]?.elements?.first)
    #expect(user["localId"]?.string == account["localId"])
    #expect(user["email"]?.string == "Ada@example.org")
    #expect(user["emailVerified"] == .flag(false))
    #expect(user["createdAt"]?.string == "1700000000000")
    #expect(user["lastLoginAt"]?.string == "1700000000000")
    #expect(user["validSince"]?.string == "1700000000")
    #expect(user["lastRefreshAt"]?.string == "2023-11-14T22:13:20.000Z")
    let provider = try #require(user["providerUserInfo"]?.elements?.first)
    #expect(provider["providerId"]?.string == "password")
    #expect(provider["email"]?.string == "Ada@example.org")
    #expect(provider["rawId"]?.string == "Ada@example.org")
    #expect(provider["federatedId"]?.string == "Ada@example.org")
  }

  @Test func `a profile is set and its parts are removed`() async throws {
    let fixture = try await IdentityFixture()
    let account = try await fixture.signUp()
    let (token, refreshToken) = (try account.text("idToken"), try account.text("refreshToken"))
    let set = try await fixture.call(
      "update",
      #"{"idToken":"\#(token)","displayName":"Ada","photoUrl":"https://x/a.png","returnSecureToken":true}"#
    )
    #expect(set["kind"] == "identitytoolkit#SetAccountInfoResponse")
    #expect(set["displayName"] == "Ada")
    #expect(set["photoUrl"] == "https://x/a.png")
    #expect(set["idToken"] == nil && set["refreshToken"] == nil, "the client keeps its tokens")
    let fresh = try await fixture.refresh(refreshToken).text("id_token")
    let identity = try await fixture.service.verify(fresh)
    #expect(identity.claims.child("name").stringValue == "Ada")
    #expect(identity.claims.child("picture").stringValue == "https://x/a.png")
    let removed = try await fixture.call(
      "update", #"{"idToken":"\#(token)","deleteAttribute":["DISPLAY_NAME"],"photoUrl":""}"#)
    #expect(removed["displayName"] == nil)
    #expect(removed["photoUrl"] == nil)
    #expect(removed["idToken"] == nil, "tokens only if the client asks for them")
    #expect(fixture.ended.all.isEmpty)
    for name in [String(repeating: "x", count: 257), #"a\nb"#] {
      let refused = try await fixture.call(
        "update", #"{"idToken":"\#(token)","displayName":"\#(name)"}"#)
      #expect(refused.word?.hasPrefix("INVALID_ARGUMENT") == true)
    }
  }

  @Test func `a new password ends all other logins`() async throws {
    let fixture = try await IdentityFixture()
    let first = try await fixture.signUp()
    let other = try await fixture.signIn()
    let token = try first.text("idToken")
    let answer = try await fixture.call(
      "update", #"{"idToken":"\#(token)","password":"engine of 1844","returnSecureToken":true}"#)
    #expect(answer.status == 200)
    #expect(fixture.ended.all == [try first.text("localId")])
    for old in [first, other] {
      #expect(try await fixture.problem(old["idToken"]) == .revoked, "even in the same second")
      #expect(try await fixture.refresh(try old.text("refreshToken")).word == "TOKEN_EXPIRED")
    }
    #expect(try await fixture.problem(answer["idToken"]) == nil)
    #expect(try await fixture.refresh(try answer.text("refreshToken")).status == 200)
    #expect(try await fixture.signIn().word == "INVALID_LOGIN_CREDENTIALS")
    #expect(try await fixture.signIn("engine of 1844").status == 200)
    #expect(
      try await fixture.call("lookup", #"{"idToken":"\#(token)"}"#).word == "TOKEN_EXPIRED")
  }

  @Test func `a password change of the line protocol ends identity tokens too`() async throws {
    let fixture = try await IdentityFixture()
    let account = try await fixture.signUp()
    #expect(try await fixture.problem(account["idToken"]) == nil)
    _ = try await fixture.accounts.changePassword(
      uid: try account.text("localId"), session: try account.text("refreshToken"),
      current: IdentityFixture.password, new: "engine of 1844", from: .local)
    #expect(try await fixture.problem(account["idToken"]) == .revoked)
  }

  @Test func `a new address must be free, ends logins and is not verified`() async throws {
    let fixture = try await IdentityFixture()
    try await fixture.signUp(email: "bob@example.org")
    let token = try #require(try await fixture.signUp()["idToken"])
    #expect(
      try await fixture.call("update", #"{"idToken":"\#(token)","email":"BOB@example.org"}"#).word
        == "EMAIL_EXISTS")
    #expect(
      try await fixture.call("update", #"{"idToken":"\#(token)","email":"bob"}"#).word
        == "INVALID_EMAIL")
    #expect(try await fixture.problem(token) == nil)
    let answer = try await fixture.call(
      "update", #"{"idToken":"\#(token)","email":"lovelace@example.org"}"#)
    #expect(answer["email"] == "lovelace@example.org")
    #expect(try await fixture.problem(token) == .revoked)
    #expect(try await fixture.signIn(email: "lovelace@example.org").status == 200)
    #expect(try await fixture.signIn().word == "INVALID_LOGIN_CREDENTIALS")
    try await fixture.signUp()
  }

  @Test func `credentials change only a short time after the login`() async throws {
    let fixture = try await IdentityFixture()
    let account = try await fixture.signUp()
    fixture.clock.advance(300_000)
    let token = try account.text("idToken")
    let set = try await fixture.call(
      "update", #"{"idToken":"\#(token)","password":"engine of 1844"}"#)
    #expect(set.status == 200, "five minutes are a short time")
    let second = try await fixture.signIn("engine of 1844")
    fixture.clock.advance(302_000)
    let old = try second.text("idToken")
    let refreshed = try await fixture.refresh(try second.text("refreshToken"))
    for token in [old, try refreshed.text("id_token")] {
      for (call, part) in [
        ("update", #","password":"engine of 1845""#), ("update", #","email":"x@example.org""#),
        ("delete", ""),
        ("signUp", #","email":"x@example.org","password":"engine of 1845""#),
      ] {
        #expect(
          try await fixture.call(call, #"{"idToken":"\#(token)"\#(part)}"#).word
            == "CREDENTIAL_TOO_OLD_LOGIN_AGAIN", "a new token of an old login is not a new login")
      }
    }
  }

  @Test func `password changes of one account are limited`() async throws {
    let fixture = try await IdentityFixture { $0.loginsMax = 2 }
    var token = try #require(try await fixture.signUp()["idToken"])
    let body = { (token: String, number: Int) in
      #"{"idToken":"\#(token)","password":"engine of 190\#(number)","returnSecureToken":true}"#
    }
    let first = try await fixture.call("update", body(token, 1))
    token = try first.text("idToken")
    #expect(try await fixture.call("update", body(token, 2)).word == "TOO_MANY_ATTEMPTS_TRY_LATER")
  }

  @Test func `a deleted account is gone with its tokens, and its address is free`() async throws {
    let fixture = try await IdentityFixture()
    let account = try await fixture.signUp()
    let token = try account.text("idToken")
    let answer = try await fixture.call("delete", #"{"idToken":"\#(token)"}"#)
    #expect(answer["kind"] == "identitytoolkit#DeleteAccountResponse")
    #expect(fixture.ended.all == [try account.text("localId")])
    #expect(try await fixture.problem(token) == .missing)
    for call in ["lookup", "update", "delete"] {
      #expect(
        try await fixture.call(call, #"{"idToken":"\#(token)"}"#).word == "USER_NOT_FOUND")
    }
    #expect(
      try await fixture.refresh(try account.text("refreshToken")).word == "TOKEN_EXPIRED")
    try await fixture.signUp()
  }

  @Test func `tokens of a deleted custom user stay invalid after the next login`() async throws {
    let fixture = try await IdentityFixture()
    let custom = try await fixture.service.makeCustomToken(uid: "robot")
    let first = try await fixture.call("signInWithCustomToken", #"{"token":"\#(custom)"}"#)
    let token = try first.text("idToken")
    #expect(try await fixture.call("delete", #"{"idToken":"\#(token)"}"#).status == 200)
    fixture.clock.advance(1_000)
    let again = try await fixture.call("signInWithCustomToken", #"{"token":"\#(custom)"}"#)
    #expect(again.word == "INVALID_CUSTOM_TOKEN")
    #expect(try await fixture.problem(token) == .missing)
    let new = try await fixture.service.makeCustomToken(uid: "robot")
    let second = try await fixture.call("signInWithCustomToken", #"{"token":"\#(new)"}"#)
    #expect(try await fixture.problem(token) == .revoked)
    #expect(try await fixture.problem(second["idToken"]) == nil)
  }

  @Test func `a call without a token or with a bad one has the original's word`() async throws {
    let fixture = try await IdentityFixture()
    for call in ["lookup", "update", "delete"] {
      #expect(try await fixture.call(call, "{}").word == "MISSING_ID_TOKEN")
      #expect(try await fixture.call(call, #"{"idToken":"x"}"#).word == "INVALID_ID_TOKEN")
    }
    let account = try await fixture.signUp()
    let token = try account.text("idToken")
    try await fixture.accounts.setDisabled(true, .uid(try account.text("localId")))
    #expect(try await fixture.call("lookup", #"{"idToken":"\#(token)"}"#).word == "USER_DISABLED")
    try await fixture.accounts.setDisabled(false, .uid(try account.text("localId")))
    #expect(
      try await fixture.call("lookup", #"{"idToken":"\#(token)"}"#).word == "TOKEN_EXPIRED",
      "disabling ends logins for good")
    fixture.clock.advance(3_600_000)
    let laterToken = try #require(try await fixture.signIn()["idToken"])
    fixture.clock.advance(3_600_000)
    #expect(
      try await fixture.call("lookup", #"{"idToken":"\#(laterToken)"}"#).word
        == "TOKEN_EXPIRED")
  }

  @Test func `a code of an e-mail sets a new password once`() async throws {
    let fixture = try await IdentityFixture()
    let account = try await fixture.signUp()
    let sent = try await fixture.call(
      "sendOobCode", #"{"requestType":"PASSWORD_RESET","email":"ada@example.org"}"#)
    #expect(sent["email"] == "ada@example.org")
    #expect(sent["oobCode"] == nil, "the code is only in the administrator's log")
    // The response does not wait for the code: its time would reveal whether there is an account.
    try await eventually { !fixture.codes.all.isEmpty }
    let code = try #require(fixture.codes.all.first?.text)
    let checked = try await fixture.call("resetPassword", #"{"oobCode":"\#(code)"}"#)
    #expect(checked["email"] == "ada@example.org")
    #expect(checked["requestType"] == "PASSWORD_RESET")
    #expect(
      try await fixture.call("resetPassword", #"{"oobCode":"\#(code)","newPassword":"short"}"#)
        .word?.hasPrefix("WEAK_PASSWORD : ") == true)
    let reset = try await fixture.call(
      "resetPassword", #"{"oobCode":"\#(code)","newPassword":"engine of 1844"}"#)
    #expect(reset.status == 200)
    #expect(try await fixture.problem(account["idToken"]) == .revoked)
    #expect(fixture.ended.all == [try account.text("localId")])
    #expect(
      try await fixture.call(
        "resetPassword", #"{"oobCode":"\#(code)","newPassword":"engine of 1845"}"#
      ).word == "INVALID_OOB_CODE")
    let login = try await fixture.signIn("engine of 1844")
    let identity = try await fixture.service.verify(try login.text("idToken"))
    #expect(identity.claims.child("email_verified").boolValue == true)
  }

  @Test func `codes expire, and errors about them have words`() async throws {
    let fixture = try await IdentityFixture()
    let token = try #require(try await fixture.signUp()["idToken"])
    let unknown = try await fixture.call(
      "sendOobCode", #"{"requestType":"PASSWORD_RESET","email":"bob@example.org"}"#)
    #expect(unknown.status == 200, "the answer does not reveal whether the account exists")
    #expect(unknown["email"] == "bob@example.org")
    #expect(fixture.codes.all.isEmpty)
    for (body, word) in [
      ("{}", "MISSING_REQ_TYPE"), (#"{"requestType":"PASSWORD_RESET"}"#, "MISSING_EMAIL"),
      (#"{"requestType":"PASSWORD_RESET","email":"bob"}"#, "INVALID_EMAIL"),
      (#"{"requestType":"EMAIL_SIGNIN","email":"ada@example.org"}"#, "OPERATION_NOT_ALLOWED"),
      (#"{"requestType":"VERIFY_EMAIL"}"#, "MISSING_ID_TOKEN"),
    ] {
      #expect(try await fixture.call("sendOobCode", body).word == word)
    }
    #expect(try await fixture.call("resetPassword", "{}").word == "MISSING_OOB_CODE")
    #expect(
      try await fixture.call("resetPassword", #"{"oobCode":"x"}"#).word == "INVALID_OOB_CODE")
    #expect(
      try await fixture.call(
        "sendOobCode", #"{"requestType":"VERIFY_EMAIL","idToken":"\#(token)"}"#
      ).status == 200)
    let code = try #require(fixture.codes.all.first?.text)
    #expect(
      try await fixture.call("resetPassword", #"{"oobCode":"\#(code)"}"#).word
        == "INVALID_OOB_CODE", "a code has one purpose")
    fixture.clock.advance(3_600_000)
    #expect(
      try await fixture.call("update", #"{"oobCode":"\#(code)"}"#).word == "EXPIRED_OOB_CODE")
    fixture.clock.advance(-1)
    let verified = try await fixture.call("update", #"{"oobCode":"\#(code)"}"#)
    #expect(verified.json["emailVerified"] == .flag(true))
    #expect(
      try await fixture.call("update", #"{"oobCode":"\#(code)"}"#).word == "INVALID_OOB_CODE")
  }

  @Test func `requests for codes are limited for each network, and not by those of others`()
    async throws
  {
    let fixture = try await IdentityFixture { $0.codesMax = 2 }
    try await fixture.signUp()
    let body = #"{"requestType":"PASSWORD_RESET","email":"ada@example.org"}"#
    for number in 0..<3 {
      #expect(
        try await fixture.call("sendOobCode", body, from: "192.0.2.9").word
          == (number < 2 ? nil : "TOO_MANY_ATTEMPTS_TRY_LATER"))
    }
    #expect(try await fixture.call("sendOobCode", body, from: "192.0.2.8").status == 200)
  }

  @Test func `a store that fails gives a response without details`() async throws {
    let store = InMemoryAccountStore()
    let fixture = try await IdentityFixture(store: store)
    let token = try #require(try await fixture.signUp()["idToken"])
    await store.fail(with: Failure())
    let answer = try await fixture.call("lookup", #"{"idToken":"\#(token)"}"#)
    #expect(answer.status == 503)
    #expect(answer.json["error"]?["status"]?.string == "UNAVAILABLE")
  }

  private struct Failure: Error {}

  @Test func `a time as text is that of the Gregorian calendar`() {
    for (time, text) in [
      (0, "1970-01-01T00:00:00.000Z"), (951_826_029_001, "2000-02-29T12:07:09.001Z"),
      (-1, "1969-12-31T23:59:59.999Z"), (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
      (.max, "9999-12-31T23:59:59.999Z"), (.min, "0000-01-01T00:00:00.000Z"),
    ] as [(Int64, String)] {
      #expect(Timestamp.text(of: time) == text)
    }
  }
}
