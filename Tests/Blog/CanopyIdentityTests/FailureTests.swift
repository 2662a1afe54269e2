import CanopyAccounts
import CanopyTesting
import Testing

@testable import CanopyIdentity

/// Responses and reports while the store fails, and the bound of claims.
struct FailureTests {
  private struct Failure: Error {}

  private static let request = #"{"requestType":"PASSWORD_RESET","email":"ada@example.org"}"#

  @Test func `an error while a code is made after the response is logged`() async throws {
    let store = InMemoryAccountStore()
    let fixture = try await IdentityFixture(store: store)
    try await fixture.signUp()
    await store.fail(with: Failure())
    #expect(try await fixture.call("sendOobCode", Self.request).status == 200)
    try await eventually { !fixture.failures.all.isEmpty }
    #expect(fixture.failures.all.count == 1 && fixture.failures.all[0] is Failure)
    #expect(fixture.codes.all.isEmpty)
    #expect(try await fixture.signIn().status == 503)
    #expect(fixture.failures.all.count == 2, "that of a response is logged too")
    await store.fail(with: nil)
    #expect(try await fixture.signIn("wrong").status == 400)
    #expect(fixture.failures.all.count == 2, "errors of clients are not")
  }

  @Test func `a store that fails after a new password was set makes the outcome uncertain`()
    async throws
  {
    let store = InMemoryAccountStore()
    let fixture = try await IdentityFixture(store: store)
    let uid = try await fixture.signUp().text("localId")
    _ = try await fixture.call("sendOobCode", Self.request)
    try await eventually { !fixture.codes.all.isEmpty }
    let code = fixture.codes.all[0].text
    await store.failAfterNextChange(with: Failure())
    let answer = try await fixture.call(
      "resetPassword", #"{"oobCode":"\#(code)","newPassword":"engine of 1844"}"#)
    #expect(answer.status == 503)
    #expect(answer.word?.contains("may have been made") == true)
    #expect(fixture.ended.all == [uid], "open connections of the user end")
    #expect(try await fixture.signIn("engine of 1844").status == 200)
  }

  @Test func `so does one that fails after a removal or a change`() async throws {
    let store = InMemoryAccountStore()
    let fixture = try await IdentityFixture(store: store)
    let first = try await fixture.signUp()
    await store.failAfterNextChange(with: Failure())
    let update = try await fixture.call(
      "update", #"{"idToken":"\#(try first.text("idToken"))","password":"engine of 1844"}"#)
    #expect(update.status == 503 && update.word?.contains("may have been made") == true)
    let uid = try first.text("localId")
    #expect(fixture.ended.all == [uid])
    let token = try await fixture.signIn("engine of 1844").text("idToken")
    await store.failAfterNextChange(with: Failure())
    let removal = try await fixture.call("delete", #"{"idToken":"\#(token)"}"#)
    #expect(removal.status == 503 && removal.word?.contains("may have been made") == true)
    #expect(fixture.ended.all == [uid, uid])
    #expect(fixture.failures.all.count == 2)
  }

  @Test func `claims have at most 16 levels, and those of an issued token are accepted`()
    async throws
  {
    let fixture = try await IdentityFixture()
    func text(_ count: Int, _ text: String) -> String { String(repeating: text, count: count) }
    func claims(_ levels: Int) -> String { text(levels, #"{"a":"#) + "1" + text(levels, "}") }
    func string(_ bytes: Int) -> String { #"{"a":"\#(text(bytes - 8, "x"))"}"# }
    for accepted in [claims(16), string(1_000)] {
      let token = try await fixture.service.makeCustomToken(uid: "robot", claims: accepted)
      let answer = try await fixture.call("signInWithCustomToken", #"{"token":"\#(token)"}"#)
      #expect(answer.status == 200)
      #expect(try await fixture.problem(answer["idToken"]) == nil)
    }
    let arrays = #"{"a":\#(text(16, "["))\#(text(16, "]"))}"#
    for (refused, problem) in [
      (claims(17), .tooDeep), (arrays, .tooDeep), (claims(40), .invalid), ("[]", .invalid),
      (string(1_001), .tooLarge),
    ] as [(String, ClaimsProblem)] {
      await #expect(throws: problem) {
        try await fixture.service.makeCustomToken(uid: "robot", claims: refused)
      }
    }
  }
}
