import Synchronization

/// The failures of one caller, which the store counts if it has ``AccountStore/loginAttempts``, and this service otherwise.
extension AccountService {
  /// Reserves an attempt. It must end with one of the other methods.
  ///
  /// - Returns: nil if the attempt is admitted; otherwise the milliseconds to wait.
  func reserveAttempt(_ key: LoginThrottle.Key) async throws -> Int64? {
    guard let attempts = store.loginAttempts else {
      let now = environment.now()
      return loginThrottle.withLock { $0.reserve(key, now: now) }
    }
    let waits = settings.loginWaits
    return try await uncancelled { try await attempts.begin(key.bytes, waits) }
  }

  /// Ends an attempt with a wrong password. A shared count has the failure already.
  func noteFailure(_ key: LoginThrottle.Key) {
    guard store.loginAttempts == nil else { return }
    let now = environment.now()
    loginThrottle.withLock { $0.failed(key, now: now) }
  }

  /// Ends an attempt with the right password.
  func noteSuccess(_ key: LoginThrottle.Key) async {
    guard store.loginAttempts != nil else { return loginThrottle.withLock { $0.succeeded(key) } }
    await forgetFailures(key)
  }

  /// Ends an attempt in which no password was checked.
  func releaseAttempt(_ key: LoginThrottle.Key) async {
    guard let attempts = store.loginAttempts else {
      return loginThrottle.withLock { $0.released(key) }
    }
    // If the store fails, the attempt stays a failure.
    try? await uncancelled { try await attempts.withdraw(key.bytes) }
  }

  /// Forgets the failures of a key.
  func forgetFailures(_ key: LoginThrottle.Key) async {
    guard let attempts = store.loginAttempts else {
      return loginThrottle.withLock { $0.forget(key) }
    }
    // If the store fails, the failures stay, and the next success removes them.
    try? await uncancelled { try await attempts.forget(key.bytes) }
  }
}
