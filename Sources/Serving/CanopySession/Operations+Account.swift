internal import CanopyAccounts
internal import CanopyEngine
internal import CanopyIdentity
internal import CanopySocial
internal import CanopyTree
public import CanopyWire
internal import Logging
internal import Synchronization

/// Requests that wait for a password hash, the store or the engine.
extension Operations {
  /// Carries out a request about an account.
  ///
  /// - Parameters:
  ///   - address: the remote address of the connection, by which logins and sign-ups are limited.
  ///   - armed: the on-disconnect writes of the connection.
  public func account(
    _ request: AccountRequest, as identity: Identity, from address: String,
    _ armed: [ArmedWrite] = []
  ) async -> Session.Completion {
    // All namespaces have the accounts of the default one, and on-disconnect writes of their own.
    let keeper = ArmedWriteKeeper(writes: armed, store: disconnectStore)
    do {
      return try await (home ?? self).perform(request, as: identity, from: address, keeper)
    } catch {
      return Session.Completion(storeError(error))
    }
  }

  private func perform(
    _ request: AccountRequest, as identity: Identity, from address: String,
    _ keeper: ArmedWriteKeeper
  ) async throws -> Session.Completion {
    if case .administrator = identity {
      if case .export = request { throw WireError.accountNeeded("EXPORT") }
      if case .deleteAccount = request { throw WireError.accountNeeded("DELETEUSER") }
    }
    switch request {
    case .signUp(let email, let password, let username):
      return try await signUp(email: email, password: password, username: username, from: address)
    case .logIn(let email, let password):
      return try await openSession {
        try await accounts.logIn(email: email, password: password, from: RemoteNetwork(address))
      }
    case .authenticate(let token):
      if administratorToken.matches(token) {
        logger.notice("the administrator has logged in", metadata: ["from": "\(address)"])
        return Session.Completion(.administrator, identity: .administrator)
      }
      return try await openSession(of: token, from: address)
    case .redeemPass(let token): return try redeemPass(token, from: address)
    case .logOut:
      var completion = Session.Completion(.null, identity: .anonymous)
      if case .user(let session) = identity {
        if session.isRevocable {
          try await accounts.logOut(session.token)
          accountMarks?.add(session.uid.text)
          await reauthorize(sessions.revoke(session.uid, token: session.token))
        } else {
          // An identity token stays valid until it expires. Only this connection drops it, with what it has armed.
          completion.armed = try await keeper.remove(of: session)
        }
      }
      return completion
    case .changePassword(let current, let new):
      return try await changePassword(from: current, to: new, as: identity, at: address, keeper)
    case .account, .signUpAnonymously, .logInCustom, .issueCustomToken, .confirm,
      .changeCredentials, .deleteAccount, .export, .identityToken, .forgotPassword, .resetPassword,
      .verifyEmail:
      return try await credentials(request, as: identity, from: RemoteNetwork(address), keeper)
    }
  }

  private func changePassword(
    from current: String, to new: String, as identity: Identity, at address: String,
    _ keeper: ArmedWriteKeeper
  ) async throws -> Session.Completion {
    let uid = try user(identity)
    return try await renewSession(of: identity, byChange: true, keeper) {
      let session = try await accounts.changePassword(
        uid: uid.text, session: identity.session?.token ?? "", current: current, new: new,
        from: RemoteNetwork(address))
      // The subscriptions of this connection are authorized when it has the new session.
      await reauthorize(sessions.revokeAll(uid).filter { $0 !== identity.session })
      return session
    }
  }

  /// Gives the connection the session that `open` opens, in place of an earlier session of the same user. The
  /// on-disconnect writes of the earlier session belong to the new one from then on, also in the store: after a crash
  /// they are made only if the new session is still valid.
  ///
  /// If that fails, the earlier session may have ended all the same. Then its subscriptions end too.
  ///
  /// - Parameters:
  ///   - identity: the user of the connection.
  ///   - isChange: whether `open` also changes the account, so that a failure after it is uncertain.
  ///   - keeper: the on-disconnect writes of the connection.
  ///   - open: opens the session. It may end the others of the user.
  func renewSession(
    of identity: Identity, byChange isChange: Bool, _ keeper: ArmedWriteKeeper,
    _ open: () async throws -> CanopyAccounts.Session
  ) async throws -> Session.Completion {
    let own = identity.session
    do {
      return try await revokingIfUncertain {
        let completion = try await openSession(open)
        guard let own, let session = completion.identity?.session else { return completion }
        do {
          try await keeper.move(from: own, to: session)
        } catch {
          // The client does not learn the new token.
          sessions.remove(session)
          throw isChange ? UncertainChange(uid: session.uid.text, reason: error) : error
        }
        own.isSucceeded(by: session)
        return completion
      }
    } catch {
      // The registry has revoked it, and its caller has left its subscriptions to the new session.
      if let own, !own.isValid(at: now()) { await reauthorize([own]) }
      throw error
    }
  }

