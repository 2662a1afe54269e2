/// A durable storage of accounts and token digests.
///
/// Every operation is atomic, and its effect survives a crash once it has returned. Any number of tasks may call
/// operations at once; they take effect one at a time. A store applies no rules of its own. It compares texts byte by
/// byte, not by Unicode equivalence, because the normalized e-mail address is already composed. It has no clock. Its
/// errors reach the caller of ``AccountService`` unchanged.
///
/// An implementation is correct if it passes the checks in `AccountStoreContract.swift`.
public protocol AccountStore: Sendable {
  /// The failures of logins that several nodes count together; nil if each server counts its own.
  var loginAttempts: (any LoginAttempts)? { get }

  /// Adds an account, pending or not, and its first token in the same step.
  ///
  /// If logins of the account have ended before (``AccountDetails/validSince`` is above 0), the uid may be that of a
  /// deleted account. Then the stored time is after ``Account/latestLogin`` of every deleted account. One time for all
  /// of them suffices. A time for each would need a row for every account that was ever deleted, which any client can
  /// cause, and a later time than necessary loses nothing: the logins of the new account begin at it. Only for identity
  /// tokens, and only after the clock was set back, it means that those logins do not count as recent until the clock
  /// has reached it. The stored time is also not before ``endOfLogins(uid:)``.
  ///
  /// - Parameters:
  ///   - account: the account.
  ///   - token: a token of the account; nil for none.
  ///   - loginTime: the time of the login for which the account is made, in seconds since 1970; nil if no login is made.
  /// - Returns: false, without a change, if an account with the same uid or normalized e-mail address exists, pending
  ///   or not, or if `loginTime` is before ``endOfLogins(uid:)``.
  func insert(_ account: Account, token: TokenRecord?, loginTime: Int64?) async throws -> Bool

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

  /// Changes an account in one step.
  ///
  /// - Parameters:
  ///   - uid: the account.
  ///   - revokingTokens: whether to remove all tokens and codes of the account in the same step.
  ///   - body: changes a copy of the account, except its uid, its user name and the time of its sign-up. Returns false to
  ///     leave the account unchanged. Called once, perhaps on another thread.
  /// - Throws: the error of `body`; the account is then unchanged.
  func change(
    uid: String, revokingTokens: Bool,
    _ body: @escaping @Sendable (inout Account) throws -> Bool
  ) async throws -> AccountChange

  /// Removes an account, with its tokens and codes. Frees its e-mail address.
  ///
  /// Remembers in the same step that all logins of the uid have ended, as ``Account/endLogins(at:)`` does: a custom token
  /// may be older than the deletion, and must not create the account again.
  ///
  /// - Parameter now: milliseconds since 1970.
  /// - Returns: false if no account has this uid.
  func delete(uid: String, at now: Int64) async throws -> Bool

  /// Returns the time, in seconds since 1970, at which the logins of a deleted account have ended; nil if no such account
  /// is remembered. A later account with the uid does not change it. A store that was repaired may have an end for each
  /// uid (``DeletedAccount/anyUID``).
  func endOfLogins(uid: String) async throws -> Int64?

  /// Forgets at most `limit` deleted accounts that were deleted at or before `time`, in milliseconds since 1970.
  ///
  /// - Returns: the number of accounts that were forgotten.
  func purgeDeleted(until time: Int64, limit: Int) async throws -> Int

  /// Adds a token if its account exists, is neither pending nor disabled, and still has this password hash. Checks and adds
  /// in one step. Otherwise a login that overlaps a change of the password could leave a token of the old password.
  ///
  /// - Parameters:
  ///   - token: the token.
  ///   - hash: the expected password hash.
  ///   - time: the time of the login, which becomes ``AccountDetails/lastLoginAt`` in the same step if it is later than
  ///     that; nil to keep that.
  ///   - countMax: the maximum number of tokens of the account, at least one. The tokens with the earliest ends are
  ///     removed in the same step, but not the new one. If there are more than a thousand to remove, a store may leave
  ///     some to the next call.
  /// - Returns: the tokens that were removed; nil, without a change, if the condition does not hold.
  func insertToken(
    _ token: TokenRecord, ifPasswordHash hash: String, loginAt time: Int64?, countMax: Int
  ) async throws -> [TokenDigest]?

  /// Returns the token with this digest and its account, even if the token has expired or the account is disabled.
  func token(
    _ digest: TokenDigest
  ) async throws -> (token: TokenRecord, account: Account)?

  /// Returns at most `limit` tokens of an account, expired ones too, those with the latest ends first.
  func tokens(uid: String, limit: Int) async throws -> [TokenRecord]

  /// Removes the token with this digest, if it exists.
  func deleteToken(_ digest: TokenDigest) async throws

