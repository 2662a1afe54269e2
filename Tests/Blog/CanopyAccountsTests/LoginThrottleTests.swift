import Testing

@testable import CanopyAccounts

@Suite struct LoginThrottleTests {
  private var throttle = LoginThrottle(settings: AccountSettings())
  private let key: LoginThrottle.Key = "ada@example.org"
  private let address = Array("ada@example.org".utf8)

  private mutating func fail(at now: Int64) {
    #expect(throttle.reserve(key, now: now) == nil)
    throttle.failed(key, now: now)
  }

  @Test mutating func `the wait begins after five failures and doubles up to an hour`() {
    var now: Int64 = 0
    for _ in 0..<5 { fail(at: now) }
    var waits: [Int64] = []
    for _ in 0..<16 {
      guard let wait = throttle.reserve(key, now: now) else { break }
      waits.append(wait)
      #expect(throttle.reserve(key, now: now + wait - 1) == 1)
      now += wait
      fail(at: now)
    }
    let seconds = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 3_600, 3_600, 3_600, 3_600]
    #expect(waits == seconds.map { Int64($0) * 1_000 })
  }

  @Test mutating func `a refusal does not extend the wait`() {
    for _ in 0..<5 { fail(at: 0) }
    for now in Int64(0)..<1_000 { #expect(throttle.reserve(key, now: now) == 1_000 - now) }
    #expect(throttle.reserve(key, now: 1_000) == nil)
  }

  @Test mutating func `running attempts count as failures`() {
    for _ in 0..<5 { #expect(throttle.reserve(key, now: 0) == nil) }
    #expect(throttle.reserve(key, now: 0) == 1_000)
    throttle.released(key)
    #expect(throttle.reserve(key, now: 0) == nil)
    throttle.failed(key, now: 0)
    #expect(throttle.reserve(key, now: 0) == 1_000)
    throttle.succeeded(key)
    #expect(throttle.reserve(key, now: 0) == nil, "three under way and none failed")
  }

  @Test mutating func `after a wait, one attempt at a time is admitted`() {
    for _ in 0..<5 { fail(at: 0) }
    #expect(throttle.reserve(key, now: 1_000) == nil)
    #expect(throttle.reserve(key, now: 1_000) == 2_000)
    throttle.released(key)
    #expect(throttle.reserve(key, now: 1_000) == nil)
    throttle.failed(key, now: 1_000)
    #expect(throttle.reserve(key, now: 1_000) == 2_000)
  }

  @Test mutating func `success and release leave no entry`() {
    for _ in 0..<4 { fail(at: 0) }
    #expect(throttle.reserve(key, now: 0) == nil)
    throttle.succeeded(key)
    #expect(throttle.count == 0)
    for _ in 0..<4 { fail(at: 0) }
    #expect(throttle.reserve(key, now: 0) == nil, "the failures before do not count")
    throttle.failed(key, now: 0)
    throttle.forgetLogins(to: address)
    #expect(throttle.reserve(key, now: 0) == nil)
    throttle.released(key)
    #expect(throttle.count == 0)
  }

  @Test mutating func `a wait for one address does not affect another`() {
    for _ in 0..<5 { fail(at: 0) }
    #expect(throttle.reserve("grace@example.org", now: 0) == nil)
  }

  @Test func `the number of addresses is bounded, and the least recently used one is forgotten`() {
    var settings = AccountSettings()
    settings.loginAddressesMax = 2
    settings.loginFailuresMax = 1
    var throttle = LoginThrottle(settings: settings)
    for key in ["a", "b"] as [LoginThrottle.Key] {
      #expect(throttle.reserve(key, now: 0) == nil)
      throttle.failed(key, now: 0)
    }
    #expect(throttle.reserve("a", now: 0) == 1_000, "an attempt refused is a touch")
    #expect(throttle.reserve("c", now: 0) == nil)
    #expect(throttle.count == 2)
    #expect(throttle.reserve("a", now: 0) == 1_000)
    #expect(throttle.reserve("b", now: 0) == nil)
  }

  @Test mutating func `an attempt can end after its address was forgotten`() {
    #expect(throttle.reserve(key, now: 0) == nil)
    throttle.forgetLogins(to: address)
    throttle.succeeded(key)
    throttle.released(key)
    #expect(throttle.count == 0)
    throttle.failed(key, now: 0)
    #expect(throttle.count == 1)
  }

  @Test mutating func `all networks together have a larger bound, with the same waits`() {
    let all = LoginThrottle.Key.address(Array("ada@example.org".utf8))
    for _ in 0..<99 {
      #expect(throttle.reserve(all, now: 0) == nil)
      throttle.failed(all, now: 0)
    }
    #expect(throttle.reserve(all, now: 0) == nil)
    throttle.failed(all, now: 0)
    #expect(throttle.reserve(all, now: 0) == 1_000)
  }

  @Test mutating func `all logins to one address are forgotten together, and no others`() {
    let others: [LoginThrottle.Key] = [
      .login(address + [33], from: .local), .address(Array("da@example.org".utf8)), "bob@x",
    ]
    let keys: [LoginThrottle.Key] = [.address(address), key, .login(address, from: .local)]
    for key in keys + others { throttle.failed(key, now: 0) }
    throttle.forgetLogins(to: address)
    #expect(throttle.count == others.count)
    for other in [address + [33], Array("da@example.org".utf8), Array("bob@x".utf8)] {
      throttle.forgetLogins(to: other)
    }
    #expect(throttle.count == 0)
  }

  @Test func `the bytes of keys differ, and those of logins to one address have its prefix`() {
    let address = Array("a@x".utf8)
    let networks =
      ["192.0.2.1", "2001:db8::1", "::1", ""].map { RemoteNetwork($0) } + [.foreignPage]
    let logins = networks.map { LoginThrottle.Key.login(address, from: $0).bytes }
    let others = [LoginThrottle.Key.address(address), .login(address + [120], from: .local)].map(
      \.bytes)
    #expect(Set(logins + others).count == 7)
    let prefix = LoginThrottle.Key.prefix(ofLoginsTo: address)
    #expect(logins.allSatisfy { $0.starts(with: prefix) })
    #expect(!others.contains { $0.starts(with: prefix) })
  }

  @Test mutating func `a clock that was set back does not extend the wait`() {
    for _ in 0..<5 { fail(at: 1_000_000) }
    #expect(throttle.reserve(key, now: 0) == 1_000)
    #expect(throttle.reserve(key, now: 999) == 1)
    #expect(throttle.reserve(key, now: 1_000) == nil)
  }

  @Test func `extreme settings and times do not overflow`() {
    var settings = AccountSettings()
    settings.loginFailuresMax = .min
    settings.loginDelayMillisecondsFirst = .max
    settings.loginDelayMillisecondsMax = .max
    settings.loginAddressesMax = .min
    var throttle = LoginThrottle(settings: settings)
    for now in [Int64.min, -1, 0, .max, .min] {
      _ = throttle.reserve("a", now: now)
      throttle.failed("a", now: now)
      _ = throttle.reserve("a", now: now)
      _ = throttle.reserve("a", now: .max)
      _ = throttle.reserve("a", now: .min)
    }
    for _ in 0..<200 { throttle.failed("a", now: 0) }
    #expect(throttle.reserve("a", now: 0) == .max)
  }
}

extension LoginThrottle.Key: ExpressibleByStringLiteral {
  /// Returns the key of logins to an e-mail address from one network.
  public init(stringLiteral text: String) {
    self = .login(Array(text.utf8), from: ServiceFixture.remote)
  }
}
