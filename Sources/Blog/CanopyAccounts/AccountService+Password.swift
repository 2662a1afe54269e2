import Synchronization

extension AccountService {
  /// Changes a password for a caller that knows the current one. Revokes all tokens of the account and issues a new
  /// one.
  ///
  /// Costs two hashes, so it counts as two logins of the network; each account has as many of them as a remote network.
  /// Failures are counted for each session, separately from those of logins. So a stranger who guesses at the login does
  /// not prevent the user from changing the password, and a stolen session permits only as many guesses as a login.
  /// Success resets the count of failed logins. An attempt that must wait after failures does not count as a change. So a
  /// stolen session does not use up the changes of the user.
  ///
  /// - Parameters:
  ///   - uid: the account of the authenticated caller.
  ///   - session: the token of the caller's session.
  ///   - current: the current password.
  ///   - new: the new password; see ``PasswordRejection``.
  ///   - remote: the network of the caller.
  /// - Throws: ``AccountError/tokenRefused`` if the account does not exist any more;
  ///   ``AccountError/invalidPassword(_:)``; ``AccountError/credentialsRefused``;
  ///   ``AccountError/disabled``; ``AccountError/rateLimited(retryAfterMilliseconds:)`` after too
  ///   many failures in the session, or too many changes of the account or of the network;
  ///   ``AccountError/overloaded``; ``UncertainChange``.
  public func changePassword(
    uid: String, session token: String, current: String, new: String, from remote: RemoteNetwork
  ) async throws -> Session {
    guard let session = TokenDigest(token: token), let owner = try await store.account(uid: uid),
      !owner.isPending
    else { throw AccountError.tokenRefused }
    let accepted = try accepted(new, for: owner)
    for _ in 0..<Self.roundsMax {
      let account = try await verified(
        .session(session), password: current, from: remote
      ) {
        try countChange(of: uid, from: remote)
        return try await store.account(uid: uid)
      }
      let hash = try await hash(accepted, for: remote).encoded
      let now = environment.now()
      let replaced = try await changing(uid) {
        try await store.replacePasswordHash(
          hash, uid: uid, ifCurrent: account.passwordHash, revokingTokens: true,
          endingLoginsAt: now)
      }
      // Not replaced if the password has changed since it was checked. Then the current one is checked again.
      guard let account = replaced else { continue }
      await forgetFailures(ofLoginsTo: owner.emailNormalized)
      do {
        if let session = try await issueSession(for: account) { return session }
      } catch {
        throw UncertainChange(uid: uid, reason: error)
      }
      // The account was disabled, or got another password, in this moment.
      throw UncertainChange(uid: uid, reason: AccountError.credentialsRefused)
    }
    throw AccountError.credentialsRefused
  }

  /// Checks the password of a user who is logged in again, and returns a new session: a recent login. Other sessions
  /// stay.
  ///
  /// Counts as a login of the network. Failures are counted for the session, as those of a change of the password are,
  /// and for the account if the user logged in with an identity token.
  ///
  /// - Parameters:
  ///   - uid: the account of the authenticated caller.
  ///   - session: the token of the caller's session.
  ///   - email: the address of the account, in any spelling with the same normalized form.
  ///   - password: the password as typed.
  ///   - remote: the network of the caller.
  /// - Throws: ``AccountError/tokenRefused`` if the account does not exist any more; ``AccountError/invalidEmail``;
  ///   ``AccountError/otherAccount`` for another address; ``AccountError/credentialsRefused``;
  ///   ``AccountError/disabled``; ``AccountError/rateLimited(retryAfterMilliseconds:)``; ``AccountError/overloaded``.
  public func confirm(
    uid: String, session token: String, email: String, password: String,
    from remote: RemoteNetwork
  ) async throws -> Session {
    guard let email = EmailAddress(email) else { throw AccountError.invalidEmail }
    guard let owner = try await store.account(uid: uid), !owner.isPending else {
      throw AccountError.tokenRefused
    }
    guard email.normalized.utf8.elementsEqual(owner.emailNormalized.utf8) else {
      throw AccountError.otherAccount
    }
    try countLogin(from: remote)
    let subject =
      TokenDigest(token: token).map { LoginAttempt.Subject.session($0) }
      ?? .email(owner.emailNormalized)
    for _ in 0..<Self.roundsMax {
      let account = try await verified(subject, password: password, from: remote) {
        try await store.account(uid: uid)
      }
      if let session = try await issueSession(for: account) { return session }
    }
    throw AccountError.credentialsRefused
  }

