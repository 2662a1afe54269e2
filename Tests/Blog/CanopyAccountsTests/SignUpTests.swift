import CanopyAccounts
import CanopyTesting
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(20))) struct SignUpTests {
  private let fixture = ServiceFixture()

  @Test func `a sign-up creates an account, a profile and a session`() async throws {
    let claimed = Mutex<[String]>([])
    let session = try await fixture.service.signUp(
      email: " Ada@Example.org ", password: ServiceFixture.password, username: "ada",
      from: ServiceFixture.remote
    ) { uid async throws in
      claimed.withLock { $0.append(uid) }
      let account = try await fixture.store.account(uid: uid)
      #expect(account?.isPending == true)
    }
    #expect(claimed.withLock { $0 } == [session.uid])
    #expect(session.email == "Ada@Example.org")
    #expect(session.expiresAt == fixture.clock.now + 30 * 24 * 3_600_000)
    let account = try #require(try await fixture.store.account(uid: session.uid))
    #expect(account.emailNormalized == "ada@example.org")
    #expect(account.username == "ada")
    #expect(account.createdAt == fixture.clock.now)
    #expect(!account.isPending && !account.isDisabled)
    #expect(account.passwordHash.hasPrefix("$argon2id$v=19$m=8,t=1,p=1$"))
    #expect(try await fixture.service.authenticate(session.token) == session)
    #expect(try await fixture.logIn().uid == session.uid)
  }

  @Test func `a taken address costs a hash, creates no profile, and is not in the error`()
    async throws
  {
    try await fixture.signUp()
    let before = fixture.function.count
    let error = await #expect(throws: AccountError.self) {
      _ = try await fixture.service.signUp(
        email: "ADA@example.org", password: "another one", username: "eve",
        from: ServiceFixture.remote
      ) { _ in Issue.record("nothing is to be claimed") }
    }
    #expect(error == .taken)
    #expect(fixture.function.count == before + 1)
    #expect(
      error?.sentence
        == "that e-mail address or user name is not available; choose another or log in")
  }

  @Test
  func `if the claim fails, the account is removed and the caller gets the error of the claim`()
    async throws
  {
    await #expect(throws: Planned.self) {
      _ = try await fixture.service.signUp(
        email: ServiceFixture.email, password: ServiceFixture.password, username: "ada",
        from: ServiceFixture.remote
      ) { _ in throw Planned() }
    }
    #expect(try await fixture.service.accounts().isEmpty)
    try await fixture.signUp()
  }

  @Test func `a sign-up that is cancelled during its claim leaves no account`() async throws {
    let fixture = fixture
    let task = Task {
      try await fixture.service.signUp(
        email: ServiceFixture.email, password: ServiceFixture.password, username: "ada",
        from: ServiceFixture.remote
      ) { _ in
        withUnsafeCurrentTask { $0?.cancel() }
        try Task.checkCancellation()
      }
    }
    await #expect(throws: CancellationError.self) { _ = try await task.value }
    #expect(try await fixture.service.accounts().isEmpty)
  }

  @Test func `an invalid sign-up costs no hash and is not counted`() async throws {
    await #expect(throws: AccountError.invalidEmail) { try await fixture.signUp(email: "ada") }
    for _ in 0..<100 {
      await #expect(throws: AccountError.invalidPassword(.tooShort)) {
        try await fixture.signUp(password: "short")
      }
    }
    await #expect(throws: AccountError.invalidPassword(.tooLong)) {
      try await fixture.signUp(password: String(repeating: "xq7", count: 43))
    }
    await #expect(throws: AccountError.invalidPassword(.sameAsEmail)) {
      try await fixture.signUp(password: ServiceFixture.email)
    }
    await #expect(throws: AccountError.invalidPassword(.sameAsUsername)) {
      try await fixture.signUp(password: "countess ada", username: "Countess Ada")
    }
    #expect(fixture.function.count == 0)
    try await fixture.signUp()
  }

  @Test func `sign-ups from one remote address are limited`() async throws {
    let fixture = ServiceFixture { $0.signUpsMax = 3 }
    for number in 0..<3 { try await fixture.signUp(email: "a\(number)@x") }
    let before = fixture.function.count
    await #expect(throws: AccountError.rateLimited(retryAfterMilliseconds: 60_000)) {
      try await fixture.signUp(email: "a3@x")
    }
    #expect(fixture.function.count == before)
    _ = try await fixture.service.createAccount(
      email: "a4@x", password: ServiceFixture.password, username: "a4"
    ) { _ in }
    fixture.clock.advance(60_000)
    try await fixture.signUp(email: "a3@x")
  }

  @Test func `the limit for a block of IPv6 addresses is that of one address`() async throws {
    let fixture = ServiceFixture { $0.signUpsMax = 1 }
    func signUp(_ number: Int, from address: String) async throws {
      _ = try await fixture.service.signUp(
        email: "a\(number)@x", password: ServiceFixture.password, username: "a\(number)",
        from: RemoteNetwork(address)
      ) { _ in }
    }
    try await signUp(0, from: "2001:db8::1")
    try await signUp(1, from: "192.0.2.1")
    for (number, address) in ["2001:db8::2", "2001:db8::ffff:ffff:ffff:ffff", "::ffff:192.0.2.1"]
      .enumerated()
    {
      await #expect(throws: AccountError.rateLimited(retryAfterMilliseconds: 60_000)) {
        try await signUp(number + 2, from: address)
      }
    }
    try await signUp(9, from: "2001:db8:0:1::1")
  }

  @Test func `one of twenty simultaneous sign-ups with one address succeeds`() async throws {
    let fixture = fixture
    let results = await withTaskGroup(of: Result<Session, any Error>.self) { group in
      for number in 0..<20 {
        group.addTask {
          do {
            return .success(try await fixture.signUp(username: "ada\(number)"))
          } catch {
            return .failure(error)
          }
        }
      }
      return await group.reduce(into: []) { $0.append($1) }
    }
    let errors = results.compactMap { result -> (any Error)? in
      if case .failure(let error) = result { error } else { nil }
    }
    #expect(errors.count == 19)
    #expect(errors.allSatisfy { $0 as? AccountError == .taken })
    #expect(try await fixture.service.accounts().count == 1)
  }

  @Test func `a pending account cannot log in and is resolved at the next start`() async throws {
    let random = SeededBytes(seed: 7)
    var uids: [String] = []
    let hash = try #require(
      PasswordHash(
        parameters: .cheapest,
        salt: [UInt8](repeating: 0, count: 16),
        tag: CountingHash.tag(
          Array(ServiceFixture.password.utf8), [UInt8](repeating: 0, count: 16), .cheapest, 32)))
    for number in 0..<250 {
      let uid = "uid\(number)-\(random(4))"
      uids.append(uid)
      let account = Account(
        uid: uid, email: "p\(number)@x", emailNormalized: "p\(number)@x", username: "p",
        passwordHash: hash.encoded, createdAt: 1, isPending: true)
      #expect(try await fixture.store.insert(account))
    }
    let (error, hashes) = await fixture.refusal(of: ServiceFixture.password, email: "p1@x")
    #expect(error == .credentialsRefused)
    #expect(hashes == 1)

    let claimed = Set(uids.enumerated().filter { !$0.offset.isMultiple(of: 3) }.map(\.element))
    try await fixture.service.recoverPending { claimed.contains($0) }
    let left = try await fixture.service.accounts(limit: 1_000)
    #expect(Set(left.map(\.uid)) == claimed)
    #expect(left.allSatisfy { !$0.isPending })
    _ = try await fixture.logIn(email: "p1@x")
    try await fixture.service.recoverPending { _ in
      Issue.record("nothing is pending any more")
      return false
    }
  }

  @Test func `an account stays pending while the outcome of its claim is unknown`() async throws {
    let account = Account(
      uid: "u", email: "p@x", emailNormalized: "p@x", username: "p", passwordHash: "h",
      createdAt: 1, isPending: true)
    #expect(try await fixture.store.insert(account))
    await #expect(throws: Planned.self) {
      try await fixture.service.recoverPending { _ in throw Planned() }
    }
    #expect(try await fixture.store.account(uid: "u") == account)
  }
}
