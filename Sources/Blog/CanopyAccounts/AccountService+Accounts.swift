/// The data of a new account without a user name. Each part may be missing.
public struct AccountDraft: Sendable {
  /// The identifier; nil for a generated one. Only an administrator may choose it.
  public var uid: String?
  /// The e-mail address.
  public var email: String?
  /// The password.
  public var password: String?
  /// Whether the account is disabled from the start.
  public var isDisabled = false
  /// The further data.
  public var details = AccountDetails()

  /// Creates the draft of an account without credentials.
  public init() {}
}

extension AccountDraft: CustomStringConvertible, CustomReflectable {
  /// The name of the type and the identifier, without the password.
  public var description: String { "AccountDraft(uid: \(uid ?? "nil"), <redacted>)" }

  /// A mirror without the password.
  public var customMirror: Mirror { Mirror(self, children: ["uid": uid as Any]) }
}

/// Changes of an account. A nil leaves a part as it is.
public struct AccountChanges: Sendable {
  /// A new value of a text, or its removal.
  public enum Text: Sendable, Equatable {
    /// Sets the text.
    case set(String)
    /// Removes the text.
    case remove

    var value: String? {
      if case .set(let text) = self { text } else { nil }
    }
  }

  /// The e-mail address. Another address ends all logins and is not verified.
  public var email: Text?
  /// The password. A new one ends all logins.
  public var password: Text?
  /// The name for display.
  public var displayName: Text?
  /// The address of a picture.
  public var photoURL: Text?
  /// The claims that an administrator sets, as the text of a JSON object.
  public var claims: Text?
  /// Whether the e-mail address is verified.
  public var isEmailVerified: Bool?
  /// Whether the account is disabled, which ends all logins.
  public var isDisabled: Bool?
  /// Whether to end all logins: the user signs out everywhere.
  public var endsLogins = false

  /// Creates changes that change nothing.
  public init() {}
}

extension AccountChanges: CustomStringConvertible, CustomReflectable {
  /// The name of the type, without the password.
  public var description: String { "AccountChanges(<redacted>)" }

  /// A mirror without children.
  public var customMirror: Mirror { Mirror(self, children: []) }
}

/// Accounts without user names, and changes of accounts.
extension AccountService {
  /// Creates an account from a draft, and returns it.
  ///
  /// Costs one hash if there is a password, even if the address is taken.
  ///
  /// - Parameters:
  ///   - draft: the data of the account.
  ///   - remote: the network of the caller, for the limit of sign-ups; nil for an administrator.
  /// - Throws: ``AccountError/invalidEmail``, ``AccountError/invalidPassword(_:)``,
  ///   ``AccountError/rateLimited(retryAfterMilliseconds:)``, ``AccountError/overloaded``, ``AccountError/taken`` for
  ///   the address, ``AccountError/uidTaken``.
  public func createAccount(
    _ draft: AccountDraft, from remote: RemoteNetwork?
  ) async throws -> Account {
    try await createAccount(draft, loginTime: nil, from: remote)
  }

  /// - Parameter loginTime: the time of the login for which the account is made, in seconds since 1970; nil for none.
  /// - Throws: ``AccountError/tokenRefused`` if a deletion of the account has ended that login.
  private func createAccount(
    _ draft: AccountDraft, loginTime: Int64?, from remote: RemoteNetwork?
  ) async throws -> Account {
    var account = try await account(of: draft, from: remote)
    // The token of the login stays valid until its end, as for an account that existed before.
    if let loginTime { account.details.validSince = max(1, loginTime) }
    return try await insert(account, of: draft, loginTime: loginTime)
  }

  /// Checks and counts a sign-up, and returns its account, which the store does not have yet.
  private func account(
    of draft: AccountDraft, from remote: RemoteNetwork?
  ) async throws -> Account {
    let email = try draft.email.map(Self.checked)
    let password = try draft.password.map {
      try PasswordPolicy.accepted($0, email: email, username: "")
    }
    if let remote { try countSignUp(from: remote) }
    var hash = ""
    if let password {
      hash = try await self.hash(password, for: remote ?? .local).encoded
    }
    let uid = draft.uid ?? AccountIdentifier.make(random: environment.random)
    var account = Account(
      uid: uid, email: email?.given ?? "",
      emailNormalized: email?.normalized ?? Account.addressless(uid), username: "",
      passwordHash: hash, createdAt: environment.now(), isDisabled: draft.isDisabled,
      details: draft.details)
    // The tokens of a deleted account with the same identifier stay invalid.
    if draft.uid != nil { account.endLogins(at: account.createdAt) }
    return account
  }

