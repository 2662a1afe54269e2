internal import Synchronization

/// What tells a listener of the session from all others: to be handed to `removeStateDidChangeListener`.
public final class AuthStateDidChangeListenerHandle: Sendable {
  let number: Int

  init(_ number: Int) {
    self.number = number
  }
}

/// Who uses a database: accounts, logins, and the present user.
///
/// A login is of the database's connection, and is renewed on every later one with the token that the
/// server gave; there is no password kept. Everything that was written before a sign-out and has not
/// reached the server yet is sent as whoever is signed in then. Safe to use from any thread. The
/// functions that are handed over are called on the database's `callbackQueue`.
public final class Auth: Sendable {
  private let database: Database
  private var repository: Repository { database.repository }

  init(_ database: Database) {
    self.database = database
  }

  /// The accounts of the server of `Database.database()`.
  public static func auth() -> Auth { Auth(.database()) }

  /// The accounts of a database's server. Canopy's own addition.
  public static func auth(database: Database) -> Auth { Auth(database) }

  /// Who is signed in; nil if nobody is.
  public var currentUser: User? { repository.session.user }

  // MARK: Accounts

  /// Opens an account and signs in.
  ///
  /// The server asks for a user name, which the original does not: this draws one by chance, which can
  /// be changed with `updateDisplayName`.
  ///
  /// - Parameter completion: the result or an `AuthError`.
  public func createUser(
    withEmail email: String, password: String,
    completion: ((AuthDataResult?, (any Error)?) -> Void)? = nil
  ) {
    createUser(
      withEmail: email, password: password, username: drawnName, completion: completion)
  }

  /// Opens an account with a user name and signs in. Canopy's own addition.
  ///
  /// - Parameter username: 1 to 32 ASCII letters, digits, `_` or `-`.
  public func createUser(
    withEmail email: String, password: String, username: String,
    completion: ((AuthDataResult?, (any Error)?) -> Void)? = nil
  ) {
    ask(.signUp(email: email, password: password, username: username), completion)
  }

  /// Opens an account and signs in.
  ///
  /// - Throws: `AuthError`.
  @discardableResult
  public func createUser(
    withEmail email: String, password: String
  ) async throws -> AuthDataResult {
    try await createUser(withEmail: email, password: password, username: drawnName)
  }

  /// Opens an account with a user name and signs in. Canopy's own addition.
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
  /// - Parameter completion: the result or an `AuthError`.
  public func signIn(
    withEmail email: String, password: String,
    completion: ((AuthDataResult?, (any Error)?) -> Void)? = nil
  ) {
    ask(.logIn(email: email, password: password), completion)
  }

  /// Signs in.
  ///
  /// - Throws: `AuthError`.
  @discardableResult
  public func signIn(withEmail email: String, password: String) async throws -> AuthDataResult {
    try await signIn(.logIn(email: email, password: password))
  }

  /// Signs in as the administrator of the server, whom the security rules do not bind: for programs that
  /// run beside the server. The token stands in the server's data folder. Canopy's own addition.
  ///
  /// - Throws: `AuthError`.
  @discardableResult
  public func signIn(withAdministratorToken token: String) async throws -> AuthDataResult {
    try await signIn(.token(token))
  }

  /// Signs in with the token of a session that the server gave before. Canopy's own addition.
  ///
  /// - Throws: `AuthError`.
  @discardableResult
  public func signIn(withToken token: String) async throws -> AuthDataResult {
    try await signIn(.token(token))
  }

  /// Signs out, here at once; the server is told if it can be.
  public func signOut() throws {
    guard repository.session.user != nil else { return }
    // Before this returns, also while the network is using the state.
    let told = repository.session.set(nil, token: nil)
    repository.use { state in
      // An answer that was taken meanwhile is one to what was asked before.
      state.sessionHasChanged(told + state.session.set(nil, token: nil))
      if state.phase.isReady { state.ask(.logOut) { _, _ in } }
    }
  }

  /// Changes the name under which others know this person, wherever it is shown. Canopy's own addition.
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

  /// Has a function called with who is signed in: soon, and whenever somebody else is.
  ///
  /// - Returns: what to hand to `removeStateDidChangeListener`.
  @discardableResult
  public func addStateDidChangeListener(
    _ listener: @escaping (Auth, User?) -> Void
  ) -> AuthStateDidChangeListenerHandle {
    let callback = Callback<(Auth, User?)> { listener($0.0, $0.1) }
    let database = database
    let body: @Sendable (User?) -> Void = { user in callback.body((Auth(database), user)) }
    let number = repository.session.add(body)
    repository.use { state in
      let user = state.session.user
      state.call { body(user) }
    }
    return AuthStateDidChangeListenerHandle(number)
  }

  /// Ends the calls of a listener.
  public func removeStateDidChangeListener(_ handle: AuthStateDidChangeListenerHandle) {
    repository.session.remove(handle.number)
  }

  // MARK: Asking

  private var drawnName: String {
    "user-" + WriteNumbers.name(repository.options.environment.random).suffix(10)
  }

  private func ask(
    _ kind: SessionRequest.Kind, _ completion: ((AuthDataResult?, (any Error)?) -> Void)?
  ) {
    let callback = completion.map { completion in
      Callback<Result<AuthDataResult, AuthError>> { result in
        switch result {
        case .success(let result): completion(result, nil)
        case .failure(let error): completion(nil, error)
        }
      }
    }
    ask(kind) { result, state in
      guard let callback else { return }
      state.call { callback.body(result.flatMap { Auth.result($0) }) }
    }
  }

  private func signIn(_ kind: SessionRequest.Kind) async throws -> AuthDataResult {
    try await withCheckedThrowingContinuation { continuation in
      ask(kind) { result, _ in
        continuation.resume(with: result.flatMap { Auth.result($0) })
      }
    }
  }

  private func ask(
    _ kind: SessionRequest.Kind, answer: @escaping Answer<Result<User?, AuthError>>
  ) {
    let problem = database.problem
    repository.use { state in
      if let problem {
        answer(.failure(AuthError(.networkError, problem.sentence)), state)
      } else {
        state.ask(kind, answer: answer)
      }
    }
  }

  private static func result(_ user: User?) -> Result<AuthDataResult, AuthError> {
    user.map { .success(AuthDataResult(user: $0)) }
      ?? .failure(AuthError(.noCurrentUser, "nobody is signed in"))
  }
}
