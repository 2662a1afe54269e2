import CanopyAccounts
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyIdentity

struct AdministrationTests {
  @Test func `only the administrator of an emulator may make administrative requests`() async throws
  {
    let emulator = try await IdentityFixture(isEmulator: true)
    let server = try await IdentityFixture()
    let path = "/identitytoolkit.googleapis.com/v1/projects/blog/accounts"
    for (fixture, authorization, status) in [
      (emulator, "Bearer owner", 200), (emulator, "bearer OWNER", 200), (emulator, nil, 401),
      (emulator, "Bearer other", 401), (emulator, "owner", 401), (server, "Bearer owner", 401),
    ] as [(IdentityFixture, String?, Int)] {
      let answer = try await fixture.request(
        "POST", path, body: "{}", authorization: authorization)
      #expect(answer.status == status)
      if status != 200 {
        #expect(answer.json["error"]?["status"]?.string == "UNAUTHENTICATED")
      }
    }
    #expect(try await server.request("GET", "/emulator/v1/projects/blog/oobCodes").status == 404)
  }

  @Test func `a foreign page is not an administrator, and its tokens need a signature`()
    async throws
  {
    let fixture = try await IdentityFixture(isEmulator: true)
    let accounts = "/identitytoolkit.googleapis.com/v1/projects/blog/accounts"
    let codes = "/emulator/v1/projects/blog/oobCodes"
    let identity = IdentityFixture.unsigned(#"{"sub":"ada","exp":9999999999,"iat":1}"#)
    for isForeign in [false, true] {
      let created = try await fixture.request(
        "POST", accounts, body: #"{"localId":"ada\#(isForeign)"}"#, authorization: "Bearer owner",
        isForeign: isForeign)
      #expect(created.status == (isForeign ? 401 : 200))
      let list = try await fixture.request("GET", codes, isForeign: isForeign)
      #expect(list.status == (isForeign ? 401 : 200))
      let custom = IdentityFixture.unsigned(
        #"{"aud":"\#(IdentityService.customAudience)","uid":"ada","exp":9999999999,"iat":1}"#)
      let login = try await fixture.request(
        "POST", "/identitytoolkit.googleapis.com/v1/accounts:signInWithCustomToken",
        body: #"{"token":"\#(custom)"}"#, isForeign: isForeign)
      #expect(login.status == (isForeign ? 400 : 200))
      let lookup = try await fixture.request(
        "POST", "/identitytoolkit.googleapis.com/v1/accounts:lookup",
        body: #"{"idToken":"\#(identity)"}"#, isForeign: isForeign)
      #expect((lookup.word == "INVALID_ID_TOKEN") == isForeign, "\(lookup)")
    }
  }

  @Test func `an account is created, found, changed and deleted`() async throws {
    let fixture = try await IdentityFixture(isEmulator: true)
    let created = try await fixture.administrator(
      "",
      #"{"localId":"ada","email":"ada@example.org","password":"engine of 1843","displayName":"Ada","emailVerified":true}"#
    )
    #expect(created["localId"] == "ada")
    #expect(
      try await fixture.administrator("", #"{"localId":"ada"}"#).word == "DUPLICATE_LOCAL_ID")
    #expect(
      try await fixture.administrator("", #"{"email":"ADA@example.org"}"#).word == "EMAIL_EXISTS")
    let login = try await fixture.signIn()
    #expect(login["displayName"] == "Ada")
    for selector in [#""localId":["ada","ada","bob"]"#, #""email":["ada@example.org"]"#] {
      let found = try await fixture.administrator(":lookup", "{\(selector)}")
      let users = try #require(found.json["users"]?.elements)
      #expect(users.map { $0["localId"]?.string } == ["ada"])
      #expect(users.first?["emailVerified"] == .flag(true))
    }
    #expect(
      try await fixture.administrator(":lookup", #"{"localId":["bob"]}"#).json["users"] == nil)

    let changed = try await fixture.administrator(
      ":update",
      #"{"localId":"ada","customAttributes":"{\"role\":\"editor\"}","displayName":"Countess"}"#)
    #expect(changed["displayName"] == "Countess")
    #expect(try await fixture.problem(login["idToken"]) == nil)
    let refreshed = try await fixture.refresh(try login.text("refreshToken"))
    let identity = try await fixture.service.verify(try refreshed.text("id_token"))
    #expect(identity.claims.child("role").stringValue == "editor")

    let revoked = try await fixture.administrator(
      ":update", #"{"localId":"ada","validSince":1700000000}"#)
    #expect(revoked.status == 200)
    #expect(try await fixture.problem(login["idToken"]) == .revoked)
    #expect(fixture.ended.all == ["ada"])
    let disabled = try await fixture.administrator(
      ":update", #"{"localId":"ada","disableUser":true}"#)
    #expect(disabled.status == 200)
    #expect(try await fixture.signIn().word == "USER_DISABLED")

    #expect(try await fixture.administrator(":delete", #"{"localId":"ada"}"#).status == 200)
    for call in [":delete", ":update"] {
      #expect(
        try await fixture.administrator(call, #"{"localId":"ada"}"#).word == "USER_NOT_FOUND")
      #expect(try await fixture.administrator(call, "{}").word == "MISSING_LOCAL_ID")
    }
  }

  @Test func `claims and identifiers are checked`() async throws {
    let fixture = try await IdentityFixture(isEmulator: true)
    #expect(try await fixture.administrator("", #"{"localId":"ada"}"#).status == 200)
    for (claims, word) in [
      ("[]", "INVALID_CLAIMS"), ("{", "INVALID_CLAIMS"),
      (#"{\"sub\":\"x\"}"#, "FORBIDDEN_CLAIM : sub"),
      (#"{\"a\":\"\#(String(repeating: "x", count: 1_000))\"}"#, "CLAIMS_TOO_LARGE"),
    ] {
      #expect(
        try await fixture.administrator(
          ":update", #"{"localId":"ada","customAttributes":"\#(claims)"}"#
        ).word == word)
    }
    for uid in ["", "a/b", "a.b", String(repeating: "x", count: 129)] {
      #expect(
        try await fixture.administrator("", #"{"localId":"\#(uid)"}"#).word?
          .hasPrefix("INVALID_ARGUMENT") == true)
    }
  }

  @Test func `accounts are listed in pages, and queried`() async throws {
    let fixture = try await IdentityFixture(isEmulator: true)
    for number in 0..<7 {
      #expect(
        try await fixture.administrator(
          "", #"{"localId":"u\#(number)","email":"u\#(number)@example.org"}"#
        ).status == 200)
    }
    #expect(try await fixture.administrator("", #"{"localId":"v"}"#).status == 200)
    var listed: [String?] = []
    var token: String?
    repeat {
      let page = try await fixture.request(
        "GET", "/identitytoolkit.googleapis.com/v1/projects/blog/accounts:batchGet",
        query: [("maxResults", "3")] + (token.map { [("nextPageToken", $0)] } ?? []),
        authorization: "Bearer owner")
      listed += (page.json["users"]?.elements ?? []).map { $0["localId"]?.string }
      token = page["nextPageToken"]
    } while token != nil
    #expect(listed == (0..<7).map { "u\($0)" } + ["v"])
    let part = try await fixture.administrator(":query", #"{"limit":"2","offset":"3"}"#)
    #expect(
      (part.json["userInfo"]?.elements ?? []).map { $0["localId"]?.string } == ["u3", "u4"])
    let found = try await fixture.administrator(
      ":query", #"{"expression":[{"email":"u5@example.org"},{"userId":"v"},{"userId":"w"}]}"#)
    #expect(found["recordsCount"] == "2")
    let removed = try await fixture.administrator(
      ":batchDelete", #"{"localIds":["u0","u1","w"],"force":true}"#)
    #expect(removed.json["errors"]?.elements?.isEmpty == true)
    let refused = try await fixture.administrator(":batchDelete", #"{"localIds":["u2"]}"#)
    #expect(refused.json["errors"]?.elements?.count == 1)
    #expect(
      try await fixture.request(
        "GET", "/identitytoolkit.googleapis.com/v1/projects/blog/accounts:batchGet",
        query: [("nextPageToken", "!")], authorization: "Bearer owner"
      ).word == "INVALID_PAGE_SELECTION")
  }

  @Test func `the administrator gets the codes of e-mails`() async throws {
    let fixture = try await IdentityFixture(isEmulator: true)
    try await fixture.signUp()
    let made = try await fixture.administrator(
      ":sendOobCode",
      #"{"requestType":"PASSWORD_RESET","email":"ada@example.org","returnOobLink":true}"#)
    let code = try made.text("oobCode")
    #expect(made["oobLink"]?.contains(code) == true)
    #expect(
      try await fixture.administrator(
        ":sendOobCode", #"{"requestType":"PASSWORD_RESET","email":"bob@example.org"}"#
      ).word == "EMAIL_NOT_FOUND")
    let list = try await fixture.request("GET", "/emulator/v1/projects/blog/oobCodes")
    #expect(list.json["oobCodes"]?.elements?.first?["oobCode"]?.string == code)
    #expect(
      try await fixture.call(
        "resetPassword", #"{"oobCode":"\#(code)","newPassword":"engine of 1844"}"#
      ).status == 200)
  }
}