  /// Counts a change of an account's credentials as two logins, for the network and for the account. A network with many
  /// accounts has no more hashes by changes than by logins.
  ///
  /// - Throws: ``AccountError/rateLimited(retryAfterMilliseconds:)``.
  func countChange(of uid: String, from remote: RemoteNetwork) throws {
    try countLogin(from: remote, cost: 2)
    let now = environment.now()
    if let wait = changeLimiter.withLock({ $0.take(Array(uid.utf8), cost: 2, now: now) }) {
      throw AccountError.rateLimited(retryAfterMilliseconds: wait)
    }
  }

  /// A kind of writes to an account. Each has a count of its own, so that the holder of an old token cannot use up the
  /// owner's changes of credentials.
  enum CountedWrite: String {
    case profile, credentials, login
  }

  /// Counts a change of an account or a new session without a password: each is a transaction that the disk must
  /// confirm.
  ///
  /// - Throws: ``AccountError/rateLimited(retryAfterMilliseconds:)``.
  func countWrite(_ kind: CountedWrite, of uid: String, from remote: RemoteNetwork) throws {
    let now = environment.now()
    let wait =
      remote.isThisMachine ? nil : networkLimiter.withLock { $0.take(remote, now: now) }
    let key = Array("\(kind.rawValue) \(uid)".utf8)
    if let wait = wait ?? updateLimiter.withLock({ $0.take(key, now: now) }) {
      throw AccountError.rateLimited(retryAfterMilliseconds: wait)
    }
  }

  /// Checks the new password of an account, and returns its normalized form.
  func accepted(_ password: String, for account: Account) throws -> NormalizedPassword {
    try PasswordPolicy.accepted(
      password, email: EmailAddress(account.email), username: account.username)
  }
}

extension AccountService {
  /// Returns the account that `find` returns, if the password matches.
  ///
  /// All checks of passwords go through this method. It always computes exactly one hash: of the account, or of the
  /// decoy if no account can match.
  ///
  /// - Parameters:
  ///   - subject: the account or the session for which failures are counted; see ``LoginThrottle``.
  ///   - password: the password as typed.
  ///   - remote: the network of the caller.
  ///   - find: looks up the account.
  /// - Throws: ``AccountError/rateLimited(retryAfterMilliseconds:)`` before any work;
  ///   ``AccountError/credentialsRefused``; ``AccountError/disabled`` if the password was right.
  func verified(
    _ subject: LoginAttempt.Subject, password: String, from remote: RemoteNetwork,
    find: () async throws -> Account?
  ) async throws -> Account {
    let attempt = try await reserveAttempt(subject, from: remote)
    let account: Account?
    do {
      account = try await matching(password, try await find(), in: attempt)
    } catch {
      // The caller has learned nothing about the password, so this does not count as an attempt.
      await releaseAttempt(attempt)
      throw error
    }
    guard let account else {
      noteFailure(attempt)
      throw AccountError.credentialsRefused
    }
    await noteSuccess(attempt)
    guard !account.isDisabled else { throw AccountError.disabled }
    return account
  }

  /// Returns the account if it exists, is not pending, and the password matches.
  ///
  /// An account with an unreadable hash counts as missing, because another error would reveal that it exists.
  private func matching(
    _ password: String, _ account: Account?, in attempt: LoginAttempt
  ) async throws -> Account? {
    let full = account.flatMap { $0.isPending ? nil : $0 }
    let stored = full.flatMap { PasswordHash(encoded: $0.passwordHash) }
    // A password that is too long matches no account. An empty one is hashed instead, so that the time is the same.
    let typed = NormalizedPassword(password)
    guard let stored, let typed else {
      guard let decoy else { throw AccountError.hashingFailed }
      _ = try await hasher.verify(
        typed?.bytes ?? [], against: decoy, for: attempt.remote, isKnown: attempt.isKnown)
      return nil
    }
    let matches = try await hasher.verify(
      typed.bytes, against: stored, for: attempt.remote, isKnown: attempt.isKnown)
    return matches ? full : nil
  }
}
