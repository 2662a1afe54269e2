public import CanopyAccounts
internal import Testing

/// Checks that a store meets the requirements of ``AccountStore``. The same checks apply to every store.
///
/// Precondition: the store is empty. It is not empty afterwards.
public func verifyContract(of store: any AccountStore) async throws {
  let contract = AccountStoreContract(store: store)
  try await contract.checkEmptyStore()
  try await contract.checkInsertAndFind()
  try await contract.checkUniqueness()
  try await contract.checkConcurrentInserts()
  try await contract.checkPending()
  try await contract.checkPasswordHash()
  try await contract.checkTokens()
  try await contract.checkTokenCondition()
  try await contract.checkRevocation()
  try await contract.checkPurge()
  try await contract.checkOrder()
  try await contract.checkChange()
  try await contract.checkDetails()
  try await contract.checkDelete()
  try await contract.checkCodes()
  try await contract.checkLatestLogin()
  try await contract.checkTokenCount()
  try await contract.checkFirstToken()
}

private struct AccountStoreContract {
  let store: any AccountStore

  func checkEmptyStore() async throws {
    #expect(try await store.accounts(after: nil, limit: 10).isEmpty, "the store must be empty")
    #expect(try await store.pendingAccounts(after: nil, limit: 10).isEmpty)
    #expect(try await store.account(uid: "nobody") == nil)
    #expect(try await store.account(emailNormalized: "nobody@x") == nil)
    #expect(try await store.token(digest(0)) == nil)
    #expect(try await store.purgeExpired(now: .max, limit: 10) == 0)
    #expect(try await !store.activate(uid: "nobody"))
    #expect(try await !store.deletePending(uid: "nobody"))
    #expect(try await !store.setDisabled(true, uid: "nobody"))
    #expect(
      try await !store.setPasswordHash(
        "h", uid: "nobody", ifCurrent: nil, revokingTokens: true))
    #expect(try await !store.insertToken(token(0, "nobody"), ifPasswordHash: "h"))
    #expect(try await !store.delete(uid: "nobody"))
    #expect(try await store.code(digest(0)) == nil)
    try await store.deleteToken(digest(0))
  }

  func checkInsertAndFind() async throws {
    let account = Account(
      uid: "findUid",
      email: "Find.É@Example.org",
      emailNormalized: "find.é@example.org",
      username: "née \u{1F469}\u{200D}\u{1F680}, \"o'k\"; --",
      passwordHash: "$argon2id$find",
      createdAt: 1_700_000_000_123,
      isDisabled: true,
      isPending: true
    )
    #expect(try await store.insert(account))
    #expect(try await store.account(uid: "findUid") == account)
    #expect(try await store.account(emailNormalized: "find.é@example.org") == account)
    #expect(try await store.account(uid: "finduid") == nil, "a uid is compared byte by byte")
    #expect(try await store.account(emailNormalized: "FIND.é@example.org") == nil)
    #expect(
      try await store.account(emailNormalized: "find.e\u{301}@example.org") == nil,
      "addresses are compared byte by byte")
    #expect(try await store.deletePending(uid: "findUid"))
  }

  func checkUniqueness() async throws {
    let first = try await inserted("unique")
    let sameEmail = account("other", email: first.emailNormalized)
    #expect(try await !store.insert(sameEmail))
    #expect(try await store.account(uid: "other") == nil, "a refused account leaves no trace")
    let sameUid = account("unique", email: "elsewhere@x")
    #expect(try await !store.insert(sameUid))
    #expect(try await store.account(emailNormalized: "elsewhere@x") == nil)
    #expect(try await store.account(uid: "unique") == first)
    let pending = account("held", isPending: true)
    #expect(try await store.insert(pending))
    #expect(
      try await !store.insert(account("late", email: pending.emailNormalized)),
      "a pending account holds its address")
    #expect(try await store.deletePending(uid: "held"))
  }

  func checkConcurrentInserts() async throws {
    let inserted = try await withThrowingTaskGroup(of: Bool.self) { group in
      for number in 0..<20 {
        group.addTask { try await store.insert(account("race\(number)", email: "race@x")) }
      }
      return try await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
    }
    #expect(inserted == 1, "one of twenty accounts gets the address")
  }

  func checkPending() async throws {
    for uid in ["p3", "p1", "p2"] {
      #expect(try await store.insert(account(uid, isPending: true)))
    }
    #expect(try await store.pendingAccounts(after: nil, limit: 2).map(\.uid) == ["p1", "p2"])
    #expect(try await store.pendingAccounts(after: "p2", limit: 2).map(\.uid) == ["p3"])
    #expect(try await store.pendingAccounts(after: "p3", limit: 2).isEmpty)

    #expect(try await store.activate(uid: "p1"))
    #expect(try await !store.activate(uid: "p1"), "only a pending account is activated")
    #expect(try await store.account(uid: "p1")?.isPending == false)
    #expect(try await !store.deletePending(uid: "p1"), "a full account is never removed")
    #expect(try await store.account(uid: "p1") != nil)

    #expect(try await store.deletePending(uid: "p2"))
    #expect(try await store.account(uid: "p2") == nil)
    #expect(try await store.insert(account("p4", email: "p2@x")), "the address is free again")
    #expect(try await store.deletePending(uid: "p3"))
    #expect(try await store.pendingAccounts(after: nil, limit: 2).isEmpty)
  }

  func checkPasswordHash() async throws {
    let account = try await inserted("hash")
    #expect(
      try await !store.setPasswordHash(
        "new", uid: "hash", ifCurrent: "other", revokingTokens: true))
    #expect(try await store.account(uid: "hash") == account)
    #expect(
      try await store.setPasswordHash(
        "new", uid: "hash", ifCurrent: account.passwordHash, revokingTokens: false))
    #expect(try await store.account(uid: "hash")?.passwordHash == "new")
    #expect(
      try await store.setPasswordHash(
        "newer", uid: "hash", ifCurrent: nil, revokingTokens: false))
    #expect(try await store.account(uid: "hash")?.passwordHash == "newer")
  }

  func checkTokens() async throws {
    let account = try await inserted("token")
    let record = token(1, "token", expiresAt: 77)
    #expect(try await store.insertToken(record, ifPasswordHash: account.passwordHash))
    let found = try await store.token(digest(1))
    #expect(found?.token == record)
    #expect(found?.account == account)
    #expect(try await store.token(digest(2)) == nil)
    try await store.deleteToken(digest(2))
    #expect(try await store.token(digest(1)) != nil)
    try await store.deleteToken(digest(1))
    #expect(try await store.token(digest(1)) == nil)
    try await store.deleteToken(digest(1))
  }

  func checkTokenCondition() async throws {
    let account = try await inserted("condition")
    let hash = account.passwordHash
    #expect(try await !store.insertToken(token(3, "condition"), ifPasswordHash: "other"))
    #expect(try await store.setDisabled(true, uid: "condition"))
    #expect(try await !store.insertToken(token(3, "condition"), ifPasswordHash: hash))
    #expect(try await store.setDisabled(false, uid: "condition"))
    #expect(try await store.insertToken(token(3, "condition"), ifPasswordHash: hash))

    let pending = self.account("conditionPending", isPending: true)
    #expect(try await store.insert(pending))
    #expect(
      try await !store.insertToken(
        token(4, "conditionPending"), ifPasswordHash: pending.passwordHash))
    #expect(try await store.deletePending(uid: "conditionPending"))
    #expect(try await store.token(digest(4)) == nil)
    try await store.deleteToken(digest(3))
  }

  func checkRevocation() async throws {
    let owner = try await inserted("owner")
    let other = try await inserted("bystander")
    func insertAll() async throws {
      let hash = try await store.account(uid: "owner")?.passwordHash ?? ""
      #expect(try await store.insertToken(token(5, "owner"), ifPasswordHash: hash))
      #expect(try await store.insertToken(token(6, "owner"), ifPasswordHash: hash))
    }
    #expect(
      try await store.insertToken(token(7, "bystander"), ifPasswordHash: other.passwordHash))

    try await insertAll()
    #expect(
      try await store.setPasswordHash(
        "second", uid: "owner", ifCurrent: owner.passwordHash, revokingTokens: false))
    #expect(try await store.token(digest(5)) != nil, "tokens stay unless they are revoked")
    #expect(
      try await !store.setPasswordHash(
        "third", uid: "owner", ifCurrent: "first", revokingTokens: true))
    #expect(try await store.token(digest(5)) != nil, "a refused change revokes nothing")
    #expect(
      try await store.setPasswordHash(
        "third", uid: "owner", ifCurrent: "second", revokingTokens: true))
    #expect(try await store.token(digest(5)) == nil)
    #expect(try await store.token(digest(6)) == nil)

    try await insertAll()
    #expect(try await store.setDisabled(true, uid: "owner"))
    #expect(try await store.account(uid: "owner")?.isDisabled == true)
    #expect(try await store.setDisabled(false, uid: "owner"))
    #expect(try await store.account(uid: "owner")?.isDisabled == false)
    #expect(try await store.token(digest(5)) == nil, "disabling revokes for good")
    #expect(try await store.token(digest(6)) == nil)
    #expect(try await store.token(digest(7)) != nil, "other accounts keep their tokens")
    try await store.deleteToken(digest(7))
  }

  func checkPurge() async throws {
    let hash = try await inserted("purge").passwordHash
    for (number, expiresAt) in [(10, 100), (11, 101), (12, 102), (13, 103)] as [(UInt8, Int64)] {
      let record = token(number, "purge", expiresAt: expiresAt)
      #expect(try await store.insertToken(record, ifPasswordHash: hash))
    }
    #expect(try await store.purgeExpired(now: 99, limit: 10) == 0)
    #expect(try await store.purgeExpired(now: 100, limit: 10) == 1, "expired at its time")
    #expect(try await store.token(digest(10)) == nil)
    #expect(try await store.token(digest(11)) != nil)
    #expect(try await store.purgeExpired(now: 1_000, limit: 2) == 2, "no more than the limit")
    #expect(try await store.purgeExpired(now: 1_000, limit: 2) == 1)
    #expect(try await store.purgeExpired(now: 1_000, limit: 2) == 0)
  }

  func checkOrder() async throws {
    // By bytes: a letter beyond ASCII after all of ASCII, and one beyond the basic plane last.
    let emails = ["order-a@x", "order-z@x", "order-é@x", "order-\u{FF41}@x", "order-\u{1F600}@x"]
    for (number, email) in emails.reversed().enumerated() {
      #expect(try await store.insert(account("order\(number)", email: email)))
    }
    var listed: [String] = []
    var after: String? = "order-"
    while true {
      let page = try await store.accounts(after: after, limit: 2)
      listed += page.map(\.emailNormalized).filter { $0.hasPrefix("order-") }
      guard let last = page.last, page.count == 2 else { break }
      after = last.emailNormalized
    }
    #expect(listed == emails)
    let all = try await store.accounts(after: nil, limit: 1_000).map(\.emailNormalized)
    let isSorted = zip(all, all.dropFirst()).allSatisfy {
      $0.utf8.lexicographicallyPrecedes($1.utf8)
    }
    #expect(isSorted)
    #expect(try await store.accounts(after: all.last, limit: 10).isEmpty)
  }

  func checkChange() async throws {
    let account = try await inserted("change")
    let other = try await inserted("change-other")
    #expect(
      try await store.change(uid: "nobody", revokingTokens: true) { _ in true } == .missing)
    let unchanged = try await store.change(uid: "change", revokingTokens: true) {
      $0.email = "Elsewhere@x"
      return false
    }
    #expect(unchanged == .unchanged)
    let taken = try await store.change(uid: "change", revokingTokens: true) {
      $0.emailNormalized = other.emailNormalized
      return true
    }
    #expect(taken == .taken)
    await #expect(throws: Refusal.self) {
      try await store.change(uid: "change", revokingTokens: true) {
        $0.email = "Elsewhere@x"
        throw Refusal()
      }
    }
    #expect(try await store.account(uid: "change") == account)

    #expect(try await store.insertToken(token(30, "change"), ifPasswordHash: account.passwordHash))
    var expected = account
    expected.email = "New@x"
    expected.emailNormalized = "new@x"
    let new = expected
    let changed = try await store.change(uid: "change", revokingTokens: false) {
      $0 = new
      return true
    }
    #expect(changed == .changed(new))
    #expect(try await store.account(uid: "change") == new)
    #expect(try await store.account(emailNormalized: "new@x") == new)
    #expect(try await store.account(emailNormalized: account.emailNormalized) == nil)
    #expect(try await store.token(digest(30))?.account == new)
    #expect(try await store.change(uid: "change", revokingTokens: true) { _ in true } != .missing)
    #expect(try await store.token(digest(30)) == nil)
  }

  func checkDetails() async throws {
    let details = AccountDetails(
      displayName: "Ada é", photoURL: "https://x/y", claims: #"{"role":"editor"}"#,
      isEmailVerified: true, isCustom: true, validSince: 7, lastLoginAt: 8, lastRefreshAt: 9)
    var first = account("details")
    first.details = details
    #expect(try await store.insert(first))
    #expect(try await store.account(uid: "details") == first)
    #expect(try await store.account(emailNormalized: first.emailNormalized) == first)
    let page = try await store.accounts(after: "detail", limit: 1)
    #expect(page == [first])

    let plain = try await inserted("details-later")
    #expect(plain.details == AccountDetails())
    _ = try await store.change(uid: "details-later", revokingTokens: false) {
      $0.details = details
      return true
    }
    #expect(try await store.account(uid: "details-later")?.details == details)
    let login = TokenRecord(
      digest: digest(31), uid: "details-later", expiresAt: 5, customClaims: #"{"a":1}"#)
    #expect(
      try await store.insertToken(login, ifPasswordHash: plain.passwordHash, loginAt: 1_234))
    let found = try await store.token(digest(31))
    #expect(found?.token == login, "the claims of a custom token stay with the session")
    #expect(found?.account.details.lastLoginAt == 1_234)
    #expect(found?.account.details.displayName == "Ada é")
    _ = try await store.change(uid: "details-later", revokingTokens: false) {
      $0.details = AccountDetails()
      return true
    }
    #expect(try await store.account(uid: "details-later") == plain)
    try await store.deleteToken(digest(31))
    #expect(
      try await store.insertToken(
        token(31, "details-later"), ifPasswordHash: plain.passwordHash))
    #expect(try await store.token(digest(31))?.token.customClaims == nil)
    try await store.deleteToken(digest(31))
  }

  func checkDelete() async throws {
    let account = try await inserted("delete")
    let hash = account.passwordHash
    let login = TokenRecord(
      digest: digest(32), uid: "delete", expiresAt: 5, customClaims: "{}")
    #expect(try await store.insertToken(login, ifPasswordHash: hash, loginAt: 6))
    #expect(try await insert(code(33, "delete")))
    #expect(try await store.delete(uid: "delete"))
    #expect(try await !store.delete(uid: "delete"))
    #expect(try await store.account(uid: "delete") == nil)
    #expect(try await store.token(digest(32)) == nil)
    #expect(try await store.code(digest(33)) == nil)
    #expect(try await store.insert(account), "the address and the uid are free again")
    #expect(try await store.account(uid: "delete") == account, "without the data of the former")
    #expect(try await !insert(code(33, "nobody")))
  }

  func checkCodes() async throws {
    _ = try await inserted("codes")
    _ = try await inserted("codes-other")
    #expect(try await insert(code(40, "codes-other", expiresAt: 1)))
    for (number, end, isAdded) in [(44, 90, true), (42, 101, true), (41, 100, false)]
      as [(UInt8, Int64, Bool)]
    {
      #expect(try await insert(code(number, "codes", expiresAt: end)) == isAdded)
    }
    #expect(try await store.code(digest(41)) == nil, "earlier codes stay valid")
    #expect(try await store.code(digest(44)) == code(44, "codes", expiresAt: 90))
    let other = CodeRecord(
      digest: digest(45), uid: "codes", purpose: .verifyEmail, email: "codes@x", expiresAt: 1)
    #expect(try await insert(other), "each purpose has a bound of its own")
    #expect(
      try await insert(code(43, "codes", expiresAt: 102), keepingEnds: 91...101),
      "a code that ends outside does not count")
    #expect(try await store.code(digest(44)) == nil)
    #expect(try await store.deleteCode(digest(45)), "those of other purposes stay")
    #expect(
      try await !insert(code(46, "codes", expiresAt: 103), keepingEnds: 101...102),
      "one that ends at the bound counts")
    #expect(try await store.code(digest(42)) == code(42, "codes", expiresAt: 101))
    #expect(try await store.code(digest(40)) != nil, "codes of other accounts stay")
    #expect(try await store.deleteCode(digest(42)))
    #expect(try await !store.deleteCode(digest(42)), "a code is used once")
    #expect(try await store.purgeExpiredCodes(now: 0, limit: 10) == 0)
    #expect(try await store.purgeExpiredCodes(now: 1, limit: 10) == 1, "expired at its time")
    #expect(try await store.code(digest(40)) == nil)
    #expect(try await store.change(uid: "codes", revokingTokens: true) { _ in true } != .missing)
    #expect(try await store.code(digest(43)) == nil, "a code ends with the tokens")
  }

  func checkLatestLogin() async throws {
    let plain = try await inserted("latest")
    for (number, time) in [(50, 9_000), (51, 4_000)] as [(UInt8, Int64)] {
      #expect(
        try await store.insertToken(
          token(number, "latest"), ifPasswordHash: plain.passwordHash, loginAt: time))
    }
    #expect(try await store.account(uid: "latest")?.details.lastLoginAt == 9_000)
    #expect(try await store.account(uid: "latest")?.latestLogin == 9)
    #expect(try await store.delete(uid: "latest"))
    var again = plain
    again.details.validSince = 3
    #expect(try await store.insert(again))
    #expect(try await store.account(uid: "latest")?.details.validSince == 10)
    #expect(try await store.delete(uid: "latest"))
    again.details.validSince = 40
    #expect(try await store.insert(again))
    #expect(try await store.account(uid: "latest")?.details.validSince == 40)
    let fresh = try await inserted("latest-other")
    #expect(try await store.account(uid: "latest-other") == fresh, "it has ended no logins")
  }

  func checkTokenCount() async throws {
    let hash = try await inserted("count").passwordHash
    let other = try await inserted("count-other").passwordHash
    #expect(
      try await store.insertToken(token(60, "count-other", expiresAt: 1), ifPasswordHash: other))
    for (number, end, ended) in [
      (61, 30, nil), (62, 10, nil), (63, 20, 62), (64, 5, 63),
    ] as [(UInt8, Int64, UInt8?)] {
      #expect(
        try await store.insertToken(
          token(number, "count", expiresAt: end), ifPasswordHash: hash, loginAt: nil, countMax: 2)
          == ended.map { [digest($0)] } ?? [], "the tokens that it removes")
    }
    #expect(
      try await store.insertToken(
        token(65, "count"), ifPasswordHash: "other", loginAt: nil, countMax: 1) == nil)
    #expect(try await store.token(digest(64)) != nil, "the new one stays, although it ends first")
    #expect(try await store.token(digest(61)) != nil)
    for number in [62, 63] as [UInt8] { #expect(try await store.token(digest(number)) == nil) }
    #expect(try await store.token(digest(60)) != nil, "tokens of other accounts stay")
  }

  func checkFirstToken() async throws {
    let first = account("first")
    let record = TokenRecord(
      digest: digest(70), uid: "first", expiresAt: 7, customClaims: #"{"a":1}"#)
    #expect(try await store.insert(first, token: record))
    #expect(try await store.token(digest(70))?.token == record)
    #expect(try await store.token(digest(70))?.account == first)
    let late = account("first-late", email: first.emailNormalized)
    #expect(try await !store.insert(late, token: token(71, "first-late")))
    #expect(try await store.token(digest(71)) == nil, "a refused account leaves no token")
  }

  private struct Refusal: Error {}

  private func insert(
    _ code: CodeRecord, keepingEnds ends: ClosedRange<Int64> = 0...Int64.max
  ) async throws -> Bool {
    try await store.insertCode(code, countMax: 2, keepingEnds: ends)
  }

  private func code(_ number: UInt8, _ uid: String, expiresAt: Int64 = 1_000) -> CodeRecord {
    CodeRecord(
      digest: digest(number), uid: uid, purpose: .resetPassword, email: "\(uid)@x",
      expiresAt: expiresAt)
  }

  private func inserted(_ uid: String) async throws -> Account {
    let account = account(uid)
    #expect(try await store.insert(account))
    return account
  }

  private func account(_ uid: String, email: String? = nil, isPending: Bool = false) -> Account {
    let email = email ?? "\(uid.lowercased())@x"
    return Account(
      uid: uid,
      email: email,
      emailNormalized: email,
      username: uid,
      passwordHash: "hash of \(uid)",
      createdAt: 5,
      isPending: isPending
    )
  }

  private func digest(_ number: UInt8) -> TokenDigest {
    TokenDigest(bytes: [UInt8](repeating: number, count: 32))
  }

  private func token(_ number: UInt8, _ uid: String, expiresAt: Int64 = 1_000) -> TokenRecord {
    TokenRecord(digest: digest(number), uid: uid, expiresAt: expiresAt)
  }
}
