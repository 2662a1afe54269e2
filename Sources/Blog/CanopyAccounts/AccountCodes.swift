import Synchronization

/// The purpose of a code that a user receives outside of the connection, usually in an e-mail.
public enum CodePurpose: String, Sendable, CaseIterable {
  /// Sets a new password.
  case resetPassword = "PASSWORD_RESET"
  /// Proves that the address is the user's.
  case verifyEmail = "VERIFY_EMAIL"
}

/// A code in a store. Like a token, it is stored as a digest.
public struct CodeRecord: Sendable, Equatable {
  /// The digest of the code, which is the key of the record.
  public let digest: TokenDigest
  /// The account.
  public let uid: String
  /// The purpose of the code.
  public let purpose: CodePurpose
  /// The e-mail address for which the code was made. It is not valid for another address of the account.
  public let email: String
  /// The time at which the code expires, in milliseconds since 1970. The code is not valid at that time.
  public let expiresAt: Int64

  /// Creates a record with the given fields.
  public init(
    digest: TokenDigest, uid: String, purpose: CodePurpose, email: String, expiresAt: Int64
  ) {
    self.digest = digest
    self.uid = uid
    self.purpose = purpose
    self.email = email
    self.expiresAt = expiresAt
  }
}

/// A new code. `text` is a secret; the description and the mirror do not contain it.
public struct IssuedCode: Sendable {
  /// The code: 43 characters of base64url.
  public let text: String
  /// The record in the store.
  public let record: CodeRecord
}

extension IssuedCode: CustomStringConvertible, CustomReflectable {
  /// The purpose and the address, without the code.
  public var description: String {
    "IssuedCode(purpose: \(record.purpose.rawValue), email: \(record.email), <redacted>)"
  }

  /// A mirror without the code.
  public var customMirror: Mirror { Mirror(self, children: ["record": record]) }
}

/// A remote network that requests codes for an e-mail address. Each network has a limit of its own for an address, so that
/// strangers do not use up that of the address's owner.
struct CodeRequester: Hashable, Sendable {
  let network: RemoteNetwork
  /// The bytes of the normalized address. Texts with other bytes may be equal.
  let address: [UInt8]
}

/// Codes that prove the access to an e-mail address.
extension AccountService {
  /// Counts a request for a code. It does not ask the store, so it takes the same time for every address.
  ///
  /// - Throws: ``AccountError/invalidEmail``; ``AccountError/rateLimited(retryAfterMilliseconds:)`` after too many
  ///   requests of the network, for the address or at all.
  public func admitCode(for email: String, from remote: RemoteNetwork) throws {
    guard let email = EmailAddress(email) else { throw AccountError.invalidEmail }
    try countLogin(from: remote)
    // Exempt as in `countLogin`. The number of valid codes of an account has a bound of its own.
    guard !remote.isThisMachine else { return }
    let key = CodeRequester(network: remote, address: Array(email.normalized.utf8))
    if let wait = codeLimiter.withLock({ $0.take(key, now: environment.now()) }) {
      throw AccountError.rateLimited(retryAfterMilliseconds: wait)
    }
  }

  /// Returns a new code; nil if no active account has the address, or if it has as many valid codes as it may. The caller
  /// must not reveal which.
  ///
  /// The earlier codes stay valid: otherwise any stranger could end the code that the user has just received.
  ///
  /// - Parameters:
  ///   - email: the address.
  ///   - purpose: the purpose of the code.
  ///   - remote: the network of the caller, for the limit of logins; nil for an administrator, or after `admitCode`.
  ///   - isBounded: whether ``AccountSettings/codesPerAccountMax`` applies. It need not for an administrator.
  /// - Throws: ``AccountError/invalidEmail``; ``AccountError/rateLimited(retryAfterMilliseconds:)`` after too many
  ///   requests of the network, for the address or at all.
  public func issueCode(
    for email: String, _ purpose: CodePurpose, from remote: RemoteNetwork?, isBounded: Bool = true
  ) async throws -> IssuedCode? {
    if let remote { try admitCode(for: email, from: remote) }
    guard let email = EmailAddress(email) else { throw AccountError.invalidEmail }
    let now = environment.now()
    guard let account = try await store.account(emailNormalized: email.normalized),
      account.isActive
    else { return nil }
    let token = SessionToken.make(random: environment.random)
    let record = CodeRecord(
      digest: token.digest, uid: account.uid, purpose: purpose, email: account.email,
      expiresAt: now.addingSaturated(settings.codeLifetimeMilliseconds))
    let countMax = isBounded ? max(1, settings.codesPerAccountMax) : .max
    // A code that ends later was made long ago, by a clock that was ahead.
    let endMax = record.expiresAt.addingSaturated(settings.codeLifetimeMilliseconds)
    let validEnds = min(now.addingSaturated(1), endMax)...endMax
    guard try await store.insertCode(record, countMax: countMax, keepingEnds: validEnds) else {
      return nil
    }
    return IssuedCode(text: token.text, record: record)
  }