  /// Removes at most `limit` tokens whose `expiresAt` is at or before `now`.
  ///
  /// - Returns: the number of tokens that were removed.
  func purgeExpired(now: Int64, limit: Int) async throws -> Int

  /// Adds a code of an account, unless the account has as many for the same purpose as it may.
  ///
  /// - Parameters:
  ///   - code: the code.
  ///   - countMax: the maximum number of codes of the account for the purpose, the new one included.
  ///   - ends: the ends of the account's codes for the purpose that are kept. The others are removed, and do not count.
  /// - Returns: whether the code was added; false also if no account has this uid.
  func insertCode(
    _ code: CodeRecord, countMax: Int, keepingEnds ends: ClosedRange<Int64>
  ) async throws -> Bool

  /// Returns the code with this digest, even if it has expired.
  func code(_ digest: TokenDigest) async throws -> CodeRecord?

  /// Removes a code.
  ///
  /// - Returns: false if it does not exist. So of two users of a code, one gets true.
  func deleteCode(_ digest: TokenDigest) async throws -> Bool

  /// Removes at most `limit` codes whose `expiresAt` is at or before `now`.
  ///
  /// - Returns: the number of codes that were removed.
  func purgeExpiredCodes(now: Int64, limit: Int) async throws -> Int
}

/// The outcome of ``AccountStore/change(uid:revokingTokens:_:)``.
public enum AccountChange: Sendable, Equatable {
  /// The account was changed to this one.
  case changed(Account)
  /// The body left the account unchanged.
  case unchanged
  /// Another account has the new normalized e-mail address. Nothing was changed.
  case taken
  /// No account has this uid.
  case missing
}

extension AccountStore {
  /// Nil: each server counts the failures of logins in memory.
  public var loginAttempts: (any LoginAttempts)? { nil }

  /// Disables an account and removes its tokens in one step, or enables it again.
  ///
  /// - Parameters:
  ///   - isDisabled: whether to disable it.
  ///   - uid: the account.
  ///   - now: if not nil, disabling ends all logins before this time; see ``Account/endLogins(at:)``.
  /// - Returns: false if no account has this uid.
  public func setDisabled(
    _ isDisabled: Bool, uid: String, endingLoginsAt now: Int64? = nil
  ) async throws -> Bool {
    try await change(uid: uid, revokingTokens: isDisabled) { account in
      account.isDisabled = isDisabled
      if isDisabled, let now { account.endLogins(at: now) }
      return true
    } != .missing
  }

  /// Replaces an account's password hash.
  ///
  /// - Parameters:
  ///   - hash: the new hash.
  ///   - uid: the account.
  ///   - expected: if not nil, the hash is replaced only if the current one is this. So a password that was changed a
  ///     moment ago is not reset.
  ///   - revokingTokens: whether to remove all tokens of the account in the same step.
  ///   - now: if not nil, ends all logins before this time; see ``Account/endLogins(at:)``.
  /// - Returns: the changed account; nil, without a change, if no account has this uid, or its hash is not the expected
  ///   one.
  public func replacePasswordHash(
    _ hash: String, uid: String, ifCurrent expected: String?, revokingTokens: Bool,
    endingLoginsAt now: Int64? = nil
  ) async throws -> Account? {
    let change = try await change(uid: uid, revokingTokens: revokingTokens) { account in
      guard expected.map({ $0.utf8.elementsEqual(account.passwordHash.utf8) }) ?? true else {
        return false
      }
      account.passwordHash = hash
      if let now { account.endLogins(at: now) }
      return true
    }
    if case .changed(let account) = change { return account }
    return nil
  }

  /// Whether ``replacePasswordHash(_:uid:ifCurrent:revokingTokens:endingLoginsAt:)`` has replaced the hash.
  public func setPasswordHash(
    _ hash: String, uid: String, ifCurrent expected: String?, revokingTokens: Bool
  ) async throws -> Bool {
    try await replacePasswordHash(
      hash, uid: uid, ifCurrent: expected, revokingTokens: revokingTokens) != nil
  }

  /// Adds an account and its first token; see ``insert(_:token:loginTime:)``.
  public func insert(_ account: Account, token: TokenRecord?) async throws -> Bool {
    try await insert(account, token: token, loginTime: nil)
  }

  /// Adds an account without a token; see ``insert(_:token:loginTime:)``.
  public func insert(_ account: Account) async throws -> Bool {
    try await insert(account, token: nil, loginTime: nil)
  }

  /// Adds a token, whatever the number of the others; see ``insertToken(_:ifPasswordHash:loginAt:countMax:)``.
  public func insertToken(
    _ token: TokenRecord, ifPasswordHash hash: String, loginAt time: Int64? = nil
  ) async throws -> Bool {
    try await insertToken(token, ifPasswordHash: hash, loginAt: time, countMax: .max) != nil
  }
}
