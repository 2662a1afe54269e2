internal import CanopyTree
internal import Synchronization

/// The handle of a session listener, for `removeStateDidChangeListener`.
public final class AuthStateDidChangeListenerHandle: Sendable {
  let number: Int

  init(_ number: Int) {
    self.number = number
  }
}

/// The handle of a token listener, for `removeIDTokenDidChangeListener`.
public final class IDTokenDidChangeListenerHandle: Sendable {
  let number: Int

  init(_ number: Int) {
    self.number = number
  }
}

/// The accounts and the session of a database.
///
/// A session belongs to the database's connection. Every later connection renews it with the token
/// from the server; the library keeps no password. A write that has not reached the server before a
/// sign-out is sent as the user who is signed in then. Safe to use from any thread. The library
/// calls the application's functions on the database's `callbackQueue`.
///
/// The `async` methods, also those of ``User``, throw a `CancellationError` if their task is cancelled
/// before the server has answered. The request goes on: a cancelled sign-in may still sign in. Call
/// `signOut()` to withdraw it.
public final class Auth: Sendable {
  let database: Database
  var repository: Repository { database.repository }

  init(_ database: Database) {
    self.database = database
  }

  /// Returns the accounts of the server of `Database.database()`.
  public static func auth() -> Auth { Auth(.database()) }

  /// Returns the accounts of a database's server. Canopy's own addition.
  public static func auth(database: Database) -> Auth { Auth(database) }

  /// The signed-in user; nil if there is none.
  public var currentUser: User? { repository.session.user?.with(self) }

  /// The token of the session; nil if no user is signed in.
  var token: String? { repository.session.token }

  // MARK: Accounts

  /// Creates an account and signs in.
  ///
  /// The server requires a user name, which Firebase does not. This method chooses a random one;
  /// `updateDisplayName` changes it.
  ///
  /// - Parameter completion: receives the result or an `AuthError`.
  public func createUser(
    withEmail email: String, password: String,
    @_inheritActorContext completion: (
      @Sendable @isolated(any) (AuthDataResult?, (any Error)?) -> Void
    )? = nil
  ) {
    createUser(
      withEmail: email, password: password, username: randomUserName, completion: completion)
  }

  /// Creates an account with a user name and signs in. Canopy's own addition.
  ///
  /// - Parameter username: 1 to 32 ASCII letters, digits, `_` or `-`.
  public func createUser(
    withEmail email: String, password: String, username: String,
    @_inheritActorContext completion: (
      @Sendable @isolated(any) (AuthDataResult?, (any Error)?) -> Void
    )? = nil
  ) {
    report(
      .signUp(email: email, password: password, username: username),
      completion.map { Callback(of: $0) }, Auth.result)
  }

  /// Creates an account and signs in.
  ///
  /// - Throws: `AuthError`.
  @discardableResult
  public func createUser(
    withEmail email: String, password: String
  ) async throws -> AuthDataResult {
    try await createUser(withEmail: email, password: password, username: randomUserName)
  }

  /// Creates an account with a user name and signs in. Canopy's own addition.
  ///
  /// - Throws: `AuthError`.
  @discardableResult
  public func createUser(
    withEmail email: String, password: String, username: String
  ) async throws -> AuthDataResult {
    try await signIn(.signUp(email: email, password: password, username: username))
  }

  /// Signs in.
  ///
  /// - Parameter completion: receives the result or an `AuthError`.
  public func signIn(
    withEmail email: String, password: String,
    @_inheritActorContext completion: (
      @Sendable @isolated(any) (AuthDataResult?, (any Error)?) -> Void
    )? = nil
  ) {
    report(
      .logIn(email: email, password: password), completion.map { Callback(of: $0) }, Auth.result)
  }

  /// Signs in.
  ///
  /// - Throws: `AuthError`.
  @discardableResult
  public func signIn(withEmail email: String, password: String) async throws -> AuthDataResult {
    try await signIn(.logIn(email: email, password: password))
  }

  /// Signs in as the administrator of the server, to whom the security rules do not apply, for
  /// programs that run beside the server. The server's data folder contains the token. Canopy's own
  /// addition.
  ///
  /// - Throws: `AuthError`.
  @discardableResult
  public func signIn(withAdministratorToken token: String) async throws -> AuthDataResult {
    try await signIn(.token(token))
  }

  /// Signs in with the `refreshToken` of an earlier session. Canopy's own addition.
  ///
  /// - Throws: `AuthError`.
  @discardableResult
  public func signIn(withToken token: String) async throws -> AuthDataResult {
    try await signIn(.token(token))
  }

  /// Signs out, at once locally, and on the server if there is a connection.
  ///
  /// A sign-in that is under way does not take effect any more: it fails with `nullUser`.
  public func signOut() throws {
    // Take effect before this returns, even while the network uses the state.
    let (calls, wasSignedIn) = repository.session.signOut()
    repository.use { $0.signedOut(calls, wasSignedIn: wasSignedIn) }
  }

  /// Changes the user name wherever it is shown. Canopy's own addition.
  ///
  /// - Throws: `AuthError`.
  @discardableResult
  public func updateDisplayName(_ name: String) async throws -> AuthDataResult {
    try await signIn(.rename(name))
  }