  /// Returns the record of a valid code, without using it.
  ///
  /// - Parameters:
  ///   - code: the code.
  ///   - purpose: the purpose for which the code must have been made.
  ///   - remote: the network of the caller, for the limit of logins.
  /// - Throws: ``AccountError/codeRefused``; ``AccountError/codeExpired``; ``AccountError/disabled``;
  ///   ``AccountError/rateLimited(retryAfterMilliseconds:)``.
  public func checkCode(
    _ code: String, _ purpose: CodePurpose, from remote: RemoteNetwork
  ) async throws -> CodeRecord {
    try countLogin(from: remote)
    guard let token = SessionToken(code), let record = try await store.code(token.digest),
      record.purpose == purpose
    else { throw AccountError.codeRefused }
    guard environment.now() < record.expiresAt else { throw AccountError.codeExpired }
    guard let account = try await store.account(uid: record.uid), !account.isPending,
      account.email.utf8.elementsEqual(record.email.utf8)
    else { throw AccountError.codeRefused }
    guard !account.isDisabled else { throw AccountError.disabled }
    return record
  }

  /// Uses a code to set a new password. Revokes all tokens of the account, and resets the count of failed logins. The
  /// address counts as verified.
  ///
  /// - Throws: the errors of ``checkCode(_:_:from:)``; ``AccountError/invalidPassword(_:)``;
  ///   ``AccountError/overloaded``; ``UncertainChange``. The code is used only if the password is acceptable.
  public func resetPassword(
    code: String, new: String, from remote: RemoteNetwork
  ) async throws -> CodeRecord {
    let record = try await checkCode(code, .resetPassword, from: remote)
    guard let account = try await store.account(uid: record.uid) else {
      throw AccountError.codeRefused
    }
    let hash = try await hash(try accepted(new, for: account), for: remote).encoded
    try await use(record, revoking: true) { account in
      account.passwordHash = hash
      account.details.isEmailVerified = true
    }
    await forgetFailures(ofLoginsTo: account.emailNormalized)
    return record
  }

  /// Uses a code to prove that the address is the user's.
  ///
  /// - Throws: the errors of ``checkCode(_:_:from:)``; ``UncertainChange``.
  public func verifyEmail(code: String, from remote: RemoteNetwork) async throws -> Account {
    let record = try await checkCode(code, .verifyEmail, from: remote)
    return try await use(record, revoking: false) { $0.details.isEmailVerified = true }
  }

  @discardableResult
  private func use(
    _ record: CodeRecord, revoking: Bool, _ change: @escaping @Sendable (inout Account) -> Void
  ) async throws -> Account {
    // Removed first, so that it works once. If the server stops here, the user requests another.
    guard try await store.deleteCode(record.digest) else { throw AccountError.codeRefused }
    let now = environment.now()
    let outcome = try await changing(record.uid) {
      try await store.change(uid: record.uid, revokingTokens: revoking) { account in
        guard account.email.utf8.elementsEqual(record.email.utf8), account.isActive else {
          return false
        }
        change(&account)
        if revoking { account.endLogins(at: now) }
        return true
      }
    }
    guard case .changed(let account) = outcome else { throw AccountError.codeRefused }
    return account
  }
}
