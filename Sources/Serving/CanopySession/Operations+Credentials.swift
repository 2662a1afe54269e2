internal import CanopyAccounts
public import CanopyEngine
public import CanopyIdentity
internal import CanopySocial
internal import CanopyTree
public import CanopyWire
internal import Logging

/// Requests about an account and its credentials, besides sign-up, login and the change of a known password.
extension Operations {
  /// Carries out such a request.
  ///
  /// - Parameters:
  ///   - network: the network of the connection, by which logins and sign-ups are limited.
  ///   - keeper: the on-disconnect writes of the connection.
  func credentials(
    _ request: AccountRequest, as identity: Identity, from network: RemoteNetwork,
    _ keeper: ArmedWriteKeeper
  ) async throws -> Session.Completion {
    switch request {
    case .account: return try await account(of: identity)
    case .signUpAnonymously:
      return try await openSession {
        try await accounts.beginSignUp(AccountDraft(), from: network).session
      }
    case .logInCustom(let token):
      let service = try requiredService()
      return try await openSession {
        try await service.beginSession(
          customToken: token, from: network, in: computing(for: turns(of: network)))
      }
    case .issueCustomToken(let uid, let claims):
      try requireAdministrator(identity)
      let service = try requiredService()
      let token = try await service.makeCustomToken(uid: uid, claims: claims)
      logger.notice("the administrator has made a custom token", metadata: ["uid": "\(uid)"])
      return Session.Completion(.json(["token": .text(token)]))
    case .confirm(let email, let password):
      let uid = try user(identity)
      return try await renewSession(of: identity, byChange: false, keeper) {
        try await accounts.confirm(
          uid: uid.text, session: identity.session?.token ?? "", email: email, password: password,
          from: network)
      }
    case .changeCredentials(let email, let password):
      return try await changeCredentials(email, password, as: identity, from: network, keeper)
    case .deleteAccount(let withPosts):
      return try await deleteAccount(of: identity, withPosts: withPosts)
    case .export(let page):
      return Session.Completion(try await export(page, of: try user(identity), from: network))
    case .identityToken:
      _ = try user(identity)
      let (text, end) = try await requiredService()
        .identityToken(for: identity.session?.token ?? "")
      return Session.Completion(.json(["token": .text(text), "expires": .number(end)]))
    case .forgotPassword(let email):
      try await requiredService().sendCode(to: email, .resetPassword, from: network)
      return Session.Completion(.null)
    case .resetPassword(let code, let new):
      return try await resetPassword(code: code, new: new, from: network)
    case .verifyEmail(let code?):
      let account = try await accounts.verifyEmail(code: code, from: network)
      return Session.Completion(.json(["email": .text(account.email)]))
    case .verifyEmail(nil):
      let email = try await accounts.account(.uid(try user(identity).text)).email
      guard !email.isEmpty else { throw WireError.addressNeeded }
      try await requiredService().sendCode(to: email, .verifyEmail, from: network)
      return Session.Completion(.null)
    case .signUp, .logIn, .authenticate, .redeemPass, .logOut, .changePassword:
      throw WireError(.internalError, "the request was given to the wrong operation")
    }
  }

  /// Returns the service of identity tokens.
  ///
  /// - Throws: `WireError` for a server without it.
  private func requiredService() throws(WireError) -> IdentityService {
    guard let identityService else {
      throw WireError(
        .notFound, reason: .notOffered, "this server has no identity tokens; ask its administrator")
    }
    return identityService
  }

  private func account(of identity: Identity) async throws -> Session.Completion {
    let uid = try user(identity)
    let account = try await accounts.account(.uid(uid.text))
    return Session.Completion(
      .json([
        "uid": .key(uid), "username": .text(Users.username(of: uid, in: engine.root) ?? ""),
        "email": .text(account.email), "provider": .text(account.provider),
        "verified": .bool(account.details.isEmailVerified),
        "createdAt": .number(account.createdAt),
      ]))
  }

