internal import CanopyTree

/// The tokens of a user, for other servers that trust this one.
extension User {
  /// Returns an identity token, which the HTTP interface accepts. It expires after an hour; the library
  /// renews it five minutes before.
  ///
  /// - Parameter forcingRefresh: whether to request a new token even if the present one is valid.
  /// - Throws: `AuthError` if this user is not signed in.
  public func getIDToken(forcingRefresh: Bool = false) async throws -> String {
    try await owner.perform(.idToken(isForced: forcingRefresh), of: uid).text
  }

  /// Returns an identity token to a function. Otherwise like `getIDToken(forcingRefresh:)`.
  ///
  /// - Parameter completion: receives the token or an `AuthError`.
  public func getIDToken(
    @_inheritActorContext completion:
      @escaping @Sendable @isolated(any) (String?, (any Error)?) ->
      Void
  ) {
    getIDTokenForcingRefresh(false, completion: completion)
  }

  /// Returns an identity token to a function. Otherwise like `getIDToken(forcingRefresh:)`.
  ///
  /// - Parameters:
  ///   - forcesRefresh: whether to request a new token even if the present one is valid.
  ///   - completion: receives the token or an `AuthError`.
  public func getIDTokenForcingRefresh(
    _ forcesRefresh: Bool,
    @_inheritActorContext completion:
      @escaping @Sendable @isolated(any) (String?, (any Error)?) ->
      Void
  ) {
    owner.report(.idToken(isForced: forcesRefresh), of: uid, Callback(of: completion)) {
      reply, _ in .success(reply.text)
    }
  }

  /// Returns an identity token with its claims.
  ///
  /// - Parameter forcingRefresh: whether to request a new token even if the present one is valid.
  /// - Throws: `AuthError` if this user is not signed in.
  public func getIDTokenResult(forcingRefresh: Bool = false) async throws -> AuthTokenResult {
    let reply = try await owner.perform(.idToken(isForced: forcingRefresh), of: uid)
    return try User.tokenResult(reply, owner).get()
  }

  /// Returns an identity token with its claims to a function.
  ///
  /// - Parameters:
  ///   - forcingRefresh: whether to request a new token even if the present one is valid.
  ///   - completion: receives the token or an `AuthError`.
  public func getIDTokenResult(
    forcingRefresh: Bool = false,
    @_inheritActorContext completion:
      @escaping @Sendable @isolated(any) (
        AuthTokenResult?, (any Error)?
      ) -> Void
  ) {
    owner.report(
      .idToken(isForced: forcingRefresh), of: uid, Callback(of: completion), User.tokenResult)
  }

  /// The token with which the session continues on later connections; nil if this user is not signed
  /// in. `Auth.signIn(withToken:)` accepts it.
  public var refreshToken: String? {
    guard let auth, auth.currentUser?.identity == identity, let stored = auth.token else {
      return nil
    }
    return RealtimeCredential(stored).token
  }

  private static func tokenResult(
    _ reply: SessionReply, _ auth: Auth
  ) -> Result<AuthTokenResult, AuthError> {
    AuthTokenResult(reply.text).map { .success($0) }
      ?? .failure(AuthError(.operationNotAllowed, "the administrator's token has no claims"))
  }
}
