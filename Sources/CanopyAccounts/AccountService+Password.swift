extension AccountService {
  /// Changes a password for whoever knows the current one. Every token of the account is
  /// revoked, and a new one issued.
  ///
  /// Two hashes. The check of the current password shares the throttle of ``logIn(email:password:)``,
  /// so that a borrowed session does not make guessing easier.
  ///
  /// - Parameters:
  ///   - uid: the account, which the caller has authenticated.
  ///   - current: the password until now.
  ///   - new: the password from now on; see ``PasswordRejection``.
  /// - Throws: ``AccountError/tokenRefused`` if there is no such account any more;
  ///   ``AccountError/invalidPassword(_:)``; otherwise as ``logIn(email:password:)``.
  public func changePassword(
    uid: String, current: String, new: String
  ) async throws -> Session {
    guard let owner = try await store.account(uid: uid), !owner.isPending else {
      throw AccountError.tokenRefused
    }
    let accepted = try accepted(new, for: owner)
    for _ in 0..<Self.roundsMax {
      var account = try await verified(key: owner.emailNormalized, password: current) {
        try await store.account(uid: uid)
      }
      let hash = try await hash(accepted).encoded
      let isReplaced = try await store.setPasswordHash(
        hash, uid: uid, ifCurrent: account.passwordHash, revokingTokens: true)
      // Not replaced if it has changed since it was checked: then it is checked again.
      guard isReplaced else { continue }
      account.passwordHash = hash
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
