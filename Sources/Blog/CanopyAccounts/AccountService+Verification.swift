import Synchronization

extension AccountService {
  /// The account that `find` finds, if the password is its own.
  ///
  /// The one place where a password is checked. Whatever it is checked against, exactly one hash
  /// is made: of the account, or of the decoy where there is none that could be right.
  ///
  /// - Parameters:
  ///   - key: counts the failures; see ``LoginThrottle``.
  ///   - password: as it was typed.
  ///   - remote: the network that the request comes from.
  ///   - find: looks the account up.
  /// - Throws: ``AccountError/rateLimited(retryAfterMilliseconds:)`` without any work;
  ///   ``AccountError/credentialsRefused``; ``AccountError/disabled`` if the password was right.
  func verified(
    key: LoginThrottle.Key, password: String, from remote: RemoteNetwork,
    find: () async throws -> Account?
  ) async throws -> Account {
    let now = environment.now()
    if let wait = loginThrottle.withLock({ $0.reserve(key, now: now) }) {
      throw AccountError.rateLimited(retryAfterMilliseconds: wait)
    }
    let account: Account?
    do {
      account = try await matching(password, try await find(), for: remote)
    } catch {
      // Nothing was learnt about the password, so this was no attempt.
      loginThrottle.withLock { $0.released(key) }
      throw error
    }
    guard let account else {
      let now = environment.now()
      loginThrottle.withLock { $0.failed(key, now: now) }
      throw AccountError.credentialsRefused
    }
    loginThrottle.withLock { $0.succeeded(key) }
    guard !account.isDisabled else { throw AccountError.disabled }
    return account
  }

  /// The account, if there is one that can be logged in to and the password is its own.
  ///
  /// A hash that cannot be read is treated as no account: to say more would say that there is one.
  private func matching(
    _ password: String, _ account: Account?, for remote: RemoteNetwork
  ) async throws -> Account? {
    let full = account.flatMap { $0.isPending ? nil : $0 }
    let stored = full.flatMap { PasswordHash(encoded: $0.passwordHash) }
    // An over-long password is nobody's. It is not cut, and the work is done on nothing instead.
    let typed = NormalizedPassword(password)
    guard let stored, let typed else {
      guard let decoy else { throw AccountError.hashingFailed }
      _ = try await hasher.verify(typed?.bytes ?? [], against: decoy, for: remote)
      return nil
    }
    return try await hasher.verify(typed.bytes, against: stored, for: remote) ? full : nil
  }
}