  /// Returns the result of a step that may end the logins of a user. If it is uncertain whether the step has ended them,
  /// revokes them: the store may have ended them before it failed.
  func revokingIfUncertain<Result>(_ step: () async throws -> Result) async throws -> Result {
    do {
      return try await step()
    } catch let error as UncertainChange {
      if let uid = try? Key(error.uid) { await reauthorize(sessions.revokeAll(uid)) }
      throw error
    }
  }

  private func signUp(
    email: String, password: String, username: String, from address: String
  ) async throws -> Session.Completion {
    try Texts.checkUsername(username)
    return try await openSession {
      try await accounts.signUp(
        email: email, password: password, username: username, from: RemoteNetwork(address),
        claim: claim(of: username))
    }
  }

  /// Returns the closure that creates the profile of a new account.
  func claim(of username: String) -> AccountService.Claim {
    { [engine = (home ?? self).engine] uid in
      do {
        _ = try await engine.transact { try Users.claim(username, for: Key(uid), in: &$0) }
      } catch SocialError.conflict {
        // The same answer as for an address that is taken: see `AccountError.taken`.
        throw AccountError.taken
      } catch EngineError.outcomeUnknown {
        throw UncertainClaim(EngineError.outcomeUnknown)
      }
    }
  }

  /// Makes the session of a session token or of an identity token the session of the connection.
  private func openSession(
    of token: String, from address: String
  ) async throws -> Session.Completion {
    guard let service = identityService else {
      return try await openSession { try await accounts.authenticate(token) }
    }
    let counts = sessions.counts
    guard TokenDigest(token: token) == nil else {
      let identity = try await service.identity(ofSession: token)
      return try await hold(try UserSession(identity, token: token), since: counts) {
        _ = try await accounts.authenticate(token)
      }
    }
    let verified = try await service.verify(
      token, in: computing(for: turns(of: RemoteNetwork(address))))
    return try await hold(try UserSession(verified, token: token), since: counts) {
      try await service.check(verified)
    }
  }

  /// Makes the session that `open` opens the session of the connection.
  func openSession(
    _ open: () async throws -> CanopyAccounts.Session
  ) async throws -> Session.Completion {
    let counts = sessions.counts
    let session = try await open()
    let login: UserSession
    if let service = identityService {
      // The rules see the claims that an identity token of the session has.
      login = try UserSession(
        try await service.identity(ofSession: session.token), token: session.token)
    } else {
      login = UserSession(
        uid: try Key(session.uid), email: session.email, token: session.token,
        expiresAt: session.expiresAt, provider: session.provider)
    }
    return try await hold(login, since: counts) {
      _ = try await accounts.authenticate(login.token)
    }
  }

  /// Makes a login the session of the connection.
  ///
  /// - Parameters:
  ///   - counts: the counts of the registry before the token was checked.
  ///   - check: checks the token again.
  private func hold(
    _ login: UserSession, since counts: SessionRegistry.Counts, _ check: () async throws -> Void
  ) async throws -> Session.Completion {
    sessions.add(login)
    let present = sessions.counts
    // The account may have changed before the registry knew of the login.
    if present.changes != counts.changes { login.noteChange() }
    if present.revocations != counts.revocations {
      // The token may have been revoked before the registry knew of the login.
      do { try await check() } catch {
        sessions.remove(login)
        throw error
      }
    }
    let members =
      description(of: login, in: engine.root) + [
        ("token", .text(login.token)), ("expires", .number(login.expiresAt)),
      ]
    return Session.Completion(.json(.object(members)), identity: .user(login))
  }

  /// Authorizes the listeners of ended sessions again. When this returns, the listeners that may no longer listen are
  /// cancelled, so they are notified of no write that begins later.
  public func reauthorize(_ sessions: [UserSession]) async {
    await Operations.reauthorize(sessions, in: [(home ?? self).engine] + namespaces.engines)
  }

  /// Authorizes the listeners of ended sessions again in several engines. All engines check their events from now on.
  static func reauthorize(_ sessions: [UserSession], in engines: [Engine]) async {
    guard let last = sessions.last, !engines.isEmpty else { return }
    let done = EnginesDone()
    await withCheckedContinuation { continuation in
      for engine in engines {
        for session in sessions.dropLast() { engine.reauthorize(ObjectIdentifier(session)) }
        // The engine carries them out in this order.
        engine.reauthorize(
          ObjectIdentifier(last),
          completion: { if done.add() == engines.count { continuation.resume() } })
      }
    }
  }

  /// Returns the error for the client. An error that no module declares comes from the store.
  func storeError(_ error: any Error) -> WireError {
    let known = WireError(error)
    if let known, !(error is UncertainChange) { return known }
    // A client that is gone cancels its request. That is not a fault.
    if !Task.isCancelled {
      logger.error("the store failed", metadata: ["error": "\(error)"])
    }
    if let known { return known }
    return WireError(.unavailable, "the store cannot be read or written now; try again later")
  }
}

/// The number of engines that have carried out a request.
private final class EnginesDone: Sendable {
  private let count = Atomic(0)

  /// Counts one more, and returns the number.
  func add() -> Int { count.add(1, ordering: .acquiringAndReleasing).newValue }
}
