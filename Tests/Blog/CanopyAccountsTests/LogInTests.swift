import CanopyAccounts
import CanopyTesting
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(20))) struct LogInTests {
  private let fixture = ServiceFixture()

  @Test func `a login accepts any spelling of the address`() async throws {
    let first = try await fixture.signUp()
    let second = try await fixture.logIn(email: "\tADA@Example.ORG ")
    #expect(second.uid == first.uid)
    #expect(second.email == ServiceFixture.email)
    #expect(second.token != first.token)
    #expect(try await fixture.service.authenticate(first.token) == first)
    #expect(try await fixture.service.authenticate(second.token) == second)
  }

  @Test func `a login accepts both spellings of an accent in the password`() async throws {
    try await fixture.signUp(password: "caf\u{E9} noir")
    _ = try await fixture.logIn("cafe\u{301} noir")
  }

  @Test func `an unknown address has the same reply and cost as a wrong password`() async throws {
    try await fixture.signUp()
    let wrong = await fixture.refusal(of: "not the engine")
    let unknown = await fixture.refusal(of: "not the engine", email: "nobody@example.org")
    #expect(wrong.error == .credentialsRefused)
    #expect(unknown.error == .credentialsRefused)
    #expect(wrong.hashes == 1)
    #expect(unknown.hashes == 1)
    let calls = fixture.function.calls.suffix(2)
    #expect(Set(calls.map(\.password)).count == 1)
    #expect(calls.allSatisfy { $0.parameters == .cheapest })
  }

  @Test func `only a login with the right password learns that the account is disabled`()
    async throws
  {
    let session = try await fixture.signUp()
    try await fixture.service.setDisabled(true, .uid(session.uid))
    let wrong = await fixture.refusal(of: "not the engine")
    #expect(wrong.error == .credentialsRefused)
    #expect(wrong.hashes == 1)
    let right = await fixture.refusal(of: ServiceFixture.password)
    #expect(right.error == .disabled)
    #expect(right.hashes == 1)
    try await fixture.service.setDisabled(false, .email("Ada@Example.org"))
    _ = try await fixture.logIn()
  }

  @Test func `a password that is too long is refused at the same cost, and never truncated`()
    async throws
  {
    let longest = String(repeating: "xq7z", count: 32)
    try await fixture.signUp(password: longest)
    _ = try await fixture.logIn(longest)
    for password in [longest + "x", String(repeating: longest, count: 1_000)] {
      let (error, hashes) = await fixture.refusal(of: password)
      #expect(error == .credentialsRefused)
      #expect(hashes == 1)
    }
  }

  @Test(arguments: ["", "garbage", "$argon2id$v=19$m=4294967295,t=4294967295,p=1$AAAA$AAAA"])
  func `an unreadable stored hash has the same reply as a wrong password`(_ hash: String)
    async throws
  {
    let session = try await fixture.signUp()
    #expect(
      try await fixture.store.setPasswordHash(
        hash, uid: session.uid, ifCurrent: nil, revokingTokens: false))
    let (error, hashes) = await fixture.refusal(of: ServiceFixture.password)
    #expect(error == .credentialsRefused)
    #expect(hashes == 1)
  }

  @Test func `an invalid address is refused without a hash`() async {
    let (error, hashes) = await fixture.refusal(of: ServiceFixture.password, email: "ada")
    #expect(error == .invalidEmail)
    #expect(hashes == 0)
  }

  @Test(arguments: [true, false])
  func `five failures delay the next attempts for known and unknown addresses`(_ isKnown: Bool)
    async throws
  {
    if isKnown { try await fixture.signUp() }
    for _ in 0..<5 {
      #expect(await fixture.refusal(of: "wrong password").error == .credentialsRefused)
    }
    for (before, left) in [(0, 1_000), (400, 600), (599, 1)] as [(Int64, Int64)] {
      fixture.clock.advance(before)
      let (error, hashes) = await fixture.refusal(of: ServiceFixture.password)
      #expect(error == .rateLimited(retryAfterMilliseconds: left))
      #expect(hashes == 0)
    }
    fixture.clock.advance(1)
    #expect(await fixture.refusal(of: "wrong password").error == .credentialsRefused)
    let (error, _) = await fixture.refusal(of: "wrong password", email: "ADA@example.org")
    #expect(error == .rateLimited(retryAfterMilliseconds: 2_000), "spelling changes nothing")
    #expect(error?.sentence == "too many attempts; try again in 2 seconds")
    #expect(
      await fixture.refusal(of: "wrong password", email: "eve@x").error == .credentialsRefused)
  }

  @Test
  func `logins from one network to any addresses are limited, and other networks are not affected`()
    async throws
  {
    let fixture = ServiceFixture { $0.loginsMax = 6 }
    try await fixture.signUp()
    let (greedy, honest) = (RemoteNetwork("2001:db8::1"), RemoteNetwork("2001:db8:0:1::1"))
    for number in 0..<6 {
      await #expect(throws: AccountError.credentialsRefused) {
        _ = try await fixture.logIn("wrong password", email: "a\(number)@x", from: greedy)
      }
    }
    let before = fixture.function.count
    await #expect(throws: AccountError.rateLimited(retryAfterMilliseconds: 10_000)) {
      _ = try await fixture.logIn(from: RemoteNetwork("2001:db8::ffff:2"))
    }
    #expect(fixture.function.count == before)
    _ = try await fixture.logIn(from: honest)
    fixture.clock.advance(10_000)
    _ = try await fixture.logIn(from: greedy)
    await #expect(throws: AccountError.rateLimited(retryAfterMilliseconds: 10_000)) {
      _ = try await fixture.logIn(from: greedy)
    }
  }

  @Test(arguments: ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "local"])
  func `logins and sign-ups from this machine are not limited, as there may be a proxy`(
    _ address: String
  ) async throws {
    let fixture = ServiceFixture {
      $0.loginsMax = 2
      $0.signUpsMax = 2
    }
    let remote = RemoteNetwork(address)
    for number in 0..<5 {
      _ = try await fixture.service.signUp(
        email: "a\(number)@x", password: ServiceFixture.password, username: "a\(number)",
        from: remote
      ) { _ in }
    }
    for number in 0..<5 {
      await #expect(throws: AccountError.credentialsRefused) {
        _ = try await fixture.logIn("wrong password", email: "b\(number)@x", from: remote)
      }
    }
    _ = try await fixture.logIn(email: "a0@x", from: remote)
    // Guesses for one account are limited from everywhere.
    for _ in 0..<5 {
      await #expect(throws: AccountError.credentialsRefused) {
        _ = try await fixture.logIn("wrong password", email: "a0@x", from: remote)
      }
    }
    await #expect(throws: AccountError.rateLimited(retryAfterMilliseconds: 1_000)) {
      _ = try await fixture.logIn(email: "a0@x", from: remote)
    }
  }

  /// The number of logins that were refused so far, counted by several tasks.
  private final class Refusals: Sendable {
    let count = Mutex(0)
  }

  @Test func `eighty connections of one network do not prevent a login from another`() async throws
  {
    let gated = GatedHash()
    let hasher = PasswordHasher(function: gated, concurrentMax: 2)
    var settings = AccountSettings()
    settings.loginsMax = 1_000
    let service = AccountService(
      store: InMemoryAccountStore(), hasher: hasher, settings: settings)
    let refusals = Refusals()
    let flood = (0..<80).map { number in
      Task {
        do {
          return try await service.logIn(
            email: "a\(number)@x", password: "wrong password", from: RemoteNetwork("192.0.2.66"))
        } catch AccountError.overloaded {
          refusals.count.withLock { $0 += 1 }
          throw AccountError.overloaded
        }
      }
    }
    // A login that comes later, when the queue has room, would wait for a hash that nothing releases.
    try await eventually {
      hasher.load == .init(running: 2, waiting: 32) && refusals.count.withLock { $0 } == 46
    }
    var started = gated.started.makeAsyncIterator()
    for _ in 0..<2 { _ = await started.next() }
    let honest = Task {
      try await service.logIn(
        email: "ada@x", password: "Ada's password", from: RemoteNetwork("192.0.2.1"))
    }
    try await eventually { hasher.load.waiting >= 33 }
    gated.release(3)
    var begun: [UInt8?] = []
    for _ in 0..<3 { begun.append(await started.next()) }
    #expect(begun.contains(UInt8(ascii: "A")), "it is among the next")
    gated.release(32)
    await #expect(throws: AccountError.credentialsRefused) { _ = try await honest.value }
    var outcomes: [AccountError?] = []
    for task in flood {
      if case .failure(let error) = await task.result { outcomes.append(error as? AccountError) }
    }
    #expect(outcomes.count { $0 == .overloaded } == 46)
    #expect(outcomes.count { $0 == .credentialsRefused } == 34)
  }

  @Test func `a successful login resets the count of failures`() async throws {
    try await fixture.signUp()
    for _ in 0..<3 {
      for _ in 0..<4 {
        #expect(await fixture.refusal(of: "wrong password").error == .credentialsRefused)
      }
      _ = try await fixture.logIn()
    }
  }

  @Test func `five of fifty simultaneous guesses are hashed`() async throws {
    try await fixture.signUp()
    let before = fixture.function.count
    let fixture = fixture
    let errors = await withTaskGroup(of: AccountError?.self) { group in
      for number in 0..<50 {
        group.addTask {
          do {
            _ = try await fixture.logIn("wrong guess \(number)")
            return nil
          } catch {
            return error as? AccountError
          }
        }
      }
      return await group.reduce(into: []) { $0.append($1) }
    }
    #expect(fixture.function.count - before == 5)
    #expect(errors.count { $0 == .credentialsRefused } == 5)
    #expect(errors.count { $0 == .rateLimited(retryAfterMilliseconds: 1_000) } == 45)
  }

  @Test func `an attempt without a result does not count as a failure`() async throws {
    try await fixture.signUp()
    await fixture.store.fail(with: Planned())
    for _ in 0..<20 {
      await #expect(throws: Planned.self) { _ = try await fixture.logIn("wrong password") }
    }
    await fixture.store.fail(with: nil)
    fixture.function.fail(true)
    for _ in 0..<20 {
      #expect(await fixture.refusal(of: "wrong password").error == .hashingFailed)
    }
    fixture.function.fail(false)
    for _ in 0..<4 {
      #expect(await fixture.refusal(of: "wrong password").error == .credentialsRefused)
    }
    _ = try await fixture.logIn()
  }

  @Test func `a login replaces a hash with other parameters`() async throws {
    let session = try await fixture.signUp()
    let dearer = try #require(HashParameters(memoryKibibytes: 16, passes: 2, lanes: 1))
    let service = fixture.restarted { $0.hashParameters = dearer }
    let stored = { try await fixture.store.account(uid: session.uid)?.passwordHash }
    let old = try await stored()

    await #expect(throws: AccountError.credentialsRefused) {
      _ = try await service.logIn(
        email: ServiceFixture.email, password: "wrong password", from: ServiceFixture.remote)
    }
    #expect(try await stored() == old)
    _ = try await service.logIn(
      email: ServiceFixture.email, password: ServiceFixture.password, from: ServiceFixture.remote)
    let renewed = try await stored()
    #expect(renewed?.hasPrefix("$argon2id$v=19$m=16,t=2,p=1$") == true)
    _ = try await service.authenticate(session.token)

    let before = fixture.function.count
    _ = try await service.logIn(
      email: ServiceFixture.email, password: ServiceFixture.password, from: ServiceFixture.remote)
    #expect(try await stored() == renewed)
    #expect(fixture.function.count == before + 1, "a current hash is left alone")
  }

  @Test func `a login is checked again if its hash is replaced meanwhile`() async throws {
    let session = try await fixture.signUp()
    let (store, uid) = (fixture.store, session.uid)
    let salt = [UInt8](repeating: 9, count: 16)
    let tag = CountingHash.tag(Array(ServiceFixture.password.utf8), salt, .cheapest, 32)
    let renewed = try #require(PasswordHash(parameters: .cheapest, salt: salt, tag: tag)).encoded
    await store.beforeNextToken {
      _ = try await store.setPasswordHash(
        renewed, uid: uid, ifCurrent: nil, revokingTokens: false)
    }
    _ = try await fixture.logIn()
  }

  @Test func `a login during a change of the password leaves no token`() async throws {
    let session = try await fixture.signUp()
    let (store, service) = (fixture.store, fixture.service)
    await store.beforeNextToken {
      try await service.setPassword("quite another", .uid(session.uid))
    }
    #expect(await fixture.refusal(of: ServiceFixture.password).error == .credentialsRefused)
    #expect(await store.digests.isEmpty)
    _ = try await fixture.logIn("quite another")
  }

  @Test func `too many simultaneous logins are refused and do not count as failures`() async throws
  {
    let gated = GatedHash()
    let hasher = PasswordHasher(function: gated, concurrentMax: 1, waitingMax: 0)
    let service = AccountService(store: InMemoryAccountStore(), hasher: hasher)
    let held = Task {
      try await service.logIn(email: "a@x", password: "wrong password", from: ServiceFixture.remote)
    }
    try await eventually { hasher.load.running >= 1 }
    for _ in 0..<20 {
      await #expect(throws: AccountError.overloaded) {
        _ = try await service.logIn(
          email: "b@x", password: "wrong password", from: ServiceFixture.remote)
      }
    }
    gated.release()
    await #expect(throws: AccountError.credentialsRefused) { _ = try await held.value }
  }
}
