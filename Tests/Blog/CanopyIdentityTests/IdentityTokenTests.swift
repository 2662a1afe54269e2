import CanopyAccounts
import CanopyRules
import CanopySQLite
import CanopyTesting
import CanopyTree
import Foundation
import Testing

@testable import CanopyIdentity

struct IdentityTokenTests {
  @Test func `an identity token has the claims of the original`() async throws {
    let fixture = try await IdentityFixture()
    let account = try await fixture.signUp()
    let token = try #require(JSONWebToken(try account.text("idToken")))
    let uid = try account.text("localId")
    #expect(token.algorithm == "ES256")
    let claims = token.claims
    #expect(claims["iss"]?.string == "https://securetoken.google.com/blog")
    #expect(claims["aud"]?.string == "blog")
    #expect(claims["sub"]?.string == uid)
    #expect(claims["user_id"]?.string == uid)
    #expect(claims["auth_time"]?.integerNumber == 1_700_000_000)
    #expect(claims["iat"]?.integerNumber == 1_700_000_000)
    #expect(claims["exp"]?.integerNumber == 1_700_003_600)
    #expect(claims["email"]?.string == "ada@example.org")
    #expect(claims["email_verified"] == .flag(false))
    #expect(
      String(decoding: try #require(claims["firebase"]).jsonBytes, as: UTF8.self)
        == #"{"identities":{"email":["ada@example.org"]},"sign_in_provider":"password"}"#)
  }

  @Test func `rules see the uid, the claims and the provider`() async throws {
    let fixture = try await IdentityFixture()
    let token = try #require(try await fixture.signUp()["idToken"])
    let identity = try await fixture.service.verify(token)
    let rules = try RuleSet(
      text: #"""
        {"rules":{"users":{"$uid":{
          ".read":"auth.uid === $uid && auth.token.email === 'ada@example.org' && auth.provider === 'password' && auth.token.firebase.sign_in_provider === 'password'"
        }}}}
        """#)
    let caller = identity.caller(at: fixture.clock.now)
    #expect(rules.mayRead(try Path("users/\(identity.uid)"), in: .absent, as: caller))
    #expect(!rules.mayRead(try Path("users/other"), in: .absent, as: caller))
  }

  @Test func `a token is valid until its last millisecond`() async throws {
    let fixture = try await IdentityFixture()
    let token = try #require(try await fixture.signUp()["idToken"])
    fixture.clock.advance(3_599_999)
    #expect(try await fixture.problem(token) == nil)
    let identity = try await fixture.service.verify(token)
    #expect(fixture.service.isKnownValid(identity) == true)
    fixture.clock.advance(1)
    #expect(try await fixture.problem(token) == .expired)
    #expect(fixture.service.isKnownValid(identity) == false)
    await #expect(throws: IdentityProblem.expired) { try await fixture.service.check(identity) }
  }

  @Test func `a token with any changed byte is refused`() async throws {
    let fixture = try await IdentityFixture()
    let token = try #require(try await fixture.signUp()["idToken"])
    #expect(try await fixture.problem(token) == nil)
    let bytes = Array(token.utf8)
    for index in bytes.indices {
      var changed = bytes
      changed[index] = bytes[index] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
      let text = String(decoding: changed, as: UTF8.self)
      #expect(try await fixture.problem(text) == .invalid, "byte \(index)")
    }
    for text in [
      token + "=", token + "A", " " + token, String(token.dropLast()), token + ".",
      token.replacing(".", with: ".."), "", ".", "..", "...",
    ] {
      #expect(try await fixture.problem(text) == .invalid)
    }
  }

  @Test func `tokens of other keys, projects and algorithms are refused`() async throws {
    let fixture = try await IdentityFixture()
    let other = try await IdentityFixture(seed: 2)
    #expect(try await fixture.problem(try await other.signUp()["idToken"]) == .invalid)
    let account = try await fixture.signUp()
    let key = try #require(fixture.keys.signing)
    let claims = try #require(JSONWebToken(try account.text("idToken"))).claims
    let members = try #require(claims.members)
    func signed(_ name: String, _ value: JSONValue?) throws -> String {
      let rest = members.filter { $0.name != name }
      return try JSONWebToken.sign(
        .object(rest + (value.map { [(name, $0)] } ?? [])), with: key)
    }
    #expect(try await fixture.problem(try JSONWebToken.sign(claims, with: key)) == nil)
    for (name, value) in [
      ("iss", .text("https://securetoken.google.com/other")), ("aud", .text("other")),
      ("aud", .array([.text("blog")])), ("iss", nil), ("aud", nil), ("sub", nil),
      ("sub", .text("")), ("sub", .number(1)), ("exp", nil), ("exp", .text("9999999999")),
    ] as [(String, JSONValue?)] {
      #expect(try await fixture.problem(try signed(name, value)) == .invalid, "\(name)")
    }
    #expect(try await fixture.problem(try signed("exp", .number(.min))) == .expired)
    #expect(try await fixture.problem(try signed("exp", .number(.max))) == nil, "does not overflow")
    let json = String(decoding: claims.jsonBytes, as: UTF8.self)
    let signature = try account.text("idToken").split(separator: ".")[2]
    for algorithm in ["none", "None", "HS256", "ES256", "RS256"] {
      let unsigned = IdentityFixture.unsigned(json, algorithm: algorithm)
      #expect(try await fixture.problem(unsigned) == .invalid)
      #expect(try await fixture.problem(unsigned + signature) == .invalid)
    }
    let custom = try await fixture.service.makeCustomToken(uid: try account.text("localId"))
    #expect(try await fixture.problem(custom) == .invalid, "a custom token is not an identity")
  }

  @Test func `an emulator accepts unsigned tokens, and others do not`() async throws {
    let claims =
      #"{"sub":"alice","exp":9999999999,"iat":1,"email":"a@x","firebase":{"sign_in_provider":"custom","identities":{}}}"#
    let token = IdentityFixture.unsigned(claims)
    let emulator = try await IdentityFixture(isEmulator: true)
    let identity = try await emulator.service.verify(token)
    #expect(identity.uid == "alice")
    #expect(identity.claims.child("email").stringValue == "a@x")
    #expect(identity.isUnsigned)
    #expect(try await emulator.problem(token + "AA") == .invalid)
    let server = try await IdentityFixture()
    #expect(try await server.problem(token) == .invalid)
  }

  @Test func `claims whose names are not keys are left out`() async throws {
    let fixture = try await IdentityFixture()
    let custom = try await fixture.service.makeCustomToken(
      uid: "robot", claims: #"{"a.b":1,"list":[true,{"c":null,"d":"e"}],"role":"editor"}"#)
    let answer = try await fixture.call("signInWithCustomToken", #"{"token":"\#(custom)"}"#)
    let identity = try await fixture.service.verify(try answer.text("idToken"))
    #expect(identity.claims.child("list").json() == #"[true,{"d":"e"}]"#)
    #expect(identity.claims.child("role").stringValue == "editor")
  }

  @Test func `a token in memory needs no second signature, and its state is still checked`()
    async throws
  {
    let fixture = try await IdentityFixture()
    let account = try await fixture.signUp()
    let token = try account.text("idToken")
    #expect(try await fixture.problem(token) == nil)
    #expect(fixture.service.verified.count == 1)
    #expect(try await fixture.problem(token) == nil)
    #expect(fixture.service.verified.count == 1)
    try await fixture.accounts.setDisabled(true, .uid(try account.text("localId")))
    #expect(try await fixture.problem(token) == .disabled)
    #expect(fixture.service.verified.count == 0)
    #expect(try await fixture.problem(token + "x") == .invalid)
    #expect(fixture.service.verified.count == 0, "a refused token takes no memory")
  }

  @Test func `the memory of tokens is bounded and keeps the ones in use`() {
    let tokens = VerifiedTokens(capacity: 4, bytesMax: .max)
    let identity = VerifiedIdentity(
      uid: "u", provider: "password", claims: .absent, expiresAt: 0, loginTime: 0,
      isUnsigned: false)
    for number in 0..<100 {
      tokens.add(identity, for: .init("\(number)"), bytes: 1)
      #expect(tokens.count <= 4)
      #expect(tokens[.init("0")] != nil)
    }
    #expect(tokens[.init("1")] == nil)
  }

  @Test func `the memory of tokens is bounded by bytes`() {
    let tokens = VerifiedTokens(capacity: 1_000, bytesMax: 400)
    let identity = VerifiedIdentity(
      uid: "u", provider: "password", claims: .absent, expiresAt: 0, loginTime: 0,
      isUnsigned: false)
    for number in 0..<100 {
      tokens.add(identity, for: .init("\(number)"), bytes: 50)
      tokens.add(identity, for: .init("\(number)"), bytes: 50)
      #expect(tokens.bytes <= 400 && tokens.bytes == 50 * tokens.count)
      #expect(tokens[.init("\(number)")] != nil)
    }
    #expect(tokens.count >= 4)
    tokens.add(identity, for: .init("large"), bytes: 1_000)
    #expect(tokens[.init("large")] != nil, "one token is always kept")
    for number in 0..<8 { tokens.add(identity, for: .init("\(number)"), bytes: 50) }
    #expect(tokens[.init("large")] == nil && tokens.bytes <= 400)
    for number in 0..<8 { tokens.remove(.init("\(number)")) }
    #expect(tokens.count == 0 && tokens.bytes == 0)
  }

  @Test func `a restart keeps accounts, keys and revocations`() async throws {
    let folder = try TemporaryFolder()
    let clock = ManualClock()
    var revoked = ""
    var valid = ""
    var missing = ""
    var anonymous = ""
    do {
      let store = try SQLiteStore(folder: folder.path)
      defer { try? store.close() }
      let fixture = try await IdentityFixture(store: store, folder: folder, clock: clock)
      revoked = try #require(try await fixture.signUp()["idToken"])
      let changed = try await fixture.call(
        "update", #"{"idToken":"\#(revoked)","password":"engine of 1844","returnSecureToken":true}"#
      )
      valid = try changed.text("idToken")
      missing = try #require(try await fixture.signUp(email: "bob@example.org")["idToken"])
      #expect(try await fixture.call("delete", #"{"idToken":"\#(missing)"}"#).status == 200)
      anonymous = try #require(try await fixture.call("signUp", "{}")["refreshToken"])
    }
    let store = try SQLiteStore(folder: folder.path)
    let fixture = try await IdentityFixture(
      store: store, folder: folder, clock: clock, seed: 7)
    #expect(try await fixture.problem(valid) == nil)
    #expect(try await fixture.problem(revoked) == .revoked)
    #expect(try await fixture.problem(missing) == .missing)
    #expect(try await fixture.refresh(anonymous).status == 200)
    #expect(try await store.problems().isEmpty)
    try store.close()
  }
}

struct IdentityKeysTests {
  @Test func `the keys are created once, for their owner alone`() async throws {
    let folder = try TemporaryFolder()
    let keys = try await IdentityKeys.loadOrCreate(in: folder.path)
    let again = try await IdentityKeys.loadOrCreate(in: folder.path + "/")
    #expect(keys.signing?.identifier == again.signing?.identifier)
    let attributes = try FileManager.default.attributesOfItem(
      atPath: folder.file(IdentityKeys.fileName))
    #expect((attributes[.posixPermissions] as? NSNumber)?.intValue == 0o600)
    #expect(try folder.files() == [IdentityKeys.fileName])
  }

  @Test func `a file that others may read, or that is malformed, is refused`() async throws {
    let folder = try TemporaryFolder()
    let path = folder.file(IdentityKeys.fileName)
    func problem() async -> PrivateFileProblem? {
      do {
        _ = try await IdentityKeys.loadOrCreate(in: folder.path)
        return nil
      } catch let error as IdentityKeysError {
        #expect(error.path == path)
        #expect(error.sentence.contains(path))
        return error.problem
      } catch { return nil }
    }
    #expect(await problem() == nil)
    let whole = Array(try Data(contentsOf: URL(fileURLWithPath: path)))
    let bytesMax = 64 * 1024
    try IdentityKeys.check(whole, of: path)
    let longest = whole + Array(repeating: UInt8(ascii: "\n"), count: bytesMax - whole.count)
    try IdentityKeys.check(longest, of: path)
    #expect(throws: IdentityKeysError(path: path, problem: .malformed)) {
      try IdentityKeys.check(longest + [UInt8(ascii: "\n")], of: path)
    }
    try FileManager.default.setAttributes([.posixPermissions: 0o640], ofItemAtPath: path)
    #expect(await problem() == .exposed(mode: 0o640))
    for text in [
      "", "{}", #"{"keys":[]}"#, #"{"keys":[{"kid":"a","d":"b","createdAt":1}]}"#,
      #"{"keys":[{"kid":"a","createdAt":1}]}"#, "keys",
      #"{"keys":[{"kid":"a","d":"\#(String(repeating: "A", count: 43))","createdAt":1}]}"#,
    ] {
      try Data(text.utf8).write(to: URL(fileURLWithPath: path))
      try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
      #expect(await problem() == .malformed, "\(text)")
      #expect(throws: IdentityKeysError(path: path, problem: .malformed), "\(text)") {
        try IdentityKeys.check(Array(text.utf8), of: path)
      }
    }
  }

  @Test func `a former key verifies until its tokens have expired, also after a restart`()
    async throws
  {
    let fixture = try await IdentityFixture()
    let first = try #require(fixture.keys.signing?.identifier)
    let token = try #require(try await fixture.signUp()["idToken"])
    fixture.clock.advance(1_000)
    try await fixture.keys.rotate()
    let second = try #require(fixture.keys.signing?.identifier)
    #expect(first != second)
    #expect(try await fixture.problem(token) == nil)
    #expect(
      JSONWebToken(try #require(try await fixture.signIn()["idToken"]))?.keyIdentifier == second)
    func published() async throws -> [String?] {
      let answer = try await fixture.request("GET", "/.well-known/jwks.json")
      return (answer.json["keys"]?.elements ?? []).map { $0["kid"]?.string }
    }
    #expect(try await published() == [second, first])
    let now = fixture.clock.now
    let loaded = try await IdentityKeys.loadOrCreate(in: fixture.folder.path)
    #expect(loaded.key(first, now: now + IdentityKeys.retiredMilliseconds - 1) != nil)
    #expect(loaded.key(first, now: now + IdentityKeys.retiredMilliseconds) == nil)
    #expect(loaded.key(second, now: .max) != nil)
    fixture.clock.advance(IdentityKeys.retiredMilliseconds)
    #expect(try await published() == [second])
    try await fixture.keys.rotate()
    #expect(fixture.keys.key(first, now: now) == nil, "the file forgets it")
  }

  @Test func `the published keys verify the tokens, and have no secret`() async throws {
    let fixture = try await IdentityFixture()
    for path in [
      "/.well-known/jwks.json", "/robot/v1/metadata/jwk/securetoken@system.gserviceaccount.com",
      "/www.googleapis.com/service_accounts/v1/jwk/securetoken@system.gserviceaccount.com",
    ] {
      let answer = try await fixture.request("GET", path)
      let key = try #require(answer.json["keys"]?.elements?.first)
      #expect(key["kty"]?.string == "EC")
      #expect(key["alg"]?.string == "ES256")
      #expect(key["crv"]?.string == "P-256")
      #expect(key["x"]?.string?.utf8.count == 43)
      #expect(key["y"]?.string?.utf8.count == 43)
      #expect(key["d"] == nil)
    }
    let signing = try #require(fixture.keys.signing)
    #expect("\(signing)".contains("redacted"))
  }
}
