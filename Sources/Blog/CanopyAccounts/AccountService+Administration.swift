import Synchronization

/// How an administrator names an account.
public enum AccountSelector: Sendable, Equatable {
  /// By its identifier.
  case uid(String)
  /// By its e-mail address, in any spelling that normalises to its own.
  case email(String)
}

/// For administrators only: nothing here is throttled, and errors do say which accounts exist.
extension AccountService {
  /// A new account without limits on how many, and without a session; otherwise as
  /// ``signUp(email:password:username:from:claim:)``.
  public func createAccount(
    email: String, password: String, username: String, claim: Claim
  ) async throws -> Account {
    let candidate = try candidate(email: email, password: password, username: username)
    return try await register(candidate, from: .local, claim: claim)
  }

  /// The account that `selector` names.
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

  /// One page of all accounts, pending ones too, ordered by normalised e-mail address.
  ///
  /// - Parameters:
  ///   - after: the `emailNormalized` of the last account of the page before, or nil.
  ///   - limit: how many at most, from 1 to 1,000; other numbers are taken as the nearest.
  public func accounts(after: String? = nil, limit: Int = 100) async throws -> [Account] {
    try await store.accounts(after: after, limit: min(max(1, limit), 1_000))
  }

  /// Shuts an account and revokes its tokens, or opens it again.
  ///
  /// - Throws: ``AccountError/notFound``; ``AccountError/invalidEmail``.
  public func setDisabled(_ isDisabled: Bool, _ selector: AccountSelector) async throws {
    let account = try await account(selector)
    guard try await store.setDisabled(isDisabled, uid: account.uid) else {
      throw AccountError.notFound
    }
  }

  /// Gives an account a new password and revokes its tokens. Its owner need not wait for failures
  /// made with the old one.
  ///
  /// - Throws: ``AccountError/notFound``; ``AccountError/invalidEmail``;
  ///   ``AccountError/invalidPassword(_:)``; ``AccountError/overloaded``.
  public func setPassword(_ new: String, _ selector: AccountSelector) async throws {
    let account = try await account(selector)
    let hash = try await hash(try accepted(new, for: account), for: .local)
    let isReplaced = try await store.setPasswordHash(
      hash.encoded, uid: account.uid, ifCurrent: nil, revokingTokens: true)
    guard isReplaced else { throw AccountError.notFound }
    loginThrottle.withLock { $0.forget(.email(account.emailNormalized)) }
  }
}
