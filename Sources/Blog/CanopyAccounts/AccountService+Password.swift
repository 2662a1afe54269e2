import Synchronization

extension AccountService {
  /// Changes a password for a caller that knows the current one. Every token of the account is
  /// revoked, and a new one issued.
  ///
  /// Two hashes. Failures are counted by session, apart from those of logins: so a stranger who
  /// guesses at the login does not keep the owner from changing the password, and a borrowed session
  /// has no more guesses than a login. Success forgets the failures of logins, which were made with
  /// the password until now.
  ///
  /// - Parameters:
  ///   - uid: the account, which the caller has authenticated.
  ///   - session: the token of the session in which the caller asks.
  ///   - current: the password until now.
  ///   - new: the password from now on; see ``PasswordRejection``.
  ///   - remote: the network that the request comes from.
  /// - Throws: ``AccountError/tokenRefused`` if there is no such account any more;
  ///   ``AccountError/invalidPassword(_:)``; ``AccountError/credentialsRefused``;
  ///   ``AccountError/disabled``; ``AccountError/rateLimited(retryAfterMilliseconds:)`` after too
  ///   many failures in the session; ``AccountError/overloaded``.
  public func changePassword(
    uid: String, session token: String, current: String, new: String, from remote: RemoteNetwork
  ) async throws -> Session {
    guard let session = TokenDigest(token: token), let owner = try await store.account(uid: uid),
      !owner.isPending
    else { throw AccountError.tokenRefused }
    let accepted = try accepted(new, for: owner)
    for _ in 0..<Self.roundsMax {
      var account = try await verified(
        key: .session(session), password: current, from: remote
      ) {
        try await store.account(uid: uid)
      }
      let hash = try await hash(accepted, for: remote).encoded
      let isReplaced = try await store.setPasswordHash(
        hash, uid: uid, ifCurrent: account.passwordHash, revokingTokens: true)
      // Not replaced if it has changed since it was checked: then it is checked again.
      guard isReplaced else { continue }
      account.passwordHash = hash
      loginThrottle.withLock { $0.forget(.email(owner.emailNormalized)) }
      guard let session = try await issueSession(for: account) else { break }
      return session
    }
    throw AccountError.credentialsRefused
  }

  /// The new password of an account, if it may be chosen.
  func accepted(_ password: String, for account: Account) throws -> NormalizedPassword {
    guard let email = EmailAddress(account.email) else { throw AccountError.invalidEmail }
    return try PasswordPolicy.accepted(password, email: email, username: account.username)
  }
}
