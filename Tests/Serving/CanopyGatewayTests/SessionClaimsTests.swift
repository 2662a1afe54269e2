import CanopyAccounts
import CanopyEngine
import CanopyIdentity
import CanopyTesting
import CanopyTree
import CanopyWire
import Testing

@testable import CanopySession

/// The claims of a login, by whichever credential: `auth` in rules.
@Suite(.timeLimit(.minutes(20))) struct SessionClaimsTests {
  private static let password = "engine of 1843"

  private func parts() async throws -> LineParts {
    var identity = IdentitySettings()
    identity.project = "blog"
    return try await LineParts(identity: identity)
  }

  /// Runs the engine of the parts during a test.
  private func with(_ body: (LineParts) async throws -> Void) async throws {
    let parts = try await parts()
    let running = Task { await parts.run() }
    let result: Result<Void, any Error>
    do { result = .success(try await body(parts)) } catch { result = .failure(error) }
    parts.engine.stop()
    await running.value
    try result.get()
  }

  /// Returns `auth` after a request, and the session token of the reply.
  private func login(
    _ parts: LineParts, _ request: AccountRequest, as identity: Identity = .anonymous
  ) async throws -> (auth: Node, identity: Identity, token: String) {
    let completion = await parts.operations.account(request, as: identity, from: "127.0.0.1")
    let login = try #require(completion.identity)
    let session = try #require(login.session)
    let caller = KeptCaller(login.caller(at: parts.clock.now), session: nil)
    return (try Node(json: caller.text), login, session.token)
  }

  private func idToken(_ parts: LineParts, of refresh: String) async throws -> String {
    let service = try #require(parts.operations.identityService)
    let response = await service.respond(
      to: IdentityRequest(
        method: "POST", path: "/securetoken.googleapis.com/v1/token",
        body: Array("grant_type=refresh_token&refresh_token=\(refresh)".utf8),
        address: "127.0.0.1"))
    let reply = try Node(json: String(decoding: response.body, as: UTF8.self))
    return try #require(reply.child("id_token").stringValue)
  }

  @Test func `a session token and an identity token of a user give the same auth`() async throws {
    try await with { parts in
      let signedUp = try await login(
        parts, .signUp(email: "ada@example.org", password: Self.password, username: "ada"))
      let uid = try #require(signedUp.auth.child("uid").stringValue)
      var changes = AccountChanges()
      changes.claims = .set(#"{"role":"editor"}"#)
      changes.isEmailVerified = true
      changes.displayName = .set("Ada")
      _ = try await parts.accounts.update(uid, changes, from: nil)
      let loggedIn = try await login(
        parts, .logIn(email: "ada@example.org", password: Self.password))
      let changed = try await login(
        parts, .changePassword(current: Self.password, new: "engine of 1844"),
        as: loggedIn.identity)
      for (auth, token) in [(loggedIn.auth, nil), (changed.auth, changed.token as String?)] {
        let claims = auth.child("token")
        #expect(auth.child("provider") == "password")
        #expect(claims.child("email") == "ada@example.org")
        #expect(claims.child("email_verified") == true)
        #expect(claims.child("role") == "editor")
        #expect(claims.child("name") == "Ada")
        #expect(claims.child("firebase").child("sign_in_provider") == "password")
        guard let token else { continue }
        #expect(try await login(parts, .authenticate(token: token)).auth == auth)
        let other = try await idToken(parts, of: token)
        #expect(try await login(parts, .authenticate(token: other)).auth == auth)
      }
      #expect(signedUp.auth.child("token").child("email_verified") == false)
      let account = try await parts.accounts.account(.uid(uid))
      #expect(parts.operations.identityService?.auth(of: account) == changed.auth)
    }
  }

  @Test func `so do those of an anonymous user and of a custom token`() async throws {
    try await with { parts in
      let anonymous = try await parts.accounts.beginSignUp(AccountDraft(), from: .local)
      let custom = try await parts.accounts.beginCustomLogin(
        uid: "robot", claims: #"{"level":3}"#, loginTime: nil, from: .local
      ).login
      for (session, provider) in [(anonymous.session, "anonymous"), (custom.session, "custom")] {
        let auth = try await login(parts, .authenticate(token: session.token)).auth
        #expect(auth.child("token").child("firebase").child("sign_in_provider") == Node(provider))
        #expect((auth.child("token").child("level") == 3) == (provider == "custom"))
        let other = try await idToken(parts, of: session.token)
        #expect(try await login(parts, .authenticate(token: other)).auth == auth)
      }
    }
  }

  @Test func `the use of a session token writes nothing`() async throws {
    try await with { parts in
      let session = try await parts.accounts.beginSignUp(AccountDraft(), from: .local).session
      let before = await parts.accountStore.all
      _ = try await login(parts, .authenticate(token: session.token))
      #expect(await parts.accountStore.all == before)
    }
  }
}
