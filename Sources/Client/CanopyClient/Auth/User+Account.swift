internal import Synchronization

/// The operations of a user on the own account. They concern the user who is signed in when they are
/// carried out.
extension User {
  /// Reads the account again. The result is in `Auth.currentUser`.
  ///
  /// - Throws: `AuthError`.
  public func reload() async throws {
    _ = try await owner.perform(.reload, of: uid)
  }

  /// Reads the account again. The result is in `Auth.currentUser`.
  ///
  /// - Parameter completion: receives nil or an `AuthError`.
  public func reload(
    @_inheritActorContext completion: (@Sendable @isolated(any) ((any Error)?) -> Void)? = nil
  ) {
    owner.report(.reload, of: uid, completion.map { Callback(of: $0) })
  }

  /// Returns a change of the profile, to be committed.
  public func createProfileChangeRequest() -> UserProfileChangeRequest {
    UserProfileChangeRequest(self)
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
    _ = try await user.owner.perform(.rename(name), of: user.uid)
  }

  /// Carries out the change.
  ///
  /// - Parameter completion: receives nil or an `AuthError`.
  public func commitChanges(
    @_inheritActorContext completion: (@Sendable @isolated(any) ((any Error)?) -> Void)? = nil
  ) {
    let callback = completion.map { Callback(of: $0) }
    guard let name = displayName, name != user.displayName else {
      let repository = user.owner.repository
      return repository.use { state in if let callback { state.call(callback, nil) } }
    }
    user.owner.report(.rename(name), of: user.uid, callback)
  }
}
