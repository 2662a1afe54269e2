/// Codes that prove the access to an e-mail address. The server sends no mail: the administrator finds
/// a code in the server's log and gives it to the user.
extension Auth {
  /// Makes the server issue a code for a new password. Succeeds also for an address without an
  /// account, so that a stranger learns nothing.
  ///
  /// - Parameter completion: receives nil or an `AuthError`.
  public func sendPasswordReset(
    withEmail email: String,
    @_inheritActorContext completion: (@Sendable @isolated(any) ((any Error)?) -> Void)? = nil
  ) {
    report(.forgotPassword(email: email), completion.map { Callback(of: $0) })
  }

  /// Makes the server issue a code for a new password. Succeeds also for an address without an
  /// account, so that a stranger learns nothing.
  ///
  /// - Throws: `AuthError`.
  public func sendPasswordReset(withEmail email: String) async throws {
    _ = try await perform(.forgotPassword(email: email))
  }

  /// Checks a code for a new password without using it.
  ///
  /// - Parameter completion: receives the e-mail address of the account, or an `AuthError`.
  public func verifyPasswordResetCode(
    _ code: String,
    @_inheritActorContext completion:
      @escaping @Sendable @isolated(any) (String?, (any Error)?) ->
      Void
  ) {
    report(.resetPassword(code: code, new: nil), Callback(of: completion)) { reply, _ in
      .success(reply.text)
    }
  }

  /// Checks a code for a new password without using it.
  ///
  /// - Returns: the e-mail address of the account.
  /// - Throws: `AuthError`.
  public func verifyPasswordResetCode(_ code: String) async throws -> String {
    try await perform(.resetPassword(code: code, new: nil)).text
  }

  /// Sets a new password with a code, and ends all sessions of the account. A code works once.
  ///
  /// - Parameter completion: receives nil or an `AuthError`.
  public func confirmPasswordReset(
    withCode code: String, newPassword: String,
    @_inheritActorContext completion: (@Sendable @isolated(any) ((any Error)?) -> Void)? = nil
  ) {
    report(.resetPassword(code: code, new: newPassword), completion.map { Callback(of: $0) })
  }

  /// Sets a new password with a code, and ends all sessions of the account. A code works once.
  ///
  /// - Throws: `AuthError`.
  public func confirmPasswordReset(withCode code: String, newPassword: String) async throws {
    _ = try await perform(.resetPassword(code: code, new: newPassword))
  }

  /// Uses a code of `User.sendEmailVerification` to prove that the address is the user's.
  ///
  /// - Parameter completion: receives nil or an `AuthError`.
  public func applyActionCode(
    _ code: String,
    @_inheritActorContext completion: (@Sendable @isolated(any) ((any Error)?) -> Void)? = nil
  ) {
    report(.verifyEmail(code: code), completion.map { Callback(of: $0) })
  }

  /// Uses a code of `User.sendEmailVerification` to prove that the address is the user's.
  ///
  /// - Throws: `AuthError`.
  public func applyActionCode(_ code: String) async throws {
    _ = try await perform(.verifyEmail(code: code))
  }
}
