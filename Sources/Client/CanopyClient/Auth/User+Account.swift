internal import Synchronization

/// The operations of users on their own accounts. They concern the user who is signed in when they are
/// carried out. The `async` methods of a user throw a `CancellationError` if their task is cancelled
/// before the server has answered; the request goes on.
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
  private struct Profile {
    var name: String?
    var photoURL: URL?
  }

  private let user: User
  private let profile: Mutex<Profile>

  init(_ user: User) {
    self.user = user
    profile = Mutex(Profile(name: user.displayName, photoURL: user.photoURL))
  }

  /// The user name: over the line protocol 1 to 32 ASCII letters, digits, `_` or `-`.
  public var displayName: String? {
    get { profile.withLock { $0.name } }
    set { profile.withLock { $0.name = newValue } }
  }

  /// The picture; nil for none. Over the line protocol a change of it fails with `operationNotAllowed`.
  public var photoURL: URL? {
    get { profile.withLock { $0.photoURL } }
    set { profile.withLock { $0.photoURL = newValue } }
  }

  /// The request that carries out the change; nil if there is nothing to change.
  private var request: SessionRequest.Kind? {
    let name = displayName == user.displayName ? nil : displayName
    guard photoURL == user.photoURL else {
      return .picture(photoURL?.absoluteString ?? "", name: name)
    }
    return name.map { .rename($0) }
  }

  /// Carries out the change.
  ///
  /// - Throws: `AuthError`.
  public func commitChanges() async throws {
    guard let request else { return }
    _ = try await user.owner.perform(request, of: user.uid)
  }

  /// Carries out the change.
  ///
  /// - Parameter completion: receives nil or an `AuthError`.
  public func commitChanges(
    @_inheritActorContext completion: (@Sendable @isolated(any) ((any Error)?) -> Void)? = nil
  ) {
    let callback = completion.map { Callback(of: $0) }
    guard let request else {
      let repository = user.owner.repository
      return repository.use { state in if let callback { state.call(callback, nil) } }
    }
    user.owner.report(request, of: user.uid, callback)
  }
}
