internal import CanopyAccounts
internal import Testing

/// Accounts: their order, and changes of them.
extension AccountStoreContract {
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
    #expect(try await store.delete(uid: "delete", at: 0))
    #expect(try await !store.delete(uid: "delete", at: 0))
    #expect(try await store.account(uid: "delete") == nil)
    #expect(try await store.token(digest(32)) == nil)
    #expect(try await store.code(digest(33)) == nil)
    #expect(try await store.insert(account), "the address and the uid are free again")
    #expect(try await store.account(uid: "delete") == account, "without the data of the former")
    #expect(try await !insert(code(33, "nobody")))
  }
}