  private func changeCredentials(
    _ email: String?, _ password: String?, as identity: Identity, from network: RemoteNetwork,
    _ keeper: ArmedWriteKeeper
  ) async throws -> Session.Completion {
    let uid = try user(identity)
    let login = try await requiredService().recentIdentity(of: identity.session?.token ?? "")
    if email == nil, try await accounts.account(.uid(uid.text)).email.isEmpty {
      throw WireError.addressNeeded
    }
    var changes = AccountChanges()
    changes.email = email.map { .set($0) }
    changes.password = password.map { .set($0) }
    return try await renewSession(of: identity, byChange: true, keeper) { [changes] in
      let account = try await accounts.update(
        uid.text, changes, loginTime: login.endableLoginTime, from: network)
      if account.details.validSince > login.loginTime {
        // The subscriptions of this connection are authorized when it has the new session.
        await reauthorize(sessions.revokeAll(uid).filter { $0 !== identity.session })
      }
      guard let next = try await accounts.login(account) else { throw WireError.sessionEnded }
      return next.session
    }
  }

  private func deleteAccount(
    of identity: Identity, withPosts: Bool
  ) async throws -> Session.Completion {
    let uid = try user(identity)
    _ = try await requiredService().recentIdentity(of: identity.session?.token ?? "")
    try await deleteAccount(uid, withPosts: withPosts, pendingMax: Erasure.pendingMax)
    logger.notice(
      "a user has deleted their own account",
      metadata: ["uid": "\(uid)", "posts": "\(withPosts)"])
    return Session.Completion(.null, identity: .anonymous)
  }

  private func resetPassword(
    code: String, new: String?, from network: RemoteNetwork
  ) async throws -> Session.Completion {
    let record: CodeRecord
    if let new {
      record = try await revokingIfUncertain {
        try await accounts.resetPassword(code: code, new: new, from: network)
      }
      await reauthorize(sessions.revokeAll(try Key(record.uid)))
    } else {
      record = try await accounts.checkCode(code, .resetPassword, from: network)
    }
    return Session.Completion(.json(["email": .text(record.email)]))
  }
}

extension WireError {
  fileprivate static let addressNeeded = WireError(
    .invalidData, reason: .missingEmail, "the account has no e-mail address; set one first")
}

/// The credentials that an emulator accepts, and that everybody knows.
extension Operations {
  /// The credential of the administrator of an emulator, as official Admin libraries send it.
  public static let emulatorOwner = "owner"

  /// Whether only an emulator accepts a credential: that of its administrator, or a token without a signature.
  public static func isOfEmulator(_ credential: String) -> Bool {
    credential == emulatorOwner || IdentityService.lacksSignature(credential)
  }

  /// The error for a web page of a foreign site that uses an emulator.
  public static let foreignPage = WireError(
    .unauthenticated,
    "pages of this origin may not use an emulator; allow it with --allow-origin")
}

/// The turns of requests about accounts and tokens.
extension Operations {
  /// Returns the group in which requests of a network take turns, for requests whose connection is not known; nil for this
  /// machine, where each request has turns of its own.
  func turns(of network: RemoteNetwork) -> TurnGroup? {
    guard !network.isThisMachine else { return nil }
    return TurnGroup(network: "\(network)", connection: ObjectIdentifier(memory))
  }

  /// Returns the turns of the steps of an identity request that compute: those of `decodeBeside` from `longTextBytes` on,
  /// and those of `shortWork` for fewer.
  ///
  /// - Parameters:
  ///   - group: the connection and its network, which share their turns; nil for a request of its own.
  ///   - waits: the waits of the request, if it runs in a task that is not cancelled with its connection; else nil.
  public func computing(for group: TurnGroup?, waits: TurnWaits? = nil) -> ComputingTurns {
    ComputingTurns { [self] bytes, step in
      guard let waits else { return try await compute(bytes, group, step) }
      try await waits.run { [self] in try await compute(bytes, group, step) }
    }
  }

  private func compute(
    _ bytes: Int, _ group: TurnGroup?, _ step: @escaping @Sendable () -> Void
  ) async throws {
    if bytes >= Operations.longTextBytes {
      try await decodeBeside(bytes: bytes, group) { _ in step() }
    } else {
      try await shortWork.withTurn(of: group) { step() }
    }
  }
}