  /// Inserts a new account, perhaps with its first session, and returns it.
  private func insert(
    _ account: Account, of draft: AccountDraft, token: TokenRecord? = nil, loginTime: Int64? = nil
  ) async throws -> Account {
    let uid = account.uid
    let isInserted = try await revoking(uid) {
      try await store.insert(account, token: token, loginTime: loginTime)
    }
    guard isInserted else {
      guard try await store.account(uid: uid) == nil else { throw AccountError.uidTaken }
      if let loginTime, let end = try await store.endOfLogins(uid: uid), loginTime < end {
        throw AccountError.tokenRefused
      }
      throw AccountError.taken
    }
    guard draft.uid != nil else { return account }
    // The store may have moved the time from which logins count.
    guard let inserted = try await store.account(uid: uid) else { throw AccountError.notFound }
    return inserted
  }

  /// Creates an account and returns its first login. Otherwise like ``createAccount(_:from:)``.
  ///
  /// The store adds both in one step. Otherwise a failure in between would leave an account that no client can use, if it
  /// has no password.
  public func beginSignUp(
    _ draft: AccountDraft, from remote: RemoteNetwork
  ) async throws -> Login {
    guard !draft.isDisabled else { throw AccountError.disabled }
    var account = try await account(of: draft, from: remote)
    let now = environment.now()
    account.details.lastLoginAt = now
    let token = SessionToken.make(random: environment.random)
    let record = record(of: token, for: account, customClaims: nil, at: now)
    account = try await insert(account, of: draft, token: record)
    return Login(
      session: Session(account, record, token: token.text), account: account, at: now)
  }

  /// Returns a login of a user for whom an administrator has made a custom token. Creates the account if it does not
  /// exist.
  ///
  /// - Parameters:
  ///   - uid: the user, from a verified token.
  ///   - claims: the claims of the token, as the text of a JSON object.
  ///   - loginTime: the time of the token, by ``loginTime(of:)``; nil for a token that no end of logins ends.
  ///   - remote: the network of the caller, for the limit of logins.
  /// - Returns: the login, and whether the account is new.
  /// - Throws: ``AccountError/disabled``; ``AccountError/tokenRefused`` if the logins of the user have ended since the
  ///   time of the token, also by a deletion of the account; ``AccountError/rateLimited(retryAfterMilliseconds:)``.
  public func beginCustomLogin(
    uid: String, claims: String, loginTime: Int64?, from remote: RemoteNetwork
  ) async throws -> (login: Login, isNew: Bool) {
    try countLogin(from: remote)
    try countWrite(.login, of: uid, from: remote)
    for _ in 0..<Self.roundsMax {
      var isNew = false
      var found = try await store.account(uid: uid)
      if found == nil {
        var draft = AccountDraft()
        draft.uid = uid
        draft.details.isCustom = true
        do {
          found = try await createAccount(draft, loginTime: loginTime, from: nil)
          isNew = true
        } catch AccountError.uidTaken { continue }
      }
      guard let account = found, !account.isPending else { break }
      guard !account.isDisabled else { throw AccountError.disabled }
      if !isNew, let loginTime, loginTime < account.details.validSince {
        throw AccountError.tokenRefused
      }
      guard let login = try await login(account, customClaims: claims) else { continue }
      // An end of logins between the check and the insertion has not removed the new session.
      let validSince = try await store.account(uid: uid)?.details.validSince
      if validSince == account.details.validSince { return (login, isNew) }
      try await logOut(login.session.token)
    }
    throw AccountError.credentialsRefused
  }

  /// Returns the time of a login of a user that begins now, in seconds since 1970. It is not before the last end of the
  /// user's logins, also if that was the deletion of the account. The user need not have an account.
  public func loginTime(of uid: String) async throws -> Int64 {
    let end = try await store.account(uid: uid)?.details.validSince
    let deletion = try await store.endOfLogins(uid: uid)
    return max(environment.now() / 1_000, end ?? 0, deletion ?? 0)
  }

  /// Returns a new login of an account that was just read or changed; nil if the account has changed since.
  ///
  /// - Parameters:
  ///   - account: the account.
  ///   - customClaims: the claims of a custom token; see ``Session/customClaims``.
  public func login(_ account: Account, customClaims: String? = nil) async throws -> Login? {
    // The time of the login is not later than the insertion, so that a revocation in between ends it.
    let now = environment.now()
    return try await issueSession(for: account, customClaims: customClaims, at: now)
      .map { Login(session: $0, account: account, at: now) }
  }

