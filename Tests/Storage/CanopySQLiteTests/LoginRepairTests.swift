import CanopyAccounts
import CanopyEngine
import CanopyTesting
import CanopyTree
import Foundation
import GRDB
import Testing

@testable import CanopySQLite

/// The logins that a repair ends.
@Suite(.timeLimit(.minutes(20))) struct LoginRepairTests {
  let folder: Folder

  init() throws {
    folder = try Folder()
  }

  /// Fills a folder with two accounts, a session of each, and a code.
  private func fillAccounts() async throws {
    try await folder.withStore { store in
      try store.append([commit(1, "n", 1)], after: 0)
      for (uid, byte, login) in [("u1", 1, 9_000_000), ("u2", 2, 4_000_000)]
        as [(String, UInt8, Int64)]
      {
        var account = Account(
          uid: uid, email: uid, emailNormalized: uid, username: uid, passwordHash: "h",
          createdAt: 1, isDisabled: false, isPending: false)
        account.details.lastLoginAt = login
        let token = TokenRecord(
          digest: TokenDigest(bytes: Array(repeating: byte, count: 32)), uid: uid,
          expiresAt: 100_000_000, customClaims: "{}")
        #expect(try await store.insert(account, token: token, loginTime: nil))
      }
      try await store.pool.write { db in
        try db.execute(
          sql: "INSERT INTO account_codes VALUES (x'05', 'u1', 'reset', 'u1', 100000000, 0)")
        try SealedTable.accountCodes.seal(db, where: "true", [])
      }
      #expect(try await store.problems().isEmpty)
    }
  }

  /// Accepts the loss at the second 5,000, and expects a sound folder. Returns the losses.
  private func acceptLosses() async throws -> [String] {
    var configuration = SQLiteStore.Configuration()
    configuration.acceptsLoss = true
    configuration.currentTime = 5_000_000
    let losses = try await folder.withStore(configuration) { try await $0.acceptLosses() }
    try await folder.withStore { store async throws in
      #expect(try await store.problems().isEmpty)
    }
    return losses.notes
  }

  private func validSince(_ uid: String) async throws -> Int64? {
    try await folder.withStore { try await $0.account(uid: uid)?.details.validSince }
  }

  private func deletedLogin() async throws -> Int64? {
    try await folder.withStore { store in
      try await store.pool.read { try Meta.readUnchecked($0).deletedLogin }
    }
  }

  @Test(arguments: [
    (SealedTable.accounts, "UPDATE accounts SET is_disabled = 1"),
    (.tokens, "DELETE FROM tokens"),
    (.accountDetails, "UPDATE account_details SET claims = '{}'"),
    (.customSessions, "UPDATE custom_sessions SET claims = '{\"a\":1}'"),
    (.accountCodes, "DELETE FROM account_codes"),
  ])
  func `older rows of accounts or sessions end all logins, and an altered session only itself`(
    table: SealedTable, change: String
  ) async throws {
    try await fillAccounts()
    try await folder.withStore { store in
      try await store.damage("UPDATE tokens SET expires_at = 1 WHERE uid = 'u2'", isSealed: false)
    }
    #expect(try await acceptLosses() == ["1 altered rows of the table tokens"])
    for table in [SealedTable.tokens, .customSessions, .accountCodes] {
      #expect(try await folder.count(table) == 1, "\(table)")
    }
    #expect(try await validSince("u1") == 0)

    try await folder.lose(change, of: table)
    let notes = try await acceptLosses()
    let beginning = "rows of the table \(table.rawValue) that are missing or older"
    #expect(notes.contains { $0.hasPrefix(beginning) }, "\(notes)")
    #expect(notes.contains { $0.hasPrefix("all sessions") }, "\(notes)")
    for table in [SealedTable.tokens, .customSessions, .accountCodes] {
      #expect(try await folder.count(table) == 0, "\(table)")
    }
    // The last login of the first account was after the time of the repair.
    #expect(try await validSince("u1") == 9_001)
    #expect(try await validSince("u2") == 5_001)
    #expect(try await deletedLogin() == (table == .accounts ? 5_000 : nil))
  }

  @Test func `older rows of deleted accounts end the logins of new accounts, and no others`()
    async throws
  {
    try await fillAccounts()
    try await folder.withStore { store async throws in
      #expect(try await store.delete(uid: "u2", at: 1_000))
    }
    #expect(try await deletedLogin() == 4_000)
    try await folder.lose("UPDATE deleted_accounts SET end_of_logins = 4500", of: .deletedAccounts)
    let notes = try await acceptLosses()
    #expect(notes == ["rows of the table deleted_accounts that are missing or older"])
    #expect(try await deletedLogin() == 5_000)
    #expect(try await folder.withStore { try await $0.endOfLogins(uid: "u3") } == 5_001)
    #expect(try await folder.count(.tokens) == 1)
    #expect(try await validSince("u1") == 0)
  }

  @Test(arguments: [
    (SealedTable.accounts, "UPDATE accounts SET email = 'x' WHERE uid = 'u2'"),
    (.accountDetails, "UPDATE account_details SET valid_since = 70000 WHERE uid = 'u2'"),
    (.customSessions, "UPDATE custom_sessions SET claims = 'x' WHERE hash = x'\(Self.hash(2))'"),
  ])
  func `an altered row that can end or limit logins ends all of them`(
    table: SealedTable, change: String
  ) async throws {
    try await fillAccounts()
    try await folder.withStore { try await $0.damage(change, isSealed: false) }
    let notes = try await acceptLosses()
    #expect(notes.contains("1 altered rows of the table \(table.rawValue)"), "\(notes)")
    #expect(notes.contains { $0.hasPrefix("all sessions") }, "\(notes)")
    for table in [SealedTable.tokens, .customSessions, .accountCodes] {
      #expect(try await folder.count(table) == 0, "\(table)")
    }
    #expect(try await validSince("u1") == 9_001)
    #expect(try await validSince("u2") == (table == .accounts ? nil : 5_001))
    #expect(try await deletedLogin() == (table == .accounts ? 5_000 : nil))
  }

  private static func hash(_ byte: Int) -> String {
    String(repeating: "0\(byte)", count: 32)
  }

  @Test func `after the loss of a deletion no earlier custom token makes the account again`()
    async throws
  {
    try await fillAccounts()
    try await folder.withStore { store async throws in
      #expect(try await store.delete(uid: "u2", at: 4_500_000))
      try await store.damage("UPDATE deleted_accounts SET uid = 'u3'", isSealed: false)
    }
    #expect(try await acceptLosses() == ["1 altered rows of the table deleted_accounts"])
    #expect(try await validSince("u1") == 0)
    #expect(try await folder.count(.tokens) == 1)
    try await folder.withStore { store async throws in
      var account = Account(
        uid: "u2", email: "e", emailNormalized: "e", username: "n", passwordHash: "h",
        createdAt: 1, isDisabled: false, isPending: false)
      account.details.validSince = 4_400
      #expect(try await !store.insert(account, token: nil, loginTime: 4_400))
      #expect(try await store.endOfLogins(uid: "u2") == 5_001)
      #expect(try await store.insert(account, token: nil, loginTime: 5_001))
      #expect(try await store.account(uid: "u2")?.details.validSince == 5_001)
      // A custom token is valid for an hour, so the end of logins is forgotten after a day.
      #expect(try await store.purgeDeleted(until: 5_000_000, limit: 10) == 1)
      #expect(try await store.endOfLogins(uid: "u3") == nil)
    }
  }

  @Test func `a deleted login in the future is found, corrected, and given to no account`()
    async throws
  {
    func insert(_ uid: String, at second: Int64, _ store: SQLiteStore) async throws -> Int64? {
      var account = Account(
        uid: uid, email: uid, emailNormalized: uid, username: uid, passwordHash: "h",
        createdAt: 1, isDisabled: false, isPending: false)
      account.details.validSince = second
      #expect(try await store.insert(account, token: nil, loginTime: second))
      return try await store.account(uid: uid)?.details.validSince
    }
    try await fillAccounts()
    try await folder.withStore { store async throws in
      #expect(try await store.delete(uid: "u2", at: 4_500_000))
      #expect(try await insert("u3", at: 3_900, store) == 4_001)
      #expect(try await store.problems(at: 5_000_000).isEmpty)
      try await store.pool.write { db in
        try db.execute(
          sql: "UPDATE meta SET value = value + 100000000 WHERE name = 'deleted_login'")
      }
      let problems = try await store.problems(at: 5_000_000)
      #expect(problems.count == 1 && problems[0].contains("more than a day in the future"))
      #expect(try await insert("u4", at: 4_900, store) == 4_900)
    }
    let note = "the time of the latest login of a deleted account, which was in the future"
    #expect(try await acceptLosses() == [note])
    #expect(try await deletedLogin() == 5_000)
    try await folder.withStore { store async throws in
      #expect(try await store.problems(at: 5_000_000).isEmpty)
      #expect(try await insert("u5", at: 4_900, store) == 5_001)
      // The clock may have been set back by some hours.
      #expect(try await store.problems(at: 0).isEmpty)
    }
    #expect(try await acceptLosses().isEmpty)
  }

  @Test func `a lost change of accounts ends all logins and removes all on-disconnect writes`()
    async throws
  {
    try await fillAccounts()
    let older = try await folder.withStore { store in
      _ = try await store.changeDisconnectWrites(
        adding: ("administrator", "SET /gone 1"), exceptions: [:], removing: [])
      let older = try folder.crashed()
      // It is not known which change is lost. It could be the end of a session or a cancellation.
      _ = try await store.changeDisconnectWrites(adding: nil, exceptions: [:], removing: [1])
      return older
    }
    let tail = try Data(contentsOf: URL(filePath: folder.path + "/canopy.tail"))
    try tail.write(to: URL(filePath: older.path + "/canopy.tail"))
    let error = await #expect(throws: StoreError.self) { try await older.withStore { _ in } }
    expectAdvice(error, mentions: "1 changes to accounts", "are missing")
    let notes = try await older.acceptLosses()
    for beginning in ["1 changes to accounts", "all sessions", "all on-disconnect writes"] {
      #expect(notes.contains { $0.hasPrefix(beginning) }, "\(notes)")
    }
    for table in [SealedTable.tokens, .accountCodes, .disconnectWrites] {
      #expect(try await older.count(table) == 0, "\(table)")
    }
    try await older.withStore { store async throws in
      #expect(try await store.problems().isEmpty)
      #expect(try await store.account(uid: "u2")?.details.validSince == 5_001)
      #expect(try await store.endOfLogins(uid: "u3") == 5_001)
    }
  }
}
