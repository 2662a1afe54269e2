/// The name of an account for an administrator.
public enum AccountSelector: Sendable, Equatable {
  /// The account with a uid.
  case uid(String)
  /// The account with an e-mail address, in any spelling with the same normalized form.
  case email(String)
}

/// Operations for administrators. They are not throttled, and their errors reveal which accounts exist.
extension AccountService {
  /// Creates an account without a session. Otherwise like ``signUp(email:password:username:from:claim:)``, but without
  /// its limit.
  public func createAccount(
    email: String, password: String, username: String, claim: Claim
  ) async throws -> Account {
    let candidate = try candidate(email: email, password: password, username: username)
    return try await register(candidate, from: .local, claim: claim)
  }

  /// Returns the account that `selector` names.
  ///
  /// - Throws: ``AccountError/notFound``; ``AccountError/invalidEmail``.
  public func account(_ selector: AccountSelector) async throws -> Account {
    let account: Account?
    switch selector {
    case .uid(let uid):
      account = try await store.account(uid: uid)
    case .email(let text):
      guard let email = EmailAddress(text) else { throw AccountError.invalidEmail }
      account = try await store.account(emailNormalized: email.normalized)
    }
    guard let account else { throw AccountError.notFound }
    return account
  }

  /// Returns a page of all accounts, including pending ones, in the order of the normalized e-mail addresses.
  ///
  /// - Parameters:
  ///   - after: the `emailNormalized` of the last account of the previous page, or nil for the first page.
  ///   - limit: the maximum number of accounts, clamped to 1 to 1,000.
  public func accounts(after: String? = nil, limit: Int = 100) async throws -> [Account] {
    try await store.accounts(after: after, limit: min(max(1, limit), 1_000))
  }

  /// Disables an account and revokes its tokens, or enables it again.
  ///
  /// - Throws: ``AccountError/notFound``; ``AccountError/invalidEmail``.
  public func setDisabled(_ isDisabled: Bool, _ selector: AccountSelector) async throws {
    let account = try await account(selector)
    let now = environment.now()
    let isChanged = try await changing(account.uid) {
      try await store.setDisabled(isDisabled, uid: account.uid, endingLoginsAt: now)
    }
    guard isChanged else { throw AccountError.notFound }
  }

  /// Sets the password of an account and revokes its tokens. Resets the count of failed logins.
  ///
  /// - Throws: ``AccountError/notFound``; ``AccountError/invalidEmail``;
  ///   ``AccountError/invalidPassword(_:)``; ``AccountError/overloaded``; ``UncertainChange``.
  public func setPassword(_ new: String, _ selector: AccountSelector) async throws {
    let account = try await account(selector)
    let hash = try await hash(try accepted(new, for: account), for: .local)
    let now = environment.now()
    let replaced = try await changing(account.uid) {
      try await store.replacePasswordHash(
        hash.encoded, uid: account.uid, ifCurrent: nil, revokingTokens: true, endingLoginsAt: now)
    }
    guard replaced != nil else { throw AccountError.notFound }
    await forgetFailures(ofLoginsTo: account.emailNormalized)
  }
}
