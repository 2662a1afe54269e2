import Synchronization

/// A check of a password that is counted: the keys for which it counts, and whether the account has logged in from the
/// network of the caller lately.
struct LoginAttempt: Sendable {
  /// The account or the session for which a password is tried.
  enum Subject: Sendable {
    /// A login, by the bytes of the normalized e-mail address.
    case account([UInt8])
    /// A change in a session.
    case session(TokenDigest)

    /// Returns the subject of logins to a normalized e-mail address.
    static func email(_ address: String) -> Subject { .account(Array(address.utf8)) }
  }

  let subject: Subject
  let remote: RemoteNetwork
  let isKnown: Bool

  /// The keys, in the order in which they are asked.
  var keys: [LoginThrottle.Key] {
    switch subject {
    case .account(let address):
      isKnown
        ? [.login(address, from: remote)] : [.login(address, from: remote), .address(address)]
    case .session(let digest): [.session(digest)]
    }
  }
}

/// The failures of one caller, which the store counts if it has ``AccountStore/loginAttempts``, and this service otherwise.
extension AccountService {
  /// Reserves an attempt. It must end with one of the other methods.
  ///
  /// - Throws: ``AccountError/rateLimited(retryAfterMilliseconds:)`` if the caller must wait.
  func reserveAttempt(
    _ subject: LoginAttempt.Subject, from remote: RemoteNetwork
  ) async throws -> LoginAttempt {
    var isKnown = false
    if case .account(let address) = subject {
      let now = environment.now()
      isKnown = knownNetworks.withLock { $0.contains(remote, of: address, now: now) }
    }
    let attempt = LoginAttempt(subject: subject, remote: remote, isKnown: isKnown)
    var reserved: [LoginThrottle.Key] = []
    for key in attempt.keys {
      let wait: Int64?
      do { wait = try await reserve(key) } catch {
        for key in reserved { await release(key) }
        throw error
      }
      guard let wait else {
        reserved.append(key)
        continue
      }
      for key in reserved { await release(key) }
      throw AccountError.rateLimited(retryAfterMilliseconds: wait)
    }
    return attempt
  }

  private func reserve(_ key: LoginThrottle.Key) async throws -> Int64? {
    guard let attempts = store.loginAttempts else {
      let now = environment.now()
      return loginThrottle.withLock { $0.reserve(key, now: now) }
    }
    let waits = settings.waits(for: key)
    return try await uncancelled { try await attempts.begin(key.bytes, waits) }
  }

  /// Ends an attempt with a wrong password. A shared count has the failure already.
  func noteFailure(_ attempt: LoginAttempt) {
    guard store.loginAttempts == nil else { return }
    let now = environment.now()
    for key in attempt.keys { loginThrottle.withLock { $0.failed(key, now: now) } }
  }

  /// Ends an attempt with the right password.
  func noteSuccess(_ attempt: LoginAttempt) async {
    if case .account(let address) = attempt.subject {
      let now = environment.now()
      knownNetworks.withLock { $0.note(attempt.remote, of: address, now: now) }
    }
    for key in attempt.keys {
      guard let attempts = store.loginAttempts else {
        loginThrottle.withLock { $0.succeeded(key) }
        continue
      }
      // If the store fails, the failures stay, and the next success removes them.
      try? await uncancelled { try await attempts.forget(key.bytes) }
    }
  }

  /// Ends an attempt in which no password was checked.
  func releaseAttempt(_ attempt: LoginAttempt) async {
    for key in attempt.keys { await release(key) }
  }

  private func release(_ key: LoginThrottle.Key) async {
    guard let attempts = store.loginAttempts else {
      return loginThrottle.withLock { $0.released(key) }
    }
    // If the store fails, the attempt stays a failure.
    try? await uncancelled { try await attempts.withdraw(key.bytes) }
  }

  /// Forgets the failures of logins to a normalized e-mail address, because the account has a new password.
  func forgetFailures(ofLoginsTo email: String) async {
    let address = Array(email.utf8)
    guard let attempts = store.loginAttempts else {
      return loginThrottle.withLock { $0.forgetLogins(to: address) }
    }
    // If the store fails, the failures stay, and the next success removes them.
    try? await uncancelled {
      try await attempts.forget(LoginThrottle.Key.address(address).bytes)
      try await attempts.forget(startingWith: LoginThrottle.Key.prefix(ofLoginsTo: address))
    }
  }
}
