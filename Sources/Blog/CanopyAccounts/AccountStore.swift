/// A durable storage of accounts and token digests.
///
/// Every operation is atomic, and its effect survives a crash once it has returned. Any number of tasks may call
/// operations at once; they take effect one at a time. A store applies no rules of its own. It compares texts byte by
/// byte, not by Unicode equivalence, because the normalized e-mail address is already composed. It has no clock. Its
/// errors reach the caller of ``AccountService`` unchanged.
///
/// An implementation is correct if it passes the checks in `AccountStoreContract.swift`.
public protocol AccountStore: Sendable {
  /// Adds an account, pending or not.
  ///
  /// - Returns: false, without a change, if an account with the same uid or normalized e-mail address exists, pending
  ///   or not.
  func insert(_ account: Account) async throws -> Bool

  /// Returns the account with this uid, pending or not.
  func account(uid: String) async throws -> Account?

  /// Returns the account with this normalized e-mail address, pending or not.
  func account(emailNormalized: String) async throws -> Account?

  /// Returns at most `limit` accounts, pending or not, whose normalized e-mail address comes after `after`, or from the
  /// first one if it is nil. Ascending by the bytes of the address.
  func accounts(after: String?, limit: Int) async throws -> [Account]

  /// Returns at most `limit` pending accounts whose uid comes after `after`, or from the first one if it is nil.
  /// Ascending by the bytes of the uid.
  func pendingAccounts(after: String?, limit: Int) async throws -> [Account]

  /// Activates a pending account.
  ///
  /// - Returns: false, without a change, if no pending account has this uid.
  func activate(uid: String) async throws -> Bool

  /// Removes a pending account, which frees its e-mail address. Never removes an active one.
  ///
  /// - Returns: false, without a change, if no pending account has this uid.
  func deletePending(uid: String) async throws -> Bool

  /// Disables an account and removes its tokens in one step, or enables it again.
  ///
  /// - Returns: false if no account has this uid.
  func setDisabled(_ isDisabled: Bool, uid: String) async throws -> Bool

  /// Replaces an account's password hash.
  ///
  /// - Parameters:
  ///   - hash: the new hash.
  ///   - uid: the account.
  ///   - expected: if not nil, the hash is replaced only if the current one is this. So a password that was changed a
  ///     moment ago is not reset.
  ///   - revokingTokens: whether to remove all tokens of the account in the same step.
  /// - Returns: false, without a change, if no account has this uid, or its hash is not the expected one.
  func setPasswordHash(
    _ hash: String, uid: String, ifCurrent expected: String?, revokingTokens: Bool
  ) async throws -> Bool

  /// Adds a token if its account exists, is neither pending nor disabled, and still has this password hash. Checks and adds
  /// in one step. Otherwise a login that overlaps a change of the password could leave a token of the old password.
  ///
  /// - Returns: false, without a change, if the condition does not hold.
  func insertToken(_ token: TokenRecord, ifPasswordHash hash: String) async throws -> Bool

  /// Returns the token with this digest and its account, even if the token has expired or the account is disabled.
  func token(
    _ digest: TokenDigest
  ) async throws -> (token: TokenRecord, account: Account)?

  /// Removes the token with this digest, if it exists.
  func deleteToken(_ digest: TokenDigest) async throws

  /// Removes at most `limit` tokens whose `expiresAt` is at or before `now`.
  ///
  /// - Returns: the number of tokens that were removed.
  func purgeExpired(now: Int64, limit: Int) async throws -> Int
}
