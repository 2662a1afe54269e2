public import CanopyAccounts

/// An account store in memory that fails while a test wishes, and holds up those who look a token up.
public final class LineAccountStore: AccountStore {
  private let store = InMemoryAccountStore()

  /// Holds up those who have looked a token up, before they learn of it.
  public let tokenGate = LineGate()

  /// An empty store.
  public init() {}

  /// Makes every operation throw, or work again.
  public func fail(_ isFailing: Bool) async {
    await store.fail(with: isFailing ? LinePlannedFailure() : nil)
  }

  /// Every account, pending ones too.
  public var all: [Account] {
    get async { (try? await store.accounts(after: nil, limit: 1_000)) ?? [] }
  }

  /// See `AccountStore`.
  public func insert(_ account: Account) async throws -> Bool {
    try await store.insert(account)
  }

  /// See `AccountStore`.
  public func account(uid: String) async throws -> Account? {
    try await store.account(uid: uid)
  }

  /// See `AccountStore`.
  public func account(emailNormalized: String) async throws -> Account? {
    try await store.account(emailNormalized: emailNormalized)
  }

  /// See `AccountStore`.
  public func accounts(after: String?, limit: Int) async throws -> [Account] {
    try await store.accounts(after: after, limit: limit)
  }

  /// See `AccountStore`.
  public func pendingAccounts(after: String?, limit: Int) async throws -> [Account] {
    try await store.pendingAccounts(after: after, limit: limit)
  }

  /// See `AccountStore`.
  public func activate(uid: String) async throws -> Bool {
    try await store.activate(uid: uid)
  }

  /// See `AccountStore`.
  public func deletePending(uid: String) async throws -> Bool {
    try await store.deletePending(uid: uid)
  }

  /// See `AccountStore`.
  public func setDisabled(_ isDisabled: Bool, uid: String) async throws -> Bool {
    try await store.setDisabled(isDisabled, uid: uid)
  }

  /// See `AccountStore`.
  public func setPasswordHash(
    _ hash: String, uid: String, ifCurrent expected: String?, revokingTokens: Bool
  ) async throws -> Bool {
    try await store.setPasswordHash(
      hash, uid: uid, ifCurrent: expected, revokingTokens: revokingTokens)
  }

  /// See `AccountStore`.
  public func insertToken(_ token: TokenRecord, ifPasswordHash hash: String) async throws -> Bool {
    try await store.insertToken(token, ifPasswordHash: hash)
  }

  /// See `AccountStore`.
  public func token(_ digest: TokenDigest) async throws -> (token: TokenRecord, account: Account)? {
    let found = try await store.token(digest)
    await tokenGate.pass()
    return found
  }

  /// See `AccountStore`.
  public func deleteToken(_ digest: TokenDigest) async throws {
    try await store.deleteToken(digest)
  }

  /// See `AccountStore`.
  public func purgeExpired(now: Int64, limit: Int) async throws -> Int {
    try await store.purgeExpired(now: now, limit: limit)
  }
}
