import CanopyAccounts
import CanopyTesting
import Testing

/// A service whose clock, random source, store and hash function the test controls.
struct ServiceFixture {
  let clock = ManualClock()
  let store = InMemoryAccountStore()
  let function = CountingHash()
  let service: AccountService

  static let email = "ada@example.org"
  static let password = "engine of 1843"
  static let remote = RemoteNetwork("192.0.2.1")

  init(_ change: (inout AccountSettings) -> Void = { _ in }) {
    var settings = AccountSettings()
    settings.hashParameters = .cheapest
    change(&settings)
    service = Self.service(store, function, clock, settings)
  }

  /// Returns another service on the same store, as after a restart with other settings.
  func restarted(_ change: (inout AccountSettings) -> Void) -> AccountService {
    var settings = AccountSettings()
    settings.hashParameters = .cheapest
    change(&settings)
    return Self.service(store, function, clock, settings)
  }

  @discardableResult
  func signUp(
    email: String = Self.email, password: String = Self.password, username: String = "ada"
  ) async throws -> Session {
    try await service.signUp(
      email: email, password: password, username: username, from: Self.remote
    ) { _ in }
  }

  func logIn(
    _ password: String = Self.password, email: String = Self.email,
    from remote: RemoteNetwork = Self.remote
  ) async throws -> Session {
    try await service.logIn(email: email, password: password, from: remote)
  }

  func changePassword(
    in session: Session, _ current: String = Self.password, to new: String,
    from remote: RemoteNetwork = Self.remote
  ) async throws -> Session {
    try await service.changePassword(
      uid: session.uid, session: session.token, current: current, new: new, from: remote)
  }

  /// Returns the error of a login and the number of its hashes.
  func refusal(
    of password: String, email: String = Self.email
  ) async -> (error: AccountError?, hashes: Int) {
    let before = function.count
    let error = await #expect(throws: AccountError.self) {
      _ = try await logIn(password, email: email)
    }
    return (error, function.count - before)
  }

  private static func service(
    _ store: InMemoryAccountStore,
    _ function: CountingHash,
    _ clock: ManualClock,
    _ settings: AccountSettings
  ) -> AccountService {
    let random = SeededBytes()
    return AccountService(
      store: store,
      hasher: PasswordHasher(function: function),
      settings: settings,
      environment: AccountEnvironment(now: { clock.now }, random: { random($0) })
    )
  }
}

/// An error that a test injects into a store or a claim.
struct Planned: Error, Equatable {}
