public import CanopyAccounts

/// An account store in memory.
///
/// It is an actor, so every operation is atomic. A test can make it fail, hold reads of tokens and changes of accounts at
/// gates, and run a step just before a token is inserted, where two operations can overlap.
public actor InMemoryAccountStore: AccountStore {
  private var accounts: [[UInt8]: Account] = [:]
  private var uids: [[UInt8]: [UInt8]] = [:]
  private var tokens: [TokenDigest: TokenRecord] = [:]
  private var codes: [TokenDigest: CodeRecord] = [:]
  /// The latest login of a deleted account, in seconds since 1970.
  private var deletedLogin: Int64 = 0
  /// The times at which accounts were deleted, and the ends of their logins.
  private var deletions: [[UInt8]: (time: Int64, end: Int64)] = [:]
  private var failure: (any Error)?
  private var lateFailure: (any Error)?
  private var beforeInsertToken: (@Sendable () async throws -> Void)?

  /// The gate of reads of tokens, between the read and its result. It is open at first.
  public nonisolated let tokenGate = Gate(isOpen: true)

  /// The gate of changes of accounts, before the account is read. It is open at first.
  public nonisolated let changeGate = Gate(isOpen: true)

  /// The failures of logins that services of several nodes count together; nil if each counts its own.
  public nonisolated let loginAttempts: (any LoginAttempts)?

  /// Creates an empty store.
  public init(loginAttempts: (any LoginAttempts)? = nil) {
    self.loginAttempts = loginAttempts
  }

  /// All accounts, pending ones too.
  public var all: [Account] {
    page(Array(accounts.values), by: \.emailNormalized, after: nil, limit: .max)
  }

  /// The digests of all tokens.
  public var digests: Set<TokenDigest> { Set(tokens.keys) }

  /// Makes every operation throw an error; with nil, makes them work again.
  public func fail(with error: (any Error)?) {
    failure = error
  }

  /// Makes the next change or removal of an account throw an error after it was made.
  public func failAfterNextChange(with error: any Error) {
    lateFailure = error
  }

  /// Runs a step once, before the next token is inserted.
  public func beforeNextToken(_ step: @escaping @Sendable () async throws -> Void) {
    beforeInsertToken = step
  }

  /// Adds an account and its first token. Returns false if its uid or address is taken.
  public func insert(
    _ account: Account, token: TokenRecord?, loginTime: Int64?
  ) async throws -> Bool {
    try check()
    let (email, uid) = (Array(account.emailNormalized.utf8), Array(account.uid.utf8))
    guard accounts[email] == nil, uids[uid] == nil else { return false }
    let end = deletions[uid]?.end ?? 0
    if let loginTime, loginTime < end { return false }
    var account = account
    if account.details.validSince > 0 {
      account.details.validSince = max(account.details.validSince, deletedLogin + 1, end)
    }
    accounts[email] = account
    uids[uid] = email
    if let token { tokens[token.digest] = token }
    return true
  }

  /// Returns the account with a uid.
  public func account(uid: String) async throws -> Account? {
    try check()
    return find(uid)
  }

  /// Returns the account with an address.
  public func account(emailNormalized: String) async throws -> Account? {
    try check()
    return accounts[Array(emailNormalized.utf8)]
  }

  /// Returns a page of the accounts in the order of their addresses.
  public func accounts(after: String?, limit: Int) async throws -> [Account] {
    try check()
    return page(Array(accounts.values), by: \.emailNormalized, after: after, limit: limit)
  }

  /// Returns a page of the pending accounts in the order of their uids.
  public func pendingAccounts(after: String?, limit: Int) async throws -> [Account] {
    try check()
    return page(accounts.values.filter(\.isPending), by: \.uid, after: after, limit: limit)
  }

  /// Completes a sign-up. Returns false if no such sign-up is pending.
  public func activate(uid: String) async throws -> Bool {
    try check()
    guard var account = find(uid), account.isPending else { return false }
    account.isPending = false
    keep(account)
    return true
  }

  /// Removes a pending account. Returns false if it does not exist.
  public func deletePending(uid: String) async throws -> Bool {
    // A store on disk may check this too; see `AccountService.uncancelled`.
    try Task.checkCancellation()
    try check()
    guard let account = find(uid), account.isPending else { return false }
    accounts[Array(account.emailNormalized.utf8)] = nil
    uids[Array(uid.utf8)] = nil
    return true
  }

  /// Changes an account.
  public func change(
    uid: String, revokingTokens: Bool,
    _ body: @escaping @Sendable (inout Account) throws -> Bool
  ) async throws -> AccountChange {
    await changeGate.pass()
    try check()
    guard let account = find(uid) else { return .missing }
    var changed = account
    guard try body(&changed) else { return .unchanged }
    let (old, new) = (
      Array(account.emailNormalized.utf8), Array(changed.emailNormalized.utf8)
    )
    guard old == new || accounts[new] == nil else { return .taken }
    accounts[old] = nil
    uids[Array(uid.utf8)] = new
    keep(changed)
    if revokingTokens { revokeTokens(of: uid) }
    try checkLate()
    return .changed(changed)
  }

  /// Removes an account with its tokens and codes. Returns false if it does not exist.
  public func delete(uid: String, at now: Int64) async throws -> Bool {
    try check()
    guard var account = find(uid) else { return false }
    deletedLogin = max(deletedLogin, account.latestLogin)
    account.endLogins(at: now)
    let earlier = deletions[Array(uid.utf8)]
    deletions[Array(uid.utf8)] = (
      max(now, earlier?.time ?? now), max(account.details.validSince, earlier?.end ?? 0)
    )
    accounts[Array(account.emailNormalized.utf8)] = nil
    uids[Array(uid.utf8)] = nil
    revokeTokens(of: uid)
    try checkLate()
    return true
  }

  /// Returns the end of the logins of a deleted account.
  public func endOfLogins(uid: String) async throws -> Int64? {
    try check()
    return deletions[Array(uid.utf8)]?.end
  }

  /// Forgets deleted accounts, and returns their number.
  public func purgeDeleted(until time: Int64, limit: Int) async throws -> Int {
    try check()
    let old = deletions.filter { $0.value.time <= time }.keys.prefix(limit)
    for uid in old { deletions[uid] = nil }
    return old.count
  }

  /// Adds a token if its account is active and has this password hash. Returns the tokens that it has replaced.
  public func insertToken(
    _ token: TokenRecord, ifPasswordHash hash: String, loginAt time: Int64?, countMax: Int
  ) async throws -> [TokenDigest]? {
    let step = beforeInsertToken
    beforeInsertToken = nil
    try await step?()
    try check()
    guard var account = find(token.uid), !account.isPending, !account.isDisabled,
      account.passwordHash == hash
    else { return nil }
    tokens[token.digest] = token
    let others = tokens.values.filter {
      $0.uid.utf8.elementsEqual(token.uid.utf8) && $0.digest != token.digest
    }
    .sorted { $0.expiresAt < $1.expiresAt }
    let ended = others.dropLast(max(1, countMax) - 1).map(\.digest)
    for digest in ended { tokens[digest] = nil }
    if let time {
      account.details.lastLoginAt = max(time, account.details.lastLoginAt ?? time)
      keep(account)
    }
    return ended
  }

  /// Returns a token and its account.
  public func token(_ digest: TokenDigest) async throws -> (token: TokenRecord, account: Account)? {
    try check()
    let found = tokens[digest].flatMap { token in find(token.uid).map { (token, $0) } }
    await tokenGate.pass()
    return found
  }

  /// Returns the tokens of an account, those with the latest ends first.
  public func tokens(uid: String, limit: Int) async throws -> [TokenRecord] {
    try check()
    let own = tokens.values.filter { $0.uid.utf8.elementsEqual(uid.utf8) }
    return Array(own.sorted { $0.expiresAt > $1.expiresAt }.prefix(limit))
  }

  /// Removes a token.
  public func deleteToken(_ digest: TokenDigest) async throws {
    try check()
    tokens[digest] = nil
  }

  /// Removes expired tokens, and returns their number.
  public func purgeExpired(now: Int64, limit: Int) async throws -> Int {
    try check()
    let expired = tokens.values.filter { $0.expiresAt <= now }.prefix(limit)
    for token in expired { tokens[token.digest] = nil }
    return expired.count
  }

  /// Adds a code, unless the account has as many for its purpose as it may.
  public func insertCode(
    _ code: CodeRecord, countMax: Int, keepingEnds ends: ClosedRange<Int64>
  ) async throws -> Bool {
    try check()
    guard find(code.uid) != nil else { return false }
    var count = 0
    for old in codes.values
    where old.uid.utf8.elementsEqual(code.uid.utf8) && old.purpose == code.purpose {
      if ends.contains(old.expiresAt) { count += 1 } else { codes[old.digest] = nil }
    }
    guard count < countMax else { return false }
    codes[code.digest] = code
    return true
  }

  /// Returns a code.
  public func code(_ digest: TokenDigest) async throws -> CodeRecord? {
    try check()
    return codes[digest]
  }

  /// Removes a code. Returns false if it does not exist.
  public func deleteCode(_ digest: TokenDigest) async throws -> Bool {
    try check()
    return codes.removeValue(forKey: digest) != nil
  }

  /// Removes expired codes, and returns their number.
  public func purgeExpiredCodes(now: Int64, limit: Int) async throws -> Int {
    try check()
    let expired = codes.values.filter { $0.expiresAt <= now }.prefix(limit)
    for code in expired { codes[code.digest] = nil }
    return expired.count
  }

  private func check() throws {
    if let failure { throw failure }
  }

  private func checkLate() throws {
    defer { lateFailure = nil }
    if let lateFailure { throw lateFailure }
  }

  private func find(_ uid: String) -> Account? {
    uids[Array(uid.utf8)].flatMap { accounts[$0] }
  }

  private func keep(_ account: Account) {
    accounts[Array(account.emailNormalized.utf8)] = account
  }

  private func revokeTokens(of uid: String) {
    tokens = tokens.filter { !$0.value.uid.utf8.elementsEqual(uid.utf8) }
    codes = codes.filter { !$0.value.uid.utf8.elementsEqual(uid.utf8) }
  }

  private func page(
    _ accounts: [Account], by key: KeyPath<Account, String>, after: String?, limit: Int
  ) -> [Account] {
    let precedes = { (left: String, right: String) in
      left.utf8.lexicographicallyPrecedes(right.utf8)
    }
    let sorted = accounts.sorted { precedes($0[keyPath: key], $1[keyPath: key]) }
    let rest = sorted.filter { account in after.map { precedes($0, account[keyPath: key]) } ?? true
    }
    return Array(rest.prefix(limit))
  }
}
