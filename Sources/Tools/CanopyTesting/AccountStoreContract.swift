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
  try await contract.checkDeletion()
  try await contract.checkEndOfAllLogins()
  try await contract.checkTokenCount()
  try await contract.checkFirstToken()
}

/// The checks of one store. The other file has those of changes to accounts.
struct AccountStoreContract {
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
    #expect(try await !store.delete(uid: "nobody", at: 0))
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
    #expect(try await store.delete(uid: "latest", at: 0))
    var again = plain
    again.details.validSince = 3
    #expect(try await store.insert(again))
    #expect(try await store.account(uid: "latest")?.details.validSince == 10)
    #expect(try await store.delete(uid: "latest", at: 0))
    again.details.validSince = 40
    #expect(try await store.insert(again))
    #expect(try await store.account(uid: "latest")?.details.validSince == 40)
    let fresh = try await inserted("latest-other")
    #expect(try await store.account(uid: "latest-other") == fresh, "it has ended no logins")
  }

  func checkDeletion() async throws {
    let uids = ["deleted-\u{E9}", "deleted-e\u{301}"]
    for uid in uids {
      #expect(try await store.endOfLogins(uid: uid) == nil)
      #expect(try await store.insert(account(uid)))
    }
    #expect(try await store.delete(uid: uids[0], at: 50_000))
    #expect(try await store.endOfLogins(uid: uids[0]) == 51, "after the second of the deletion")
    #expect(try await store.endOfLogins(uid: uids[1]) == nil, "texts with other bytes")
    var again = account(uids[0])
    again.details.validSince = 50
    #expect(try await !store.insert(again, token: nil, loginTime: 50))
    #expect(try await store.account(uid: uids[0]) == nil, "a refused account leaves no trace")
    #expect(try await store.insert(again, token: nil, loginTime: 51))
    #expect(try await store.account(uid: uids[0])?.details.validSince == 51)
    // The account is there, and its former deletion is still known.
    #expect(try await store.endOfLogins(uid: uids[0]) == 51)
    #expect(try await store.delete(uid: uids[0], at: 40_000), "the clock was set back")
    #expect(try await store.endOfLogins(uid: uids[0]) == 52)
    #expect(try await store.delete(uid: uids[1], at: 60_000))
    #expect(try await store.purgeDeleted(until: 49_999, limit: 10) >= 0)
    #expect(try await store.endOfLogins(uid: uids[0]) == 52)
    #expect(try await store.purgeDeleted(until: 60_000, limit: 1) == 1, "no more than the limit")
    #expect(try await store.purgeDeleted(until: 60_000, limit: 10) == 1)
    for uid in uids { #expect(try await store.endOfLogins(uid: uid) == nil) }
    #expect(try await store.insert(again, token: nil, loginTime: 1), "it is forgotten")
  }

  /// A move keeps the end of all logins that a repair has noted.
  func checkEndOfAllLogins() async throws {
    guard let store = store as? any MovableAccountStore else { return }
    #expect(try await store.insert(account("all-own")))
    #expect(try await store.delete(uid: "all-own", at: 90_000))
    let all = DeletedAccount(uid: DeletedAccount.anyUID, endOfLogins: 70, deletedAt: 70_000)
    try await store.insertDeleted([all], latestLogin: nil)
    #expect(try await store.deletedAccounts(after: nil, limit: 1) == [all])
    #expect(try await store.endOfLogins(uid: "all-other") == 70)
    #expect(try await store.endOfLogins(uid: "all-own") == 91, "its own end is later")
    var other = account("all-other")
    other.details.validSince = 60
    #expect(try await !store.insert(other, token: nil, loginTime: 69))
    #expect(try await store.insert(other, token: nil, loginTime: 70))
    #expect(try await store.account(uid: "all-other")?.details.validSince == 70)
    #expect(try await store.purgeDeleted(until: 90_000, limit: 10) == 2)
    #expect(try await store.endOfLogins(uid: "all-own") == nil)
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

  struct Refusal: Error {}

  func insert(
    _ code: CodeRecord, keepingEnds ends: ClosedRange<Int64> = 0...Int64.max
  ) async throws -> Bool {
    try await store.insertCode(code, countMax: 2, keepingEnds: ends)
  }

  func code(_ number: UInt8, _ uid: String, expiresAt: Int64 = 1_000) -> CodeRecord {
    CodeRecord(
      digest: digest(number), uid: uid, purpose: .resetPassword, email: "\(uid)@x",
      expiresAt: expiresAt)
  }

  func inserted(_ uid: String) async throws -> Account {
    let account = account(uid)
    #expect(try await store.insert(account))
    return account
  }

  func account(_ uid: String, email: String? = nil, isPending: Bool = false) -> Account {
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

  func digest(_ number: UInt8) -> TokenDigest {
    TokenDigest(bytes: [UInt8](repeating: number, count: 32))
  }

  func token(_ number: UInt8, _ uid: String, expiresAt: Int64 = 1_000) -> TokenRecord {
    TokenRecord(digest: digest(number), uid: uid, expiresAt: expiresAt)
  }
}
