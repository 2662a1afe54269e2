public import CanopyAccounts

/// Requests of front ends whose connections have sessions: without the forms of HTTP.
extension IdentityService {
  /// Returns the session of a user for whom an administrator has made a custom token. Creates the account if it does
  /// not exist.
  ///
  /// - Parameters:
  ///   - text: the custom token.
  ///   - network: the network of the caller, for the limit of logins.
  ///   - turns: admit the caller to verify the signature.
  /// - Throws: ``IdentityProblem/invalidCustomToken``; an `AccountError`; an error of the store.
  public func beginSession(
    customToken text: String, from network: RemoteNetwork, in turns: ComputingTurns = .immediate
  ) async throws -> Session {
    try await beginLogin(customToken: text, from: network, in: turns).login.session
  }

  /// Returns an identity token for a session; the credential itself if it is an identity token.
  ///
  /// - Parameter credential: the token of a session, or an identity token.
  /// - Returns: the token, and its end in milliseconds since 1970.
  /// - Throws: ``IdentityProblem``; an error of the store.
  public func identityToken(
    for credential: String
  ) async throws -> (text: String, expiresAt: Int64) {
    guard TokenDigest(token: credential) != nil else {
      return (credential, try await verify(credential).expiresAt)
    }
    do {
      let login = try await accounts.refresh(credential)
      let (end, overflow) = environment.now()
        .addingReportingOverflow(settings.tokenLifetimeMilliseconds)
      return (try idToken(for: login), overflow ? .max : end)
    } catch AccountError.tokenRefused {
      throw IdentityProblem.revoked
    }
  }

  /// Returns the identity of a credential if its login is recent enough for a change that a stolen token must not make.
  ///
  /// - Parameter credential: the token of a session, or an identity token.
  /// - Throws: ``IdentityProblem``, with ``IdentityProblem/loginTooOld`` for an earlier login; an error of the store.
  public func recentIdentity(of credential: String) async throws -> VerifiedIdentity {
    let identity = try await identify(credential)
    try await requireRecentLogin(identity)
    return identity
  }

  /// Makes a code for an e-mail address and gives it to the administrator's log of codes. Does nothing if no active
  /// account has the address, or if the account has as many valid codes as it may, and does not reveal that.
  ///
  /// - Throws: the errors of `AccountService.issueCode`. A code for a new password is made after the return, so an
  ///   error of the store is only logged then, unless the server is an emulator.
  public func sendCode(
    to email: String, _ purpose: CodePurpose, from network: RemoteNetwork
  ) async throws {
    try accounts.admitCode(for: email, from: network)
    guard waitingCodes.enter() else { throw AccountError.overloaded }
    // A request for a new password does not wait for the store: its time would reveal whether there is an account. The
    // programs that test with an emulator expect the code at once.
    let mustWait = settings.isEmulator || purpose == .verifyEmail
    let work = Task { [self] in
      defer { waitingCodes.leave() }
      do {
        let code = try await accounts.issueCode(
          for: email, purpose, from: nil, isBounded: !settings.isEmulator)
        if let code { report(code) }
      } catch {
        if !mustWait { report(failure: error) }
        throw error
      }
    }
    if mustWait { try await work.value }
  }
}
