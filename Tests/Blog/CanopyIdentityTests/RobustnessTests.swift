import CanopyAccounts
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyIdentity

struct RobustnessTests {
  private static let names = [
    "signUp", "signInWithPassword", "signInWithCustomToken", "lookup", "update", "delete",
    "sendOobCode", "resetPassword", "other", "",
  ]

  @Test func `two thousand malformed bodies never stop the process`() async throws {
    let fixture = try await IdentityFixture(isEmulator: true) {
      $0.loginsMax = 1_000_000
      $0.signUpsMax = 1_000_000
    }
    var generator = SeededGenerator(printingSeedFor: "malformed identity requests")
    let account = try await fixture.signUp()
    let token = try account.text("idToken")
    let bodies = [
      #"{"email":"ada@example.org","password":"x","returnSecureToken":true}"#,
      #"{"idToken":"\#(token)","displayName":"a","deleteAttribute":["EMAIL",1],"validSince":1e99}"#,
      #"{"localId":["a",null,{}],"email":[["x"]],"limit":-9223372036854775808,"offset":1.5}"#,
      #"{"token":"\#(IdentityFixture.unsigned(#"{"uid":"a","exp":1e400}"#))"}"#,
      #"{"requestType":"PASSWORD_RESET","email":"\ud800"}"#,
      #"{"oobCode":"\u0000","newPassword":"é"}"#,
      "grant_type=refresh_token&refresh_token=%%%F%4",
      String(repeating: "[", count: 5_000),
    ].map { Array($0.utf8) }
    for _ in 0..<2_000 {
      var body =
        generator.oneIn(8)
        ? generator.bytes(Int.random(in: 0..<64, using: &generator)) : generator.pick(bodies)
      for _ in 0..<Int.random(in: 0..<4, using: &generator) where !body.isEmpty {
        let index = Int.random(in: 0..<body.count, using: &generator)
        switch Int.random(in: 0..<3, using: &generator) {
        case 0: body[index] = UInt8.random(in: .min ... .max, using: &generator)
        case 1: body.remove(at: index)
        default: body.insert(contentsOf: body[..<index].suffix(9), at: index)
        }
      }
      let name = generator.pick(Self.names)
      let path = generator.pick([
        "/identitytoolkit.googleapis.com/v1/accounts:\(name)",
        "/identitytoolkit.googleapis.com/v1/projects/p/accounts:\(name)",
        "/v1/projects/p/accounts:query", "/v1/projects/p/accounts",
        "/securetoken.googleapis.com/v1/token", "/v1/:\(name)", "/:", "//::",
      ])
      let response = await fixture.service.respond(
        to: IdentityRequest(
          method: "POST", path: path, authorization: "Bearer owner", body: body,
          address: "192.0.2.1"))
      #expect([200, 400, 401, 404, 413].contains(response.status), "\(path) \(body)")
      #expect(JSONValue(bytes: response.body) != nil)
    }
  }

  @Test func `two thousand random tokens are refused`() async throws {
    let fixture = try await IdentityFixture(isEmulator: true)
    let token = Array(try #require(try await fixture.signUp()["idToken"]).utf8)
    var generator = SeededGenerator(printingSeedFor: "malformed tokens")
    for _ in 0..<2_000 {
      var bytes = token
      for _ in 0..<Int.random(in: 1..<5, using: &generator) {
        let index = Int.random(in: 0..<bytes.count, using: &generator)
        if generator.oneIn(2) {
          bytes[index] ^= 1 << UInt8.random(in: 0..<7, using: &generator)
        } else {
          bytes.remove(at: index)
        }
      }
      guard bytes != token else { continue }
      #expect(try await fixture.problem(String(decoding: bytes, as: UTF8.self)) == .invalid)
    }
  }

  @Test func `unknown paths, methods and large bodies have responses of their own`() async throws {
    let fixture = try await IdentityFixture()
    let prefix = "/identitytoolkit.googleapis.com/v1/"
    for path in [
      "/", "", "/v1", "/v1/accounts", prefix + "accounts:none", prefix + "accounts",
      "/securetoken.googleapis.com/v2/token", "/other/v1/token", "/v1/projects/accounts:x",
    ] {
      #expect(try await fixture.request("POST", path, body: "{}").status == 404, "\(path)")
    }
    #expect(try await fixture.request("GET", prefix + "accounts:signUp").status == 405)
    #expect(try await fixture.request("POST", "/.well-known/jwks.json").status == 405)
    #expect(try await fixture.call("signInWithIdp", "{}").word == "OPERATION_NOT_ALLOWED")
    let large = #"{"email":"\#(String(repeating: "x", count: 64 * 1024))"}"#
    #expect(try await fixture.call("signUp", large).status == 413)
    for body in ["[]", "1", "{", #"{"email":1}"#, #"{"email":"a@b","password":[]}"#, "\u{0}"] {
      let answer = try await fixture.call("signUp", body)
      #expect(answer.status == 400)
      #expect(answer.word?.hasPrefix("Invalid JSON payload received.") == true, "\(body)")
    }
  }

  @Test func `the paths of this module are known`() {
    for path in [
      "/identitytoolkit.googleapis.com/v1/accounts:signUp", "/securetoken.googleapis.com/v1/token",
      "/.well-known/jwks.json", "/emulator/v1/projects/p/oobCodes",
    ] {
      #expect(IdentityService.isIdentityPath(path))
    }
    for path in ["/", "/users.json", "/.json", "/.ws", "/identitytoolkit.json", "/v1.json"] {
      #expect(!IdentityService.isIdentityPath(path))
    }
  }
}
