import CanopyTesting
import Testing

@testable import CanopyAccounts

@Suite struct RedactionTests {
  /// Returns all texts that Swift can create from a value for a log.
  private func texts(of value: Any) -> String {
    var dumped = ""
    dump(value, to: &dumped)
    dump([value] as [Any?], to: &dumped)
    return "\(value) \(String(reflecting: value)) \(String(describing: Optional(value))) \(dumped)"
  }

  @Test func `no text of a session has the token`() {
    let secret = "S3CRET-token"
    let shown = texts(of: Session(uid: "u1", email: "a@x", token: secret, expiresAt: 5))
    #expect(!shown.contains(secret))
    #expect(shown.contains("u1"))
  }

  @Test func `no text of an account has the password hash`() {
    let secret = "$argon2id$S3CRET"
    let account = Account(
      uid: "u1", email: "a@x", emailNormalized: "a@x", username: "a", passwordHash: secret,
      createdAt: 1)
    let shown = texts(of: account)
    #expect(!shown.contains("S3CRET"))
    #expect(shown.contains("u1"))
  }

  @Test func `no text of a hash has the salt or the tag`() throws {
    let bytes = [UInt8](repeating: 0x5A, count: 32)
    let hash = try #require(PasswordHash(parameters: .standard, salt: bytes, tag: bytes))
    let shown = texts(of: hash)
    #expect(!shown.contains("90") && !shown.contains("WlpaWlpa"))
    #expect(shown.contains("19456"))
  }

  @Test func `no text of a token or a password has the secret`() throws {
    let token = SessionToken.make(random: { [UInt8](repeating: 0x41, count: $0) })
    #expect(!texts(of: token).contains(token.text))
    #expect(!texts(of: token).contains("65"))
    let administrator = try #require(AdministratorToken(token.text))
    #expect(!texts(of: administrator).contains(token.text))
    let password = try #require(NormalizedPassword("S3CRET"))
    #expect(!texts(of: password).contains("S3CRET"))
  }

  @Test func `no error contains the text that was typed`() async throws {
    let fixture = ServiceFixture { $0.loginFailuresMax = 1 }
    let secret = "S3CRET-password"
    try await fixture.signUp(password: secret)
    var errors: [any Error] = []
    func attempt(_ step: () async throws -> Void) async {
      do { try await step() } catch { errors.append(error) }
    }
    await attempt { try await fixture.signUp(password: secret) }
    await attempt { try await fixture.signUp(email: secret, password: secret) }
    await attempt { try await fixture.signUp(password: secret, username: secret) }
    await attempt { try await fixture.signUp(password: String(repeating: secret, count: 10)) }
    await attempt { _ = try await fixture.logIn(secret + "1") }
    await attempt { _ = try await fixture.logIn(secret + "1") }
    await attempt { _ = try await fixture.service.authenticate(secret) }
    #expect(errors.count == 7)
    for error in errors { #expect(!texts(of: error).contains("S3CRET")) }
  }
}
