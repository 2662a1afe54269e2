import CanopyTesting
import Testing

@testable import CanopyAccounts

/// Strangers who guess at an account, and its owner.
@Suite(.timeLimit(.minutes(10))) struct KnownNetworksTests {
  private let home = RemoteNetwork("198.51.100.7")

  private func guess(
    _ fixture: ServiceFixture, from remote: RemoteNetwork
  ) async -> AccountError? {
    do {
      _ = try await fixture.logIn("wrong password", from: remote)
      return nil
    } catch {
      return error as? AccountError
    }
  }

  @Test func `failures from one network do not hold up another`() async throws {
    let fixture = ServiceFixture()
    try await fixture.signUp()
    for _ in 0..<5 {
      #expect(await guess(fixture, from: ServiceFixture.remote) == .credentialsRefused)
    }
    #expect(
      await guess(fixture, from: ServiceFixture.remote)
        == .rateLimited(retryAfterMilliseconds: 1_000))
    _ = try await fixture.logIn(from: home)
  }

  @Test func `failures from many networks hold up new ones, but not those of the owner`()
    async throws
  {
    let fixture = ServiceFixture { $0.addressFailuresMax = 20 }
    try await fixture.signUp()
    _ = try await fixture.logIn(from: home)
    for number in 0..<20 {
      let stranger = RemoteNetwork("203.0.113.\(number)")
      #expect(await guess(fixture, from: stranger) == .credentialsRefused)
    }
    let new = RemoteNetwork("192.0.2.99")
    for _ in 0..<2 {
      await #expect(throws: AccountError.rateLimited(retryAfterMilliseconds: 1_000)) {
        _ = try await fixture.logIn(from: new)
      }
    }
    let login = try await fixture.logIn(from: home)
    // The own failures of a known network count there.
    for _ in 0..<5 { #expect(await guess(fixture, from: home) == .credentialsRefused) }
    #expect(await guess(fixture, from: home) == .rateLimited(retryAfterMilliseconds: 1_000))
    // A new password ends all waits.
    _ = try await fixture.changePassword(in: login, to: "engine of 1844")
    _ = try await fixture.logIn("engine of 1844", from: home)
    _ = try await fixture.logIn("engine of 1844", from: new)
  }

  @Test func `a network is known for its time, and each account has a bounded number`() {
    var settings = AccountSettings()
    settings.knownAccountsMax = 2
    settings.knownNetworksMax = 2
    settings.knownNetworkMilliseconds = 100
    var known = KnownNetworks(settings: settings)
    let networks = (1...3).map { RemoteNetwork("192.0.2.\($0)") }
    known.note(networks[0], of: [1], now: 0)
    #expect(known.contains(networks[0], of: [1], now: 99))
    #expect(!known.contains(networks[0], of: [1], now: 100))
    #expect(known.contains(networks[0], of: [1], now: -5))
    #expect(!known.contains(networks[0], of: [2], now: 0))
    for network in networks[1...] { known.note(network, of: [1], now: 1) }
    #expect(networks.map { known.contains($0, of: [1], now: 1) } == [false, true, true])
    known.note(networks[1], of: [1], now: 2)
    known.note(networks[0], of: [1], now: 3)
    #expect(networks.map { known.contains($0, of: [1], now: 3) } == [true, true, false])
    for account: UInt8 in 2...3 { known.note(networks[0], of: [account], now: 3) }
    #expect(!known.contains(networks[0], of: [1], now: 3), "the least recent account is forgotten")
  }

  @Test func `in a full queue the owner has a place before strangers from many networks`()
    async throws
  {
    let gated = GatedHash()
    let hasher = PasswordHasher(function: gated, concurrentMax: 1, waitingMax: 3)
    func hash(_ network: String, isKnown: Bool = false) -> Task<Bool, any Error> {
      Task {
        let hash = try #require(
          PasswordHash(
            parameters: .cheapest, salt: [UInt8](repeating: 1, count: 16),
            tag: [UInt8](repeating: 2, count: 32)))
        return try await hasher.verify(
          [1], against: hash, for: RemoteNetwork(network), isKnown: isKnown)
      }
    }
    let running = hash("192.0.2.1")
    try await eventually { hasher.load.running == 1 }
    let other = hash("198.51.100.1")
    try await eventually { hasher.load.waiting == 1 }
    let first = hash("203.0.113.1")
    try await eventually { hasher.load.waiting == 2 }
    let second = hash("203.0.7.1")
    try await eventually { hasher.load.waiting == 3 }
    await #expect(throws: AccountError.overloaded) { _ = try await hash("192.0.2.50").value }
    let owner = hash("192.0.2.50", isKnown: true)
    // The newest of 203.0.0.0/16 gives its place up.
    await #expect(throws: AccountError.overloaded) { _ = try await second.value }
    gated.release(4)
    for task in [running, other, first, owner] { _ = try await task.value }
  }
}
