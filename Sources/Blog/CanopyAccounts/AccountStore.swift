/// Where accounts and token digests last.
///
/// Every operation is atomic, and those that return have lasted: what was inserted is there after
/// a crash. Operations may come from any number of tasks at once and take effect one at a time.
/// A store judges nothing: it compares texts byte by byte (never by Unicode equivalence; the
/// normalised e-mail address is composed already) and has no clock. Whatever it throws reaches
/// the caller of ``AccountService`` unchanged.
///
/// An implementation is correct if it passes the checks in `AccountStoreContract.swift`.
public protocol AccountStore: Sendable {
  /// Adds an account, pending or not.
  ///
  /// - Returns: false, with nothing changed, if its uid or its normalised e-mail address is
  ///   taken, be it by a pending account.
  func insert(_ account: Account) async throws -> Bool

  /// The account with this uid, pending or not.
  func account(uid: String) async throws -> Account?

  /// The account with this normalised e-mail address, pending or not.
  func account(emailNormalized: String) async throws -> Account?

  /// At most `limit` accounts, pending ones too, in ascending order of the bytes of their
  /// normalised e-mail addresses, beginning just after `after` or, if it is nil, with the first.
  func accounts(after: String?, limit: Int) async throws -> [Account]

  /// At most `limit` pending accounts in ascending order of the bytes of their uids, beginning
  /// just after `after` or, if it is nil, with the first.
  func pendingAccounts(after: String?, limit: Int) async throws -> [Account]

  /// Makes a pending account a full one.
  ///
  /// - Returns: false, with nothing changed, if there is no pending account with this uid.
  func activate(uid: String) async throws -> Bool

  /// Removes a pending account, which frees its e-mail address. Never removes a full one.
  ///
  /// - Returns: false, with nothing changed, if there is no pending account with this uid.
  func deletePending(uid: String) async throws -> Bool

  /// Shuts an account and removes its tokens, in one step, or opens it again.
  ///
  /// - Returns: false if there is no account with this uid.
  func setDisabled(_ isDisabled: Bool, uid: String) async throws -> Bool

  /// Replaces an account's password hash.
  ///
  /// - Parameters:
  ///   - hash: the new hash.
  ///   - uid: whose.
  ///   - expected: if not nil, the hash is replaced only if it still is this one: so that a
  ///     password that was changed a moment ago is not put back.
  ///   - revokingTokens: whether all tokens of the account are removed in the same step.
  /// - Returns: false, with nothing changed, if there is no account with this uid or its hash is
  ///   not the expected one.
  func setPasswordHash(
    _ hash: String, uid: String, ifCurrent expected: String?, revokingTokens: Bool
  ) async throws -> Bool

  /// Adds a token if its account is there, not pending, not disabled, and has this password hash
  /// still; checked and added in one step. Without that, a login that overlaps a change of
  /// password could leave a token of the old password behind.
  ///
  /// - Returns: false, with nothing changed, if the condition does not hold.
  func insertToken(_ token: TokenRecord, ifPasswordHash hash: String) async throws -> Bool

  /// The token with this digest and its account, expired or disabled or not.
  func token(
    _ digest: TokenDigest
  ) async throws -> (token: TokenRecord, account: Account)?

  /// Removes the token with this digest, if it is there.
  func deleteToken(_ digest: TokenDigest) async throws

  /// Removes at most `limit` tokens whose `expiresAt` is at or before `now`.
  ///
  /// - Returns: how many were removed.
  func purgeExpired(now: Int64, limit: Int) async throws -> Int
}
