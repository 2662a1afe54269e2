/// Sign-in without a password, and with credentials.
extension Auth {
  /// Signs in as a new user without e-mail address and password. A user who is signed in anonymously
  /// already stays the same. `User.link(with:)` adds an address and a password.
  ///
  /// - Parameter completion: receives the result or an `AuthError`.
  public func signInAnonymously(
    @_inheritActorContext completion: (
      @Sendable @isolated(any) (AuthDataResult?, (any Error)?) -> Void
    )? = nil
  ) {
    report(.signUpAnonymously, completion.map { Callback(of: $0) }, Auth.result)
  }

  /// Signs in as a new user without e-mail address and password. A user who is signed in anonymously
  /// already stays the same.
  ///
  /// - Throws: `AuthError`.
  @discardableResult
  public func signInAnonymously() async throws -> AuthDataResult {
    try await signIn(.signUpAnonymously)
  }

  /// Signs in with a custom token that an administrator has made.
  ///
  /// - Parameter completion: receives the result or an `AuthError`.
  public func signIn(
    withCustomToken token: String,
    @_inheritActorContext completion: (
      @Sendable @isolated(any) (AuthDataResult?, (any Error)?) -> Void
    )? = nil
  ) {
    report(.customToken(token), completion.map { Callback(of: $0) }, Auth.result)
  }

  /// Signs in with a custom token that an administrator has made.
  ///
  /// - Throws: `AuthError`.
  @discardableResult
  public func signIn(withCustomToken token: String) async throws -> AuthDataResult {
    try await signIn(.customToken(token))
  }

  /// Signs in with a credential.
  ///
  /// - Parameter completion: receives the result or an `AuthError`.
  public func signIn(
    with credential: AuthCredential,
    @_inheritActorContext completion: (
      @Sendable @isolated(any) (AuthDataResult?, (any Error)?) -> Void
    )? = nil
  ) {
    signIn(withEmail: credential.email, password: credential.password, completion: completion)
  }

  /// Signs in with a credential.
  ///
  /// - Throws: `AuthError`.
  @discardableResult
  public func signIn(with credential: AuthCredential) async throws -> AuthDataResult {
    try await signIn(withEmail: credential.email, password: credential.password)
  }
}
