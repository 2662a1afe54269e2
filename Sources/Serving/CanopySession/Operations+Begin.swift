public import CanopyAccounts
public import CanopyEngine
public import CanopyWire

/// Requests that take a task of their own: the same for every front end.
extension Operations {
  /// Takes the outcome of a request, on any thread. Called once.
  public typealias OutcomeHandler = @Sendable (Session.Completion) -> Void

  /// Begins a request about an account.
  ///
  /// - Parameters:
  ///   - address: the remote address of the connection, by which logins and sign-ups are limited.
  ///   - armed: the on-disconnect writes that the connection has.
  /// - Returns: the task that carries out the request.
  public func begin(
    _ request: AccountRequest, as identity: Identity, from address: String, _ armed: [ArmedWrite],
    _ completion: @escaping OutcomeHandler
  ) -> Task<Void, Never> {
    Task { completion(await account(request, as: identity, from: address, armed)) }
  }

  /// Begins a request of the administrator.
  ///
  /// - Parameters:
  ///   - client: the number of its connection; nil for one without a number.
  ///   - address: the remote address of its connection, for the log.
  public func begin(
    _ request: AdministrationRequest, as identity: Identity, on client: Int64? = nil,
    from address: String = "", _ completion: @escaping OutcomeHandler
  ) {
    Task {
      completion(await administration(request, as: identity, on: client, from: address))
    }
  }

  /// Begins a request about the connection.
  ///
  /// - Parameters:
  ///   - armed: the on-disconnect writes that the connection has.
  ///   - login: the login of an administrator who has used a pass; nil for another caller.
  ///   - address: the remote address of the connection.
  ///   - turns: the connection and its network.
  public func begin(
    _ request: ConnectionRequest, as identity: Identity, from address: String,
    turns: TurnGroup? = nil, _ armed: [ArmedWrite], in login: AdministratorLogin?,
    _ completion: @escaping OutcomeHandler
  ) {
    switch request {
    case .quit:
      var farewell = Session.Completion(.farewell)
      farewell.closes = true
      completion(farewell)
    case .use(let name): Task { completion(await use(name, turns)) }
    case .onDisconnect(let request, let text):
      let owner = quotaOwner(identity, at: address, turns)
      do throws(WireError) {
        try admit(onDisconnect: request, bytes: text.utf8.count, as: identity, for: owner)
      } catch {
        return completion(Session.Completion(error))
      }
      Task {
        completion(
          await onDisconnect(
            request, text: text, as: identity, armed, in: login, for: owner, turns: turns))
      }
    }
  }
}

extension AccountRequest {
  /// Whether the request is cancelled when its connection is gone.
  ///
  /// The end of a session counts even if the client cuts the connection: a thief must not keep a login
  /// that its owner has just ended.
  public var endsWithConnection: Bool {
    switch self {
    case .changePassword, .changeCredentials, .resetPassword, .deleteAccount, .logOut: false
    case .signUp, .signUpAnonymously, .logIn, .logInCustom, .issueCustomToken, .authenticate,
      .redeemPass, .confirm, .account, .export, .identityToken, .forgotPassword, .verifyEmail:
      true
    }
  }
}
