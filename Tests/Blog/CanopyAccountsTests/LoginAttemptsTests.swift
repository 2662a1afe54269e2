import CanopyTesting
import Testing

@testable import CanopyAccounts

/// Failures of logins that the services of two nodes count together.
@Suite(.timeLimit(.minutes(10)))
struct LoginAttemptsTests {
  private let clock = ManualClock()
  private let attempts: InMemoryLoginAttempts
  private let store: InMemoryAccountStore
  private let function = CountingHash()
  private let a: AccountService
  private let b: AccountService

  init() {
    let clock = clock
    attempts = InMemoryLoginAttempts { clock.now }
    store = InMemoryAccountStore(loginAttempts: attempts)
    var settings = AccountSettings()
    settings.hashParameters = .cheapest
    let random = SeededBytes()
    let services = [0, 1].map { [store, function, settings] _ in
      AccountService(
        store: store, hasher: PasswordHasher(function: function), settings: settings,
        environment: AccountEnvironment(now: { clock.now }, random: { random($0) }))
    }
    (a, b) = (services[0], services[1])
  }

  private func logIn(_ service: AccountService, _ password: String) async throws {
    _ = try await service.logIn(
      email: ServiceFixture.email, password: password, from: ServiceFixture.remote)
  }

  private func signUp() async throws {
    _ = try await a.signUp(
      email: ServiceFixture.email, password: ServiceFixture.password, username: "ada",
      from: ServiceFixture.remote
    ) { _ in }
  }

  @Test func `the failures in memory satisfy the contract`() async throws {
    let uptime = ContinuousClock()
    let start = uptime.now
    let attempts = InMemoryLoginAttempts {
      let passed = (uptime.now - start).components
      return passed.seconds * 1_000 + passed.attoseconds / 1_000_000_000_000_000
    }
    try await verifyContract(of: attempts, and: attempts)
  }

  @Test func `wrong passwords at two nodes begin one wait`() async throws {
    try await signUp()
    for service in [a, b, a, b, a] {
      await #expect(throws: AccountError.credentialsRefused) { try await logIn(service, "wrong") }
    }
    let hashes = function.count
    for service in [a, b] {
      await #expect(throws: AccountError.rateLimited(retryAfterMilliseconds: 1_000)) {
        try await logIn(service, ServiceFixture.password)
      }
    }
    #expect(function.count == hashes, "no password was hashed")
    clock.advance(999)
    await #expect(throws: AccountError.rateLimited(retryAfterMilliseconds: 1)) {
      try await logIn(b, ServiceFixture.password)
    }
    clock.advance(1)
    try await logIn(b, ServiceFixture.password)
    #expect(await attempts.count == 0, "the login has reset the count")
  }

  @Test func `an attempt in which no password was checked is no failure`() async throws {
    try await signUp()
    for _ in 0..<20 {
      await store.fail(with: Planned())
      await #expect(throws: Planned.self) { try await logIn(a, ServiceFixture.password) }
    }
    await store.fail(with: nil)
    try await logIn(b, ServiceFixture.password)
  }

  @Test func `a new password ends the wait at all nodes`() async throws {
    try await signUp()
    for _ in 0..<5 {
      await #expect(throws: AccountError.credentialsRefused) { try await logIn(a, "wrong") }
    }
    try await a.setPassword("engine of 1844", .email(ServiceFixture.email))
    try await logIn(b, "engine of 1844")
  }

  @Test func `a clock that was set back does not extend the wait`() async throws {
    try await signUp()
    clock.advance(1_000_000)
    for _ in 0..<5 {
      await #expect(throws: AccountError.credentialsRefused) { try await logIn(a, "wrong") }
    }
    clock.advance(-1)
    try await logIn(b, ServiceFixture.password)
  }
}
