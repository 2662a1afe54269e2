import Synchronization

extension AccountService {
  /// Returns a new session for a caller that knows the password.
  ///
  /// Costs one hash, or two if the stored hash has other parameters than the current ones. Then it is replaced.
  ///
  /// - Parameters:
  ///   - email: the address, in any spelling with the same normalized form.
  ///   - password: the password as typed.
  ///   - remote: the network of the caller, for the limits.
  /// - Throws: ``AccountError/invalidEmail``; ``AccountError/credentialsRefused`` for a wrong
  ///   password, an unknown address and an unfinished sign-up alike;
  ///   ``AccountError/disabled`` for the right password of a disabled account;
  ///   ``AccountError/rateLimited(retryAfterMilliseconds:)`` after too many attempts from the
  ///   network, or too many failures in a row for the address; ``AccountError/overloaded``.
  public func logIn(
    email: String, password: String, from remote: RemoteNetwork
  ) async throws -> Session {
    try await beginLogin(email: email, password: password, from: remote).session
  }

  /// Does the same as ``logIn(email:password:from:)``, and returns the account too.
  public func beginLogin(
    email: String, password: String, from remote: RemoteNetwork
  ) async throws -> Login {
    guard let email = EmailAddress(email) else { throw AccountError.invalidEmail }
    try countLogin(from: remote)
    for _ in 0..<Self.roundsMax {
      let account = try await verified(
        .email(email.normalized), password: password, from: remote
      ) {
        try await store.account(emailNormalized: email.normalized)
      }
      // Nil if the account has changed since it was read. Then it is read again.
      let now = environment.now()
      if let session = try await issueSession(for: account, at: now) {
        await renewHash(of: account, password: password, for: remote)
        return Login(session: session, account: account, at: now)
      }
    }
    throw AccountError.credentialsRefused
  }

  /// Returns the session of a token.
  ///
  /// - Throws: ``AccountError/tokenRefused`` for a malformed, unknown, expired or revoked token, and for a token of a
  ///   disabled account.
  public func authenticate(_ token: String) async throws -> Session {
    guard let token = SessionToken(token), let found = try await store.token(token.digest),
      environment.now() < found.token.expiresAt, found.account.isActive
    else { throw AccountError.tokenRefused }
    return Session(found.account, found.token, token: token.text)
  }

  /// Returns the session of a token with its account. Notes the use of the account once in an hour.
  ///
  /// - Throws: ``AccountError/tokenRefused``, as ``authenticate(_:)`` does.
  public func refresh(_ token: String) async throws -> Login {
    let login = try await login(ofSession: token)
    let now = environment.now()
    let noted = login.account.details.lastRefreshAt ?? .min
    if now.subtractingSaturated(noted) >= Self.refreshNoteMilliseconds {
      _ = try await store.change(uid: login.account.uid, revokingTokens: false) {
        $0.details.lastRefreshAt = now
        return true
      }
    }
    return login
  }

  /// Returns the session of a token with its account. One look-up, without a change.
  ///
  /// - Throws: ``AccountError/tokenRefused``, as ``authenticate(_:)`` does.
  public func login(ofSession token: String) async throws -> Login {
    let now = environment.now()
    guard let token = SessionToken(token), let found = try await store.token(token.digest),
      now < found.token.expiresAt, found.account.isActive
    else { throw AccountError.tokenRefused }
    let began = found.token.expiresAt.subtractingSaturated(settings.tokenLifetimeMilliseconds)
    let session = Session(found.account, found.token, token: token.text)
    return Login(
      session: session, account: found.account, began: max(began, found.account.createdAt))
  }

  private static let refreshNoteMilliseconds: Int64 = 60 * 60 * 1_000

  /// Whether a token is valid: it is known, neither expired nor revoked, and its account is neither disabled nor
  /// pending. One look-up. Throws only errors of the store.
  public func isValid(_ digest: TokenDigest) async throws -> Bool {
    guard let found = try await store.token(digest) else { return false }
    return environment.now() < found.token.expiresAt && found.account.isActive
  }

  /// Whether an account exists and is neither disabled nor pending. One look-up. Throws only errors of the store.
  public func isActive(uid: String) async throws -> Bool {
    try await store.account(uid: uid)?.isActive ?? false
  }

  /// Revokes a token. Does nothing if the token is not valid.
  public func logOut(_ token: String) async throws {
    guard let token = SessionToken(token) else { return }
    try await store.deleteToken(token.digest)
  }

  /// Removes the tokens that expired ``AccountSettings/expiredTokenMilliseconds`` ago and expired codes from the store,
  /// and forgets deleted accounts after a day, at most ``AccountSettings/purgeBatchMax`` of each. Call regularly, and again
  /// at once while it returns a number above 0.
  ///
  /// - Returns: the number of tokens, codes and deleted accounts that were removed.
  public func purgeExpiredTokens() async throws -> Int {
    let (now, limit) = (environment.now(), max(1, settings.purgeBatchMax))
    let tokens = try await store.purgeExpired(
      now: now.subtractingSaturated(settings.expiredTokenMilliseconds), limit: limit)
    let deleted = try await store.purgeDeleted(
      until: now.subtractingSaturated(Self.deletedMilliseconds), limit: limit)
    return try await tokens + deleted + store.purgeExpiredCodes(now: now, limit: limit)
  }

  /// The time for which a deleted account is remembered, in milliseconds: a day. A custom token is valid for an hour, and
  /// longer if the clock is set back.
  private static let deletedMilliseconds: Int64 = 24 * 60 * 60 * 1_000

  /// The maximum number of checks in one operation. A check is repeated if the account changes while its password is
  /// hashed, which two simultaneous logins can cause once.
  static let roundsMax = 3

