import Synchronization

extension AccountService {
  /// A new session for a caller that knows the password.
  ///
  /// One hash; a second one if the stored hash was made with other parameters than the current
  /// ones, which is then replaced.
  ///
  /// - Parameters:
  ///   - email: the address, in any spelling that normalises to the account's.
  ///   - password: as it was typed.
  ///   - remote: the network that the request comes from, to limit attempts.
  /// - Throws: ``AccountError/invalidEmail``; ``AccountError/credentialsRefused`` for a wrong
  ///   password, an unknown address and an unfinished sign-up alike;
  ///   ``AccountError/disabled`` for the right password of a disabled account;
  ///   ``AccountError/rateLimited(retryAfterMilliseconds:)`` after too many attempts from the
  ///   network, or too many failures in a row for the address; ``AccountError/overloaded``.
  public func logIn(
    email: String, password: String, from remote: RemoteNetwork
  ) async throws -> Session {
    guard let email = EmailAddress(email) else { throw AccountError.invalidEmail }
    let now = environment.now()
    if let wait = loginLimiter.withLock({ $0.take(remote, now: now) }) {
      throw AccountError.rateLimited(retryAfterMilliseconds: wait)
    }
    for _ in 0..<Self.roundsMax {
      let account = try await verified(
        key: .email(email.normalized), password: password, from: remote
      ) {
        try await store.account(emailNormalized: email.normalized)
      }
      // Refused if the account has changed since it was read: then it is read again.
      if let session = try await issueSession(for: account) {
        await renewHash(of: account, password: password, for: remote)
        return session
      }
    }
    throw AccountError.credentialsRefused
  }

  /// The session that a token stands for.
  ///
  /// - Throws: ``AccountError/tokenRefused`` for a malformed, unknown, expired or revoked token
  ///   and for that of a disabled account.
  public func authenticate(_ token: String) async throws -> Session {
    guard let token = SessionToken(token), let found = try await store.token(token.digest),
      environment.now() < found.token.expiresAt, found.account.isActive
    else { throw AccountError.tokenRefused }
    return Session(
      uid: found.account.uid,
      email: found.account.email,
      token: token.text,
      expiresAt: found.token.expiresAt
    )
  }

  /// Whether a token opens its account at present: it is known, neither expired nor revoked, and the
  /// account is neither disabled nor in the middle of its sign-up. One look-up. Throws only errors of
  /// the store.
  public func isValid(_ digest: TokenDigest) async throws -> Bool {
    guard let found = try await store.token(digest) else { return false }
    return environment.now() < found.token.expiresAt && found.account.isActive
  }

  /// Whether an account can be logged in to: it exists, and is neither disabled nor in the middle of
  /// its sign-up. One look-up. Throws only errors of the store.
  public func isActive(uid: String) async throws -> Bool {
    try await store.account(uid: uid)?.isActive ?? false
  }

  /// Revokes a token. Does nothing for one that is not valid: the wish is fulfilled already.
  public func logOut(_ token: String) async throws {
    guard let token = SessionToken(token) else { return }
    try await store.deleteToken(token.digest)
  }

  /// Removes expired tokens from the store, which otherwise would only grow; to be called now and
  /// then, and again at once for as long as it returns as many as
  /// ``AccountSettings/purgeBatchMax``.
  ///
  /// - Returns: how many were removed.
  public func purgeExpiredTokens() async throws -> Int {
    try await store.purgeExpired(now: environment.now(), limit: max(1, settings.purgeBatchMax))
  }

  /// How often a check begins anew because the account changed while its password was hashed.
  /// More than one such change in a row is no coincidence of two logins.
  static let roundsMax = 3

  /// A new session, or nil if the account is no longer as it was when its password was checked.
  func issueSession(for account: Account) async throws -> Session? {
    let token = SessionToken.make(random: environment.random)
    let expiresAt = environment.now().addingSaturated(settings.tokenLifetimeMilliseconds)
    let record = TokenRecord(digest: token.digest, uid: account.uid, expiresAt: expiresAt)
    guard try await store.insertToken(record, ifPasswordHash: account.passwordHash) else {
      return nil
    }
    return Session(
      uid: account.uid, email: account.email, token: token.text, expiresAt: expiresAt)
  }

  /// Replaces a hash that was made with other parameters than the current ones.
  ///
  /// Only now is the password at hand. Failing is no reason to refuse the login: the next one
  /// tries again.
  private func renewHash(
    of account: Account, password: String, for remote: RemoteNetwork
  ) async {
    guard let stored = PasswordHash(encoded: account.passwordHash),
      !stored.isMade(with: settings.hashParameters),
      let password = NormalizedPassword(password),
      let renewed = try? await hash(password, for: remote)
    else { return }
    _ = try? await store.setPasswordHash(
      renewed.encoded, uid: account.uid, ifCurrent: account.passwordHash, revokingTokens: false)
  }
}
