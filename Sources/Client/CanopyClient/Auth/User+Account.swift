internal import Synchronization

/// The operations of a user on the own account. They concern the user who is signed in when they are
/// carried out.
extension User {
  private func requireAuth() throws(AuthError) -> Auth {
    guard let auth else {
      throw AuthError(.nullUser, "this user comes from no session; use Auth.auth().currentUser")
    }
    guard auth.currentUser?.uid == uid else {
      throw AuthError(.userMismatch, "another user is signed in; use Auth.auth().currentUser")
    }
    return auth
  }

  /// Returns the token of the session, which the HTTP interface accepts, too. A session has one token
  /// as long as it lives, so `forcingRefresh` has no effect.
  ///
  /// - Throws: `AuthError` if this user is not signed in.
  public func getIDToken(forcingRefresh: Bool = false) async throws -> String {
    guard let token = try requireAuth().token else {
      throw AuthError(.nullUser, "nobody is signed in")
    }
    return token
  }

  /// Reads the account again. The result is in `Auth.currentUser`.
  ///
  /// - Throws: `AuthError`.
  public func reload() async throws {
    try await requireAuth().reload()
  }

  /// Returns a change of the profile, to be committed.
  public func createProfileChangeRequest() -> UserProfileChangeRequest {
    UserProfileChangeRequest(self)
  }

  fileprivate func rename(_ name: String) async throws {
    _ = try await requireAuth().updateDisplayName(name)
  }
}

/// A change of a user's profile.
public final class UserProfileChangeRequest: Sendable {
  private let user: User
  private let name: Mutex<String?>

  init(_ user: User) {
    self.user = user
    name = Mutex(user.displayName)
  }

  /// The user name: 1 to 32 ASCII letters, digits, `_` or `-`.
  public var displayName: String? {
    get { name.withLock { $0 } }
    set { name.withLock { $0 = newValue } }
  }

  /// Carries out the change.
  ///
  /// - Throws: `AuthError`.
  public func commitChanges() async throws {
    guard let name = displayName, name != user.displayName else { return }
    try await user.rename(name)
  }

  /// Carries out the change.
  ///
  /// - Parameter completion: receives nil or an `AuthError`.
  public func commitChanges(
    @_inheritActorContext completion: (@Sendable @isolated(any) ((any Error)?) -> Void)? = nil
  ) {
    Task {
      var problem: (any Error)?
      do { try await commitChanges() } catch { problem = error }
      await completion?(problem)
    }
  }
}
