/// Changes of the own credentials. The server refuses most of them with `requiresRecentLogin` five
/// minutes after the last sign-in: call `reauthenticate(with:)` then.
extension User {
  /// Proves the identity again, which counts as a recent sign-in.
  ///
  /// - Parameters:
  ///   - credential: the credential of this user. With that of another user the error is `userMismatch`.
  ///   - completion: receives the result or an `AuthError`.
  public func reauthenticate(
    with credential: AuthCredential,
    @_inheritActorContext completion: (
      @Sendable @isolated(any) (AuthDataResult?, (any Error)?) -> Void
    )? = nil
  ) {
    owner.report(
      .confirm(email: credential.email, password: credential.password), of: uid,
      completion.map { Callback(of: $0) }, Auth.result)
  }

  /// Proves the identity again, which counts as a recent sign-in.
  ///
  /// - Parameter credential: the credential of this user. With that of another user the error is `userMismatch`.
  /// - Throws: `AuthError`.
  @discardableResult
  public func reauthenticate(with credential: AuthCredential) async throws -> AuthDataResult {
    try await owner.signIn(
      .confirm(email: credential.email, password: credential.password), of: uid)
  }

  /// Adds an e-mail address and a password to a user without them, such as an anonymous one. The user
  /// keeps the uid, and with it the data.
  ///
  /// - Parameter completion: receives the result or an `AuthError`.
  public func link(
    with credential: AuthCredential,
    @_inheritActorContext completion: (
      @Sendable @isolated(any) (AuthDataResult?, (any Error)?) -> Void
    )? = nil
  ) {
    owner.report(
      .link(email: credential.email, password: credential.password), of: uid,
      completion.map { Callback(of: $0) }, Auth.result)
  }

  /// Adds an e-mail address and a password to a user without them, such as an anonymous one. The user
  /// keeps the uid, and with it the data.
  ///
  /// - Throws: `AuthError`.
  @discardableResult
  public func link(with credential: AuthCredential) async throws -> AuthDataResult {
    try await owner.signIn(.link(email: credential.email, password: credential.password), of: uid)
  }

  /// Changes the password, and ends all other sessions of the user.
  ///
  /// - Parameter completion: receives nil or an `AuthError`.
  public func updatePassword(
    to password: String,
    @_inheritActorContext completion: (@Sendable @isolated(any) ((any Error)?) -> Void)? = nil
  ) {
    owner.report(
      .credentials(email: nil, password: password), of: uid, completion.map { Callback(of: $0) })
  }

  /// Changes the password, and ends all other sessions of the user.
  ///
  /// - Throws: `AuthError`.
  public func updatePassword(to password: String) async throws {
    _ = try await owner.perform(.credentials(email: nil, password: password), of: uid)
  }

  /// Changes the e-mail address, and ends all other sessions of the user. The new address is not
  /// verified.
  ///
  /// - Parameter completion: receives nil or an `AuthError`.
  public func updateEmail(
    to email: String,
    @_inheritActorContext completion: (@Sendable @isolated(any) ((any Error)?) -> Void)? = nil
  ) {
    owner.report(
      .credentials(email: email, password: nil), of: uid, completion.map { Callback(of: $0) })
  }

  /// Changes the e-mail address, and ends all other sessions of the user. The new address is not
  /// verified.
  ///
  /// - Throws: `AuthError`.
  public func updateEmail(to email: String) async throws {
    _ = try await owner.perform(.credentials(email: email, password: nil), of: uid)
  }

  /// Makes the server issue a code for `Auth.applyActionCode`, which proves the e-mail address.
  ///
  /// - Parameter completion: receives nil or an `AuthError`.
  public func sendEmailVerification(
    @_inheritActorContext completion: (@Sendable @isolated(any) ((any Error)?) -> Void)? = nil
  ) {
    owner.report(.sendVerification, of: uid, completion.map { Callback(of: $0) })
  }

  /// Makes the server issue a code for `Auth.applyActionCode`, which proves the e-mail address.
  ///
  /// - Throws: `AuthError`.
  public func sendEmailVerification() async throws {
    _ = try await owner.perform(.sendVerification, of: uid)
  }

  /// Deletes the account with its e-mail address and its sessions, and signs out. The user's posts and
  /// other data in the database stay.
  ///
  /// - Parameter completion: receives nil or an `AuthError`.
  public func delete(
    @_inheritActorContext completion: (@Sendable @isolated(any) ((any Error)?) -> Void)? = nil
  ) {
    owner.report(.delete, of: uid, completion.map { Callback(of: $0) })
  }

  /// Deletes the account with its e-mail address and its sessions, and signs out. The user's posts and
  /// other data in the database stay.
  ///
  /// - Throws: `AuthError`.
  public func delete() async throws {
    _ = try await owner.perform(.delete, of: uid)
  }
}