  /// Counts a login from a network.
  ///
  /// Does not count logins from this machine: behind a local proxy there may be many people, and one of them must not
  /// use up the logins of the others. The hasher still bounds their hashes.
  ///
  /// - Parameter cost: the number of logins to count.
  /// - Throws: ``AccountError/rateLimited(retryAfterMilliseconds:)``.
  func countLogin(from remote: RemoteNetwork, cost: Int = 1) throws {
    guard !remote.isThisMachine else { return }
    let now = environment.now()
    if let wait = loginLimiter.withLock({ $0.take(remote, cost: cost, now: now) }) {
      throw AccountError.rateLimited(retryAfterMilliseconds: wait)
    }
  }

  /// Returns a new session; nil if the account has changed since its password was checked.
  ///
  /// - Parameters:
  ///   - account: the account.
  ///   - customClaims: the claims of the custom token of the login; see ``TokenRecord/customClaims``.
  ///   - time: the time of the login in milliseconds since 1970; nil for the present time.
  func issueSession(
    for account: Account, customClaims: String? = nil, at time: Int64? = nil
  ) async throws -> Session? {
    let token = SessionToken.make(random: environment.random)
    let now = time ?? environment.now()
    let record = record(of: token, for: account, customClaims: customClaims, at: now)
    let ended = try await store.insertToken(
      record, ifPasswordHash: account.passwordHash, loginAt: now,
      countMax: max(1, settings.sessionsPerAccountMax))
    guard let ended else { return nil }
    await noteEnd(of: ended, of: account.uid)
    return Session(account, record, token: token.text)
  }

  /// Returns the record of a new token of an account.
  ///
  /// - Parameter now: the time of the login in milliseconds since 1970.
  func record(
    of token: SessionToken, for account: Account, customClaims: String?, at now: Int64
  ) -> TokenRecord {
    TokenRecord(
      digest: token.digest, uid: account.uid,
      expiresAt: now.addingSaturated(settings.tokenLifetimeMilliseconds),
      customClaims: customClaims)
  }

  /// Replaces a hash that has other parameters than the current ones. A login is the only time at which the password is
  /// known. A failure does not affect the login; the next login tries again.
  private func renewHash(
    of account: Account, password: String, for remote: RemoteNetwork
  ) async {
    guard let stored = PasswordHash(encoded: account.passwordHash),
      !stored.isMade(with: settings.hashParameters),
      let password = NormalizedPassword(password),
      let renewed = try? await hash(password, for: remote)
    else { return }
    _ = try? await store.setPasswordHash(
      renewed.encoded, uid: account.uid, ifCurrent: account.passwordHash, revokingTokens: false)
  }
}

/// The session of a user who has signed up or logged in.
///
/// `token` is a secret. The description and the mirror do not contain it.
public struct Session: Sendable, Equatable {
  /// The account's identifier.
  public let uid: String
  /// The e-mail address as the user wrote it.
  public let email: String
  /// The token that authenticates the user: 43 characters of base64url.
  public let token: String
  /// The time at which the token expires, in milliseconds since 1970.
  public let expiresAt: Int64
  /// The method of the login: `password`, `custom` or `anonymous`.
  public let provider: String
  /// The claims of the custom token with which the session began, as the text of a JSON object; nil for another login.
  public let customClaims: String?

  /// Creates a session with the given fields.
  public init(
    uid: String, email: String, token: String, expiresAt: Int64, provider: String = "password",
    customClaims: String? = nil
  ) {
    self.uid = uid
    self.email = email
    self.token = token
    self.expiresAt = expiresAt
    self.provider = provider
    self.customClaims = customClaims
  }

  /// Creates the session of a token in the store.
  init(_ account: Account, _ record: TokenRecord, token: String) {
    self.init(
      uid: account.uid, email: account.email, token: token, expiresAt: record.expiresAt,
      provider: record.customClaims == nil ? account.provider : "custom",
      customClaims: record.customClaims)
  }
}

/// A session with the account as it was just before the session began, or when the session was used.
public struct Login: Sendable {
  /// The session.
  public let session: Session
  /// The account.
  public let account: Account
  /// The time of the login in seconds since 1970, not before ``AccountDetails/validSince``. An end of logins is after it.
  public let time: Int64
  /// The time at which the session began, in milliseconds since 1970. It is later than the present time if the clock was
  /// set back since.
  public let beganAt: Int64

  /// Creates the login of a new session.
  ///
  /// - Parameter now: the time of the login in milliseconds since 1970.
  init(session: Session, account: Account, at now: Int64) {
    self.session = session
    self.account = account
    time = max(now / 1_000, account.details.validSince)
    beganAt = now
  }

  /// Creates the login of a session that is used again.
  ///
  /// - Parameters:
  ///   - account: the account as it is now.
  ///   - began: the time at which the session began, in milliseconds since 1970. It may be too late, if the lifetime of
  ///     sessions was longer then. So the time of the login is not later than ``Account/latestLogin``, after which the
  ///     next end of logins is.
  init(session: Session, account: Account, began: Int64) {
    self.session = session
    self.account = account
    time = max(min(began / 1_000, account.latestLogin), account.details.validSince)
    beganAt = began
  }
}

extension Session: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  /// A text with all fields except the token.
  public var description: String {
    "Session(uid: \(uid), email: \(email), token: <redacted>, expiresAt: \(expiresAt))"
  }

  /// The same as ``description``.
  public var debugDescription: String { description }

  /// A mirror without the token, so that `dump` does not print it.
  public var customMirror: Mirror {
    Mirror(self, children: ["uid": uid, "email": email, "expiresAt": expiresAt])
  }
}
