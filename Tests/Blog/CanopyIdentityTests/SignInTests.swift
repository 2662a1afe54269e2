import CanopyAccounts
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyIdentity

struct SignInTests {
  @Test func `a sign-up answers with the account and its tokens`() async throws {
    let fixture = try await IdentityFixture()
    let answer = try await fixture.signUp(email: "Ada@Example.org")
    #expect(answer["kind"] == "identitytoolkit#SignupNewUserResponse")
    #expect(answer["email"] == "Ada@Example.org")
    #expect(answer["expiresIn"] == "3600")
    #expect(answer["localId"]?.utf8.count == 20)
    #expect(answer["refreshToken"]?.utf8.count == 43)
    let identity = try await fixture.service.verify(try answer.text("idToken"))
    #expect(identity.uid == answer["localId"])
  }

  @Test func `the errors of a sign-up have the words of the original`() async throws {
    let fixture = try await IdentityFixture()
    try await fixture.signUp()
    let password = IdentityFixture.password
    for (body, word) in [
      (#"{"email":"ada@example.org","password":"\#(password)"}"#, "EMAIL_EXISTS"),
      (#"{"email":"ADA@example.org","password":"\#(password)"}"#, "EMAIL_EXISTS"),
      (#"{"email":"ada","password":"\#(password)"}"#, "INVALID_EMAIL"),
      (#"{"email":"","password":"\#(password)"}"#, "INVALID_EMAIL"),
      (#"{"email":"bob@example.org"}"#, "MISSING_PASSWORD"),
      (#"{"email":"bob@example.org","password":""}"#, "MISSING_PASSWORD"),
      (#"{"password":"\#(password)"}"#, "MISSING_EMAIL"),
      (
        #"{"email":"bob@example.org","password":"short"}"#,
        "WEAK_PASSWORD : that password is too short; choose one of at least 8 characters"
      ),
    ] {
      let answer = try await fixture.call("signUp", body)
      #expect(answer.status == 400)
      #expect(answer.word == word, "\(body)")
    }
  }

  @Test func `an error has the form of the original`() async throws {
    let fixture = try await IdentityFixture()
    let response = await fixture.service.respond(
      to: IdentityRequest(
        method: "POST", path: "/identitytoolkit.googleapis.com/v1/accounts:signUp",
        body: Array(#"{"email":"x","password":"y"}"#.utf8), address: "192.0.2.1"))
    #expect(
      String(decoding: response.body, as: UTF8.self)
        == #"{"error":{"code":400,"message":"INVALID_EMAIL","errors":["#
        + #"{"message":"INVALID_EMAIL","reason":"invalid","domain":"global"}]}}"#)
  }

  @Test func `an anonymous sign-up creates an account without credentials`() async throws {
    let fixture = try await IdentityFixture()
    let answer = try await fixture.call("signUp", #"{"returnSecureToken":true}"#)
    #expect(answer.status == 200)
    #expect(answer["email"] == nil)
    let identity = try await fixture.service.verify(try answer.text("idToken"))
    #expect(identity.provider == "anonymous")
    #expect(identity.claims.child("email").isAbsent)
    #expect(identity.claims.child("provider_id").stringValue == "anonymous")
    let second = try await fixture.call("signUp", "")
    #expect(second["localId"] != answer["localId"], "many accounts have no address")
    #expect(try await fixture.refresh(try answer.text("refreshToken")).status == 200)
  }

  @Test func `an anonymous account gets credentials and keeps its identifier`() async throws {
    let fixture = try await IdentityFixture()
    let anonymous = try await fixture.call("signUp", "{}")
    let token = try anonymous.text("idToken")
    let linked = try await fixture.call(
      "signUp",
      #"{"idToken":"\#(token)","email":"ada@example.org","password":"\#(IdentityFixture.password)"}"#
    )
    #expect(linked["localId"] == anonymous["localId"])
    #expect(linked["email"] == "ada@example.org")
    #expect(try await fixture.problem(token) == nil, "no login was replaced")
    #expect(try await fixture.signIn()["localId"] == anonymous["localId"])
    let identity = try await fixture.service.verify(try linked.text("idToken"))
    #expect(identity.provider == "password")
  }

  @Test func `an anonymous login is always recent, and only until the account has credentials`()
    async throws
  {
    let fixture = try await IdentityFixture()
    let token = try await fixture.call("signUp", "{}").text("idToken")
    let other = try await fixture.call("signUp", "{}").text("idToken")
    fixture.clock.advance(3_000_000)
    #expect(try await fixture.call("delete", #"{"idToken":"\#(other)"}"#).status == 200)
    let body =
      #"{"idToken":"\#(token)","email":"ada@example.org","password":"\#(IdentityFixture.password)"}"#
    #expect(try await fixture.call("signUp", body).status == 200)
    // The token is still valid, and says that the user is anonymous.
    #expect(try await fixture.problem(token) == nil)
    for (call, part) in [("update", #","password":"engine of 1845""#), ("delete", "")] {
      #expect(
        try await fixture.call(call, #"{"idToken":"\#(token)"\#(part)}"#).word
          == "CREDENTIAL_TOO_OLD_LOGIN_AGAIN")
    }
  }

  @Test func `a login answers with the account and new tokens`() async throws {
    let fixture = try await IdentityFixture()
    let account = try await fixture.signUp()
    let answer = try await fixture.signIn(email: "ADA@example.org")
    #expect(answer["kind"] == "identitytoolkit#VerifyPasswordResponse")
    #expect(answer["localId"] == account["localId"])
    #expect(answer["displayName"] == "")
    #expect(answer.json["registered"] == .flag(true))
    #expect(answer["refreshToken"] != account["refreshToken"])
  }

  @Test func `a wrong password and an unknown address have the same error`() async throws {
    let fixture = try await IdentityFixture()
    try await fixture.signUp()
    #expect(try await fixture.signIn("another one").word == "INVALID_LOGIN_CREDENTIALS")
    #expect(
      try await fixture.signIn(email: "bob@example.org").word == "INVALID_LOGIN_CREDENTIALS")
    #expect(try await fixture.signIn(email: "bob").word == "INVALID_EMAIL")
    #expect(try await fixture.signIn("").word == "MISSING_PASSWORD")
    #expect(
      try await fixture.call("signInWithPassword", #"{"password":"x"}"#).word == "MISSING_EMAIL")
  }

  @Test func `a login of a disabled account is refused only with the right password`() async throws
  {
    let fixture = try await IdentityFixture()
    let uid = try #require(try await fixture.signUp()["localId"])
    try await fixture.accounts.setDisabled(true, .uid(uid))
    #expect(try await fixture.signIn().word == "USER_DISABLED")
    #expect(try await fixture.signIn("another one").word == "INVALID_LOGIN_CREDENTIALS")
  }

  @Test func `wrong passwords for an account make the next login of their network wait`()
    async throws
  {
    let fixture = try await IdentityFixture()
    try await fixture.signUp()
    for _ in 0..<5 {
      #expect(try await fixture.signIn("another one").word == "INVALID_LOGIN_CREDENTIALS")
    }
    #expect(try await fixture.signIn().word == "TOO_MANY_ATTEMPTS_TRY_LATER")
    #expect(try await fixture.signIn(from: "192.0.2.2").status == 200)
    fixture.clock.advance(1_001)
    #expect(try await fixture.signIn().status == 200)
  }

  @Test func `logins and sign-ups of one network are limited, and others are not`() async throws {
    let fixture = try await IdentityFixture {
      $0.loginsMax = 2
      $0.signUpsMax = 2
    }
    try await fixture.signUp()
    #expect(try await fixture.call("signUp", "{}").status == 200)
    #expect(try await fixture.call("signUp", "{}").word == "TOO_MANY_ATTEMPTS_TRY_LATER")
    #expect(try await fixture.call("signUp", "{}", from: "198.51.100.1").status == 200)
    for _ in 0..<2 { #expect(try await fixture.signIn().status == 200) }
    #expect(try await fixture.signIn().word == "TOO_MANY_ATTEMPTS_TRY_LATER")
    let token = try await fixture.service.makeCustomToken(uid: "robot")
    #expect(
      try await fixture.call("signInWithCustomToken", #"{"token":"\#(token)"}"#).word
        == "TOO_MANY_ATTEMPTS_TRY_LATER")
    #expect(try await fixture.signIn(from: "198.51.100.1").status == 200)
  }

  @Test func `a custom token logs in a user and creates the account`() async throws {
    let fixture = try await IdentityFixture()
    let token = try await fixture.service.makeCustomToken(
      uid: "robot-1", claims: #"{"role":"editor"}"#)
    let first = try await fixture.call(
      "signInWithCustomToken", #"{"token":"\#(token)","returnSecureToken":true}"#)
    #expect(first["kind"] == "identitytoolkit#VerifyCustomTokenResponse")
    #expect(first.json["isNewUser"] == .flag(true))
    let second = try await fixture.call("signInWithCustomToken", #"{"token":"\#(token)"}"#)
    #expect(second.json["isNewUser"] == .flag(false))
    for answer in [first, second] {
      let refreshed = try await fixture.refresh(try answer.text("refreshToken"))
      for token in [answer["idToken"], refreshed["id_token"]] {
        let identity = try await fixture.service.verify(try #require(token))
        #expect(identity.uid == "robot-1")
        #expect(identity.provider == "custom")
        #expect(identity.claims.child("role").stringValue == "editor", "a refresh keeps the claims")
      }
    }
  }

  @Test func `a custom token that is not the server's is refused`() async throws {
    let fixture = try await IdentityFixture()
    let other = try await IdentityFixture(seed: 2)
    let own = try await fixture.service.makeCustomToken(uid: "robot")
    let claims =
      #"{"aud":"\#(IdentityService.customAudience)","exp":9999999999,"uid":"robot"}"#
    let idToken = try #require(try await fixture.signUp()["idToken"])
    var tokens = [
      try await other.service.makeCustomToken(uid: "robot"), IdentityFixture.unsigned(claims),
      idToken, "x", "a.b.c", own + "A", String(own.dropLast(2)),
    ]
    fixture.clock.advance(3_600_000)
    tokens.append(own)
    for token in tokens {
      #expect(
        try await fixture.call("signInWithCustomToken", #"{"token":"\#(token)"}"#).word
          == "INVALID_CUSTOM_TOKEN", "\(token)")
    }
    #expect(try await fixture.call("signInWithCustomToken", "{}").word == "MISSING_CUSTOM_TOKEN")
    await #expect(throws: ClaimsProblem.reserved("sub")) {
      try await fixture.service.makeCustomToken(uid: "robot", claims: #"{"sub":"x"}"#)
    }
    await #expect(throws: ClaimsProblem.invalidUID) {
      try await fixture.service.makeCustomToken(uid: "a/b")
    }
  }

  @Test(arguments: EndOfLogins.allCases)
  func `an end of logins ends the custom tokens of an earlier time and of the same second`(
    _ end: EndOfLogins
  ) async throws {
    for advance in [0, 1_000, 3_000_000] as [Int64] {
      let fixture = try await IdentityFixture()
      func signIn(_ token: String) async throws -> Answer {
        try await fixture.call("signInWithCustomToken", #"{"token":"\#(token)"}"#)
      }
      let first = try await fixture.service.makeCustomToken(uid: "robot")
      #expect(try await signIn(first).status == 200)
      let unused = try await fixture.service.makeCustomToken(uid: "robot")
      fixture.clock.advance(advance)
      try await end.make(of: "robot", in: fixture.accounts)
      for token in [first, unused] {
        #expect(try await signIn(token).word == "INVALID_CUSTOM_TOKEN")
        await #expect(throws: IdentityProblem.invalidCustomToken) {
          try await fixture.service.beginSession(customToken: token, from: .local)
        }
      }
      // A token that the administrator makes after that is valid at once, and more than once.
      let later = try await fixture.service.makeCustomToken(uid: "robot")
      for _ in 0..<2 {
        let answer = try await signIn(later)
        #expect(try await fixture.problem(answer["idToken"]) == nil)
      }
      #expect(try await signIn(first).word == "INVALID_CUSTOM_TOKEN")
    }
  }

  @Test func `a deleted account is not created again by a token that was never used`() async throws
  {
    let fixture = try await IdentityFixture()
    let token = try await fixture.service.makeCustomToken(uid: "robot")
    let other = try await fixture.service.makeCustomToken(uid: "other")
    _ = try await fixture.accounts.beginCustomLogin(
      uid: "robot", claims: "{}", loginTime: nil, from: .local)
    try await fixture.accounts.deleteAccount(uid: "robot")
    await #expect(throws: IdentityProblem.invalidCustomToken) {
      try await fixture.service.beginSession(customToken: token, from: .local)
    }
    await #expect(throws: AccountError.notFound) {
      try await fixture.accounts.account(.uid("robot"))
    }
    _ = try await fixture.service.beginSession(customToken: other, from: .local)
    // The deletion is remembered longer than any token of its time is valid.
    fixture.clock.advance(86_400_000 - 1)
    #expect(try await fixture.accounts.purgeExpiredTokens() == 0)
    fixture.clock.advance(1)
    #expect(try await fixture.accounts.purgeExpiredTokens() == 1)
  }

  @Test func `an end of logins during a custom login ends it, or the login begins after it`()
    async throws
  {
    let store = InMemoryAccountStore()
    let fixture = try await IdentityFixture(store: store)
    let accounts = fixture.accounts
    for uid in ["robot", "new"] {
      let token = try await fixture.service.makeCustomToken(uid: uid)
      if uid == "robot" {
        _ = try await fixture.service.beginSession(customToken: token, from: .local)
      }
      await store.beforeNextToken { try await EndOfLogins.endSessions.make(of: uid, in: accounts) }
      await #expect(throws: IdentityProblem.invalidCustomToken) {
        try await fixture.service.beginSession(customToken: token, from: .local)
      }
      #expect(await store.digests.isEmpty)
    }
  }

  @Test func `an emulator accepts unsigned custom tokens of Admin libraries`() async throws {
    let fixture = try await IdentityFixture(isEmulator: true)
    let claims =
      #"{"aud":"\#(IdentityService.customAudience)","iat":1,"exp":9999999999,"uid":"robot","claims":{"a":1}}"#
    let token = IdentityFixture.unsigned(claims)
    #expect(
      try await fixture.call("signInWithCustomToken", #"{"token":"\#(token)"}"#).status == 200)
    for bad in [
      IdentityFixture.unsigned(claims, algorithm: "ES256"), token + "AAAA",
      IdentityFixture.unsigned(claims.replacing("robot", with: "a.b")),
      IdentityFixture.unsigned(claims.replacing("9999999999", with: "5")),
      IdentityFixture.unsigned(claims.replacing(#""a":1"#, with: #""aud":"x""#)),
    ] {
      #expect(
        try await fixture.call("signInWithCustomToken", #"{"token":"\#(bad)"}"#).word
          == "INVALID_CUSTOM_TOKEN")
    }
  }

  @Test func `a refresh token gets a new identity token until its session ends`() async throws {
    let fixture = try await IdentityFixture()
    let account = try await fixture.signUp()
    let token = try account.text("refreshToken")
    fixture.clock.advance(3_600_000)
    #expect(try await fixture.problem(account["idToken"]) == .expired)
    let answer = try await fixture.refresh(token)
    #expect(answer["token_type"] == "Bearer")
    #expect(answer["expires_in"] == "3600")
    #expect(answer["refresh_token"] == token)
    #expect(answer["user_id"] == account["localId"])
    #expect(answer["project_id"] == "blog")
    #expect(answer["access_token"] == answer["id_token"])
    let identity = try await fixture.service.verify(try answer.text("id_token"))
    let began = (fixture.clock.now - 3_600_000) / 1_000
    #expect(identity.loginTime == began, "the time of the login stays")
    fixture.clock.advance(30 * 24 * 3_600_000)
    #expect(try await fixture.refresh(token).word == "TOKEN_EXPIRED")
  }

  @Test func `a session of the line protocol is a refresh token, and a logout ends it`()
    async throws
  {
    let fixture = try await IdentityFixture()
    try await fixture.signUp()
    let session = try await fixture.accounts.logIn(
      email: IdentityFixture.email, password: IdentityFixture.password, from: .local)
    #expect(try await fixture.refresh(session.token).status == 200)
    let identity = try await fixture.service.identify(session.token)
    #expect(identity.uid == session.uid)
    #expect(identity.provider == "password")
    #expect(identity.claims.child("email").stringValue == IdentityFixture.email)
    try await fixture.accounts.logOut(session.token)
    #expect(try await fixture.refresh(session.token).word == "TOKEN_EXPIRED")
    await #expect(throws: IdentityProblem.revoked) {
      try await fixture.service.identify(session.token)
    }
  }

  @Test func `the form of the token endpoint is decoded, and its errors have words`() async throws {
    let fixture = try await IdentityFixture()
    let token = try #require(try await fixture.signUp()["refreshToken"])
    let path = "/securetoken.googleapis.com/v1/token"
    for (body, word) in [
      ("", "MISSING_GRANT_TYPE"), ("grant_type=", "MISSING_GRANT_TYPE"),
      ("grant_type=password&refresh_token=\(token)", "INVALID_GRANT_TYPE"),
      ("grant_type=refresh_token", "MISSING_REFRESH_TOKEN"),
      ("refresh_token=&grant_type=refresh_token", "MISSING_REFRESH_TOKEN"),
      ("grant_type=refresh_token&refresh_token=x", "INVALID_REFRESH_TOKEN"),
      ("grant_type=refresh%5", "INVALID_GRANT_TYPE"),
      ("grant_type=refresh_token&refresh_token=\(String(token.reversed()))", nil),
      ("refresh%5Ftoken=\(token)&grant%5ftype=refresh%5ftoken", nil),
      (#" {"grant_type":"refresh_token","refresh_token":"\#(token)"}"#, nil),
    ] as [(String, String?)] {
      let answer = try await fixture.request("POST", path, body: body)
      if let word { #expect(answer.word == word, "\(body)") }
    }
    let escaped = try await fixture.request(
      "POST", path, body: "refresh%5Ftoken=\(token)&grant%5ftype=refresh%5ftoken")
    #expect(escaped.status == 200)
    let json = try await fixture.request(
      "POST", path, body: #" {"grant_type":"refresh_token","refresh_token":"\#(token)"}"#)
    #expect(json.status == 200)
  }
}

/// The ways in which the logins of a user end.
enum EndOfLogins: CaseIterable {
  case endSessions, disable, password, delete

  func make(of uid: String, in accounts: AccountService) async throws {
    switch self {
    case .endSessions:
      var changes = AccountChanges()
      changes.endsLogins = true
      _ = try await accounts.update(uid, changes, from: nil)
    case .disable:
      try await accounts.setDisabled(true, .uid(uid))
      try await accounts.setDisabled(false, .uid(uid))
    case .password: try await accounts.setPassword("engine of 1844", .uid(uid))
    case .delete: try await accounts.deleteAccount(uid: uid)
    }
  }
}