  /// Changes an account. Costs one hash if there is a new password.
  ///
  /// A new password, a new e-mail address, disabling and `endsLogins` end all logins and revoke all tokens and codes. The
  /// first credentials of an account do not: they replace none.
  ///
  /// - Parameters:
  ///   - uid: the account.
  ///   - changes: the changes.
  ///   - loginTime: the time of the login of the caller, in seconds since 1970; nil for an administrator.
  ///   - remote: the network of the caller. Each change counts for the account and for the network. A new password or
  ///     address also counts for both as a change of the password does, and a new address for the network as a
  ///     sign-up. Nil for an administrator, who is not limited.
  /// - Returns: the changed account.
  /// - Throws: ``AccountError/notFound``, ``AccountError/tokenRefused`` if the logins of that time have ended,
  ///   ``AccountError/invalidEmail``, ``AccountError/invalidPassword(_:)``, ``AccountError/taken``,
  ///   ``AccountError/rateLimited(retryAfterMilliseconds:)``, ``AccountError/overloaded``; ``UncertainChange``.
  public func update(
    _ uid: String, _ changes: AccountChanges, loginTime: Int64? = nil, from remote: RemoteNetwork?
  ) async throws -> Account {
    guard let before = try await store.account(uid: uid), !before.isPending else {
      throw AccountError.notFound
    }
    let email = try changes.email?.value.map(Self.checked)
    let areCredentials = changes.password != nil || changes.email != nil
    if let remote {
      try countWrite(areCredentials ? .credentials : .profile, of: uid, from: remote)
    }
    if let remote, areCredentials {
      try countChange(of: uid, from: remote)
      // The answer reveals whether another account has the address, as that of a sign-up does.
      let isOther =
        email.map { !$0.normalized.utf8.elementsEqual(before.emailNormalized.utf8) } ?? false
      if isOther { try countSignUp(from: remote) }
    }
    var hash: String?
    if let password = changes.password {
      let accepted = try password.value.map {
        try PasswordPolicy.accepted(
          $0, email: email ?? EmailAddress(before.email), username: before.username)
      }
      if let accepted {
        hash = try await self.hash(accepted, for: remote ?? .local).encoded
      } else {
        hash = ""
      }
    }
    let now = environment.now()
    let newHash = hash
    let ends = endsLogins(changes, email: email, of: before)
    let outcome = try await changing(uid) {
      try await store.change(uid: uid, revokingTokens: ends) { account in
        if let loginTime, loginTime < account.details.validSince {
          throw AccountError.tokenRefused
        }
        // These changes rely on the password, and on credentials that were missing. Both may have changed meanwhile.
        guard newHash == nil || account.passwordHash.utf8.elementsEqual(before.passwordHash.utf8),
          self.endsLogins(changes, email: email, of: account) == ends
        else { return false }
        changes.apply(to: &account, email: email, hash: newHash)
        if ends { account.endLogins(at: now) }
        return true
      }
    }
    switch outcome {
    case .changed(let account):
      if newHash != nil {
        await forgetFailures(ofLoginsTo: before.emailNormalized)
      }
      return account
    case .taken: throw AccountError.taken
    case .missing: throw AccountError.notFound
    case .unchanged: throw AccountError.credentialsRefused
    }
  }

  /// Removes an account with its tokens and codes. Data in other modules, such as the profile, stays.
  ///
  /// - Throws: ``AccountError/notFound``; ``UncertainChange``.
  public func deleteAccount(uid: String) async throws {
    guard let account = try await store.account(uid: uid), !account.isPending else {
      throw AccountError.notFound
    }
    let now = environment.now()
    let isDeleted = try await changing(uid) { try await store.delete(uid: account.uid, at: now) }
    guard isDeleted else { throw AccountError.notFound }
  }

  /// Whether changes end the logins of an account.
  private func endsLogins(
    _ changes: AccountChanges, email: EmailAddress?, of account: Account
  ) -> Bool {
    if changes.endsLogins || changes.isDisabled == true { return true }
    if changes.password != nil, !account.passwordHash.isEmpty { return true }
    guard changes.email != nil, !account.email.isEmpty else { return false }
    return email.map { !$0.normalized.utf8.elementsEqual(account.emailNormalized.utf8) } ?? true
  }

  private static func checked(_ email: String) throws -> EmailAddress {
    guard let email = EmailAddress(email) else { throw AccountError.invalidEmail }
    return email
  }
}

extension AccountChanges {
  /// Applies the changes to an account.
  ///
  /// - Parameters:
  ///   - account: the account.
  ///   - email: the checked e-mail address, if there is a new one.
  ///   - hash: the hash of the new password; empty to remove the password; nil to keep it.
  fileprivate func apply(to account: inout Account, email: EmailAddress?, hash: String?) {
    if let email {
      if !email.isProved(by: account.email) { account.details.isEmailVerified = false }
      account.email = email.given
      account.emailNormalized = email.normalized
    } else if self.email == .remove {
      account.email = ""
      account.emailNormalized = Account.addressless(account.uid)
      account.details.isEmailVerified = false
    }
    if let hash { account.passwordHash = hash }
    if let displayName { account.details.displayName = displayName.value }
    if let photoURL { account.details.photoURL = photoURL.value }
    if let claims { account.details.claims = claims.value }
    if let isEmailVerified { account.details.isEmailVerified = isEmailVerified }
    if let isDisabled { account.isDisabled = isDisabled }
  }
}
