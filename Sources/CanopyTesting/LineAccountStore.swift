public import CanopyAccounts

/// An account store that forgets everything with the process, and can be told to fail or to wait.
public actor LineAccountStore: AccountStore {
  private var accounts: [Account] = []
  private var tokens: [TokenDigest: TokenRecord] = [:]
  private var isFailing = false

  /// Holds up those who have looked a token up, before they learn of it.
  public nonisolated let tokenGate = LineGate()

  /// An empty store.
  public init() {}

  /// Makes every operation throw, or work again.
  public func fail(_ isFailing: Bool) {
    self.isFailing = isFailing
  }

  /// Every account, pending ones too.
  public var all: [Account] { accounts }

  private func check() throws {
    if isFailing { throw LinePlannedFailure() }
  }

  private func index(_ uid: String) -> Int? {
    accounts.firstIndex { $0.uid == uid }
  }

  /// See `AccountStore`.
  public func insert(_ account: Account) async throws -> Bool {
    try check()
    let isTaken = accounts.contains {
      $0.uid == account.uid || $0.emailNormalized == account.emailNormalized
    }
    if !isTaken { accounts.append(account) }
    return !isTaken
  }

  /// See `AccountStore`.
  public func account(uid: String) async throws -> Account? {
    try check()
    return accounts.first { $0.uid == uid }
  }

  /// See `AccountStore`.
  public func account(emailNormalized: String) async throws -> Account? {
    try check()
    return accounts.first { $0.emailNormalized == emailNormalized }
  }

  /// See `AccountStore`.
  public func accounts(after: String?, limit: Int) async throws -> [Account] {
    try check()
    let rest = accounts.filter { account in after.map { account.emailNormalized > $0 } ?? true }
    return Array(rest.sorted { $0.emailNormalized < $1.emailNormalized }.prefix(limit))
  }

  /// See `AccountStore`.
  public func pendingAccounts(after: String?, limit: Int) async throws -> [Account] {
    try check()
    let rest = accounts.filter { account in
      account.isPending && after.map { account.uid > $0 } ?? true
    }
    return Array(rest.sorted { $0.uid < $1.uid }.prefix(limit))
  }

  /// See `AccountStore`.
  public func activate(uid: String) async throws -> Bool {
    try check()
    guard let index = index(uid), accounts[index].isPending else { return false }
    accounts[index].isPending = false
    return true
  }

  /// See `AccountStore`. As a store on disk does, it refuses to work for a cancelled task.
  public func deletePending(uid: String) async throws -> Bool {
    try Task.checkCancellation()
    try check()
    guard let index = index(uid), accounts[index].isPending else { return false }
    accounts.remove(at: index)
    return true
  }

  /// See `AccountStore`.
  public func setDisabled(_ isDisabled: Bool, uid: String) async throws -> Bool {
    try check()
    guard let index = index(uid) else { return false }
    accounts[index].isDisabled = isDisabled
    if isDisabled { tokens = tokens.filter { $0.value.uid != uid } }
    return true
  }

  /// See `AccountStore`.
  public func setPasswordHash(
    _ hash: String, uid: String, ifCurrent expected: String?, revokingTokens: Bool
  ) async throws -> Bool {
    try check()
    guard let index = index(uid), expected == nil || expected == accounts[index].passwordHash
    else { return false }
    accounts[index].passwordHash = hash
    if revokingTokens { tokens = tokens.filter { $0.value.uid != uid } }
    return true
  }

  /// See `AccountStore`.
  public func insertToken(_ token: TokenRecord, ifPasswordHash hash: String) async throws -> Bool {
    try check()
    guard let index = index(token.uid), !accounts[index].isPending, !accounts[index].isDisabled,
      accounts[index].passwordHash == hash
    else { return false }
    tokens[token.digest] = token
    return true
  }

  /// See `AccountStore`.
  public func token(_ digest: TokenDigest) async throws -> (token: TokenRecord, account: Account)? {
    try check()
    let found = tokens[digest].flatMap { token in
      index(token.uid).map { (token: token, account: accounts[$0]) }
    }
    await tokenGate.pass()
    return found
  }

  /// See `AccountStore`.
  public func deleteToken(_ digest: TokenDigest) async throws {
    try check()
    tokens[digest] = nil
  }

  /// See `AccountStore`.
  public func purgeExpired(now: Int64, limit: Int) async throws -> Int {
    try check()
    let expired = tokens.values.filter { $0.expiresAt <= now }.prefix(limit)
    for token in expired { tokens[token.digest] = nil }
    return expired.count
  }
}