  /// Changes the password, and ends all other sessions of the account. Canopy's own addition.
  ///
  /// - Throws: `AuthError`.
  @discardableResult
  public func updatePassword(from current: String, to new: String) async throws -> AuthDataResult {
    try await signIn(.password(current: current, new: new))
  }

  // MARK: Listeners

  /// Calls a function with the signed-in user: soon, and whenever the user changes.
  ///
  /// - Returns: the handle for `removeStateDidChangeListener`.
  @discardableResult
  public func addStateDidChangeListener(
    @_inheritActorContext _ listener: @escaping @Sendable @isolated(any) (Auth, User?) -> Void
  ) -> AuthStateDidChangeListenerHandle {
    let database = database
    let callback = Callback(of: listener).map { (user: User?) in
      let auth = Auth(database)
      return (auth, user?.with(auth))
    }
    let added = repository.session.add(callback)
    repository.use { state in state.call(added.call(state.session.user)) }
    return AuthStateDidChangeListenerHandle(added.number)
  }

  /// Calls a function with the signed-in user: soon, and whenever the token of the session changes.
  ///
  /// - Returns: the handle for `removeIDTokenDidChangeListener`.
  @discardableResult
  public func addIDTokenDidChangeListener(
    @_inheritActorContext _ listener: @escaping @Sendable @isolated(any) (Auth, User?) -> Void
  ) -> IDTokenDidChangeListenerHandle {
    let database = database
    let callback = Callback(of: listener).map { (user: User?) in
      let auth = Auth(database)
      return (auth, user?.with(auth))
    }
    let added = repository.session.add(callback, forToken: true)
    repository.use { state in state.call(added.call(state.session.user)) }
    return IDTokenDidChangeListenerHandle(added.number)
  }

  /// Removes a listener.
  public func removeIDTokenDidChangeListener(_ handle: IDTokenDidChangeListenerHandle) {
    repository.session.remove(handle.number)
  }

  /// Removes a listener.
  public func removeStateDidChangeListener(_ handle: AuthStateDidChangeListenerHandle) {
    repository.session.remove(handle.number)
  }

  // MARK: Requests

  var randomUserName: String {
    "user-" + WriteNumbers.name(repository.options.environment.random).suffix(10)
  }
}

/// A signed-in user.
public struct User: Sendable, Equatable {
  /// The unique id of the account.
  public let uid: String
  /// The e-mail address; nil for the administrator and for a user without one.
  public let email: String?
  /// The user name; nil for the administrator and for a user without one.
  public let displayName: String?
  /// Whether the user has neither an e-mail address nor a custom token: see `Auth.signInAnonymously`.
  public let isAnonymous: Bool
  /// Whether the user has proven the e-mail address. `reload` reads it again.
  public let isEmailVerified: Bool
  /// Whether the user is the administrator of the server, to whom the security rules do not apply.
  /// Canopy's own addition.
  public let isAdministrator: Bool
  /// The properties of the account that the server sends only on request.
  let details: UserDetails

  /// The accounts from which the user comes; nil within the library.
  var auth: Auth?

  /// Creates a user. An empty e-mail address or name stands for none.
  init(
    uid: String, email: String?, displayName: String?, isAdministrator: Bool = false,
    isAnonymous: Bool = false, isEmailVerified: Bool = false, details: UserDetails = UserDetails()
  ) {
    self.uid = uid
    self.email = email == "" ? nil : email
    self.displayName = displayName == "" ? nil : displayName
    self.isAdministrator = isAdministrator
    self.isAnonymous = isAnonymous
    self.isEmailVerified = isEmailVerified
    self.details = details
  }

  /// The accounts that carry out the operations of this user.
  var owner: Auth { auth ?? .auth() }

  /// Returns the user with another name.
  func named(_ name: String) -> User {
    User(
      uid: uid, email: email, displayName: name, isAdministrator: isAdministrator,
      isAnonymous: isAnonymous, isEmailVerified: isEmailVerified, details: details)
  }

  /// Returns the user with other details.
  func with(_ details: UserDetails) -> User {
    User(
      uid: uid, email: email, displayName: displayName, isAdministrator: isAdministrator,
      isAnonymous: isAnonymous, isEmailVerified: isEmailVerified, details: details)
  }

  /// The uid, compared by its bytes.
  var identity: ByteString { ByteString(uid) }

  /// Returns the user with its accounts, for the application.
  func with(_ auth: Auth) -> User {
    var user = self
    user.auth = auth
    return user
  }

  /// Whether both have the same properties, apart from `metadata` and `providerData`.
  public static func == (a: User, b: User) -> Bool {
    a.identity == b.identity && a.email == b.email && a.displayName == b.displayName
      && a.isAdministrator == b.isAdministrator && a.isAnonymous == b.isAnonymous
      && a.isEmailVerified == b.isEmailVerified && a.details.photoURL == b.details.photoURL
  }

  static let administrator = User(
    uid: "administrator", email: nil, displayName: nil, isAdministrator: true)
}

/// The result of a sign-in or a sign-up.
public struct AuthDataResult: Sendable, Equatable {
  /// The user who is signed in now.
  public let user: User
  /// Whether a sign-in created the user, and how; nil for a change of the account.
  public let additionalUserInfo: AdditionalUserInfo?
}
