internal import CanopyAccounts
internal import CanopyTree

/// The verification of tokens.
extension IdentityService {
  /// Returns the identity of a credential that a client sends with a request: an identity token, or a session token of
  /// the line protocol.
  ///
  /// - Throws: ``IdentityProblem``; an error of the store.
  public func identify(_ credential: String) async throws -> VerifiedIdentity {
    guard TokenDigest(token: credential) != nil else { return try await verify(credential) }
    do {
      return try await identity(ofSession: credential)
    } catch AccountError.tokenRefused {
      throw IdentityProblem.revoked
    }
  }

  /// Whether a token has the form of one without a signature, which only an emulator accepts: it ends with a dot.
  public static func lacksSignature(_ token: String) -> Bool {
    token.utf8.last == UInt8(ascii: ".")
  }

  /// Returns the identity of a session token, with the claims that an identity token of the session would have now. One
  /// look-up in the store.
  ///
  /// - Throws: `AccountError.tokenRefused`; an error of the store.
  public func identity(ofSession token: String) async throws -> VerifiedIdentity {
    identity(of: try await accounts.login(ofSession: token))
  }

  /// Returns the identity of an identity token.
  ///
  /// A token that is used again costs two look-ups in memory. Otherwise it costs the verification of a signature, and a
  /// look-up in the store if the state of the account is not in memory.
  ///
  /// - Parameter turns: admit the caller to verify the signature.
  /// - Throws: ``IdentityProblem``; an error of the store.
  public func verify(
    _ token: String, in turns: ComputingTurns = .immediate
  ) async throws -> VerifiedIdentity {
    guard token.utf8.count <= JSONWebToken.bytesMax else { throw IdentityProblem.invalid }
    let key = VerifiedTokens.Key(token)
    if let identity = verified[key] {
      do {
        try await check(identity)
        return identity
      } catch let problem as IdentityProblem {
        verified.remove(key)
        throw problem
      }
    }
    let identity = try await turns.take(bytes: token.utf8.count) { [self] in try decoded(token) }
    try await check(identity)
    verified.add(
      identity, for: key, bytes: VerifiedTokens.bytes(ofTokenWith: token.utf8.count))
    return identity
  }

  /// Checks that an identity of an earlier verification is still valid: for each request of a connection that stays open.
  ///
  /// - Throws: ``IdentityProblem``; an error of the store.
  public func check(_ identity: VerifiedIdentity) async throws {
    guard isInTime(identity) else { throw IdentityProblem.expired }
    guard !identity.isUnsigned else { return }
    if let problem = Self.problem(of: identity, try await accounts.state(of: identity.uid)) {
      throw problem
    }
  }

  /// Returns whether an identity is still valid, if that is known without a look-up in the store; otherwise nil. O(1).
  public func isKnownValid(_ identity: VerifiedIdentity) -> Bool? {
    guard isInTime(identity) else { return false }
    guard !identity.isUnsigned else { return true }
    return accounts.knownState(of: identity.uid).map { Self.problem(of: identity, $0) == nil }
  }

  /// Whether an identity has not expired, and was not issued after the present time. A token from the future counts as
  /// expired, so that the client gets another one with the refresh token.
  private func isInTime(_ identity: VerifiedIdentity) -> Bool {
    identity.issueTime <= latestIssueTime && environment.now() < identity.expiresAt
  }

  /// The latest time at which a valid token can have been issued, in seconds since 1970.
  var latestIssueTime: Int64 {
    let (time, overflow) = environment.now()
      .addingReportingOverflow(settings.clockToleranceMilliseconds)
    return (overflow ? .max : time) / 1_000
  }

  private static func problem(
    of identity: VerifiedIdentity, _ state: AccountState
  ) -> IdentityProblem? {
    switch state {
    case .missing: .missing
    case .disabled: .disabled
    case .active(let validSince): identity.loginTime < validSince ? .revoked : nil
    }
  }

  /// Decodes an identity token and verifies its signature.
  private func decoded(_ text: String) throws -> VerifiedIdentity {
    guard let token = JSONWebToken(text) else { throw IdentityProblem.invalid }
    let now = environment.now()
    let isUnsigned = settings.isEmulator && token.isUnsigned
    guard isUnsigned || token.isSigned(by: keys, now: now) else { throw IdentityProblem.invalid }
    let claims = token.claims
    guard let uid = claims["sub"]?.string ?? (isUnsigned ? claims["user_id"]?.string : nil),
      Self.isValid(uid: uid)
    else { throw IdentityProblem.invalid }
    if !isUnsigned {
      guard claims["iss"]?.string?.hasSameBytes(as: settings.issuer) == true,
        claims["aud"]?.string?.hasSameBytes(as: settings.project) == true
      else { throw IdentityProblem.invalid }
    }
    let second = now / 1_000
    // Emulated tokens of test libraries may lack times.
    let expiry = claims["exp"]?.integerNumber ?? (isUnsigned ? .max : nil)
    let issued = claims["iat"]?.integerNumber ?? (isUnsigned ? second : nil)
    guard let expiry, let login = claims["auth_time"]?.integerNumber ?? issued else {
      throw IdentityProblem.invalid
    }
    let (expiresAt, overflow) = expiry.multipliedReportingOverflow(by: 1_000)
    let provider = claims["firebase"]?["sign_in_provider"]?.string ?? "custom"
    return VerifiedIdentity(
      uid: uid, provider: provider, claims: claims.node,
      expiresAt: overflow ? (expiry < 0 ? .min : .max) : expiresAt, loginTime: login,
      issueTime: isUnsigned ? .min : issued ?? login, isUnsigned: isUnsigned)
  }

  /// Whether a text can be the identifier of an account: a key of the tree, of at most 128 bytes.
  static func isValid(uid: String) -> Bool {
    uid.utf8.count <= uidBytesMax && (try? Key(uid)) != nil
  }

  private static let uidBytesMax = 128

  /// The longest time by which ends of logins may make the time of an identity token's login later than now, in seconds.
  private static let loginAheadMax: Int64 = 60

  /// Returns the identity of an identity token in a request about an account.
  ///
  /// - Throws: ``IdentityError`` or ``IdentityProblem``.
  func identity(in body: RequestBody) async throws -> VerifiedIdentity {
    guard let token = try body.text("idToken"), !token.isEmpty else {
      throw IdentityError.missingIDToken
    }
    return try await verify(token, in: body.turns)
  }

  /// Checks that the user logged in a short time ago, before a change that a stolen token must not make. The user of an
  /// account without credentials cannot log in again, so that each login is recent.
  ///
  /// A login that is later than now is not recent: it was before the clock was set back, perhaps long before.
  ///
  /// - Throws: ``IdentityProblem/loginTooOld``; an error of the store.
  func requireRecentLogin(_ identity: VerifiedIdentity) async throws {
    let time = identity.sessionTime ?? identity.loginTime
    let (age, overflow) = (environment.now() / 1_000).subtractingReportingOverflow(time)
    if !overflow, age >= 0, age <= settings.recentLoginMilliseconds / 1_000 { return }
    if identity.sessionTime == nil, !overflow, age < 0, age >= -Self.loginAheadMax {
      // The first login after an end of logins is a second later than that, so a few changes make it a few seconds.
      let state = try await accounts.state(of: identity.uid)
      if state == .active(validSince: identity.loginTime) { return }
    }
    // The token may be older than the first credentials of the account.
    guard identity.provider.hasSameBytes(as: "anonymous"), !identity.isUnsigned,
      try await accounts.account(.uid(identity.uid)).provider.hasSameBytes(as: "anonymous")
    else { throw IdentityProblem.loginTooOld }
  }
}
