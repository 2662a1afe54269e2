import CanopyAccounts
import CanopyEngine
import CanopyRows
import CanopyTesting
import CanopyTree
import Foundation
import GRDB
import Testing

@testable import CanopySQLite

/// Databases in which definitions of tables, indexes or triggers were altered.
@Suite(.timeLimit(.minutes(20))) struct DefinitionRepairTests {
  let folder: Folder
  let tables: AllTables

  init() async throws {
    folder = try Folder()
    var random = SeededGenerator(printingSeedFor: "DefinitionRepairTests")
    tables = try await AllTables(folder, &random)
  }

  /// Changes the table with the definitions.
  private func alter(_ sql: String, isSealed: Bool = false) throws {
    let queue = try DatabaseQueue(path: folder.database)
    try queue.write { db in
      // No page keeps the text of a former definition.
      try db.execute(sql: "PRAGMA secure_delete = ON; PRAGMA writable_schema = ON")
      try db.execute(sql: sql)
      guard isSealed else { return }
      var meta = try Meta.read(db)
      meta[.schema] = try Schema.checksum(db).stored
      try meta.write(db)
    }
    try queue.close()
  }

  /// Returns the statement that changes a text in a definition.
  private static func change(_ name: String, _ old: String, to new: String) -> String {
    "UPDATE sqlite_schema SET sql = replace(sql, '\(old)', '\(new)') WHERE name = '\(name)'"
  }

  /// Expects a sound folder with the definitions of this version and the whole tree.
  private func expectSound() async throws {
    try await folder.withStore { store in
      let problems = try await store.problems()
      #expect(problems.isEmpty)
      let root = try await store.tree().root
      #expect(root == tables.root)
    }
    let isRight = try folder.read { try Schema.hasDefinitionsOfThisVersion($0) }
    #expect(isRight)
  }

  @Test(arguments: [
    Self.change("accounts", "CREATE TABLE", to: "cREATE TABLE"),
    Self.change("sum_tokens_insert", "(value +", to: "(value -"),
    Self.change("tokens_by_uid", "(uid)", to: "(expires_at)"),
    // Other columns, another order and other types.
    Self.change("accounts", "uid TEXT PRIMARY", to: "uie TEXT PRIMARY"),
    Self.change("tokens", "uid TEXT NOT NULL, ", to: ""),
    Self.change("tokens", "BLOB PRIMARY KEY", to: "BLOB PRIMARY KEY, more TEXT"),
    Self.change(
      "tokens", "uid TEXT NOT NULL, expires_at INTEGER NOT NULL",
      to: "expires_at INTEGER NOT NULL, uid TEXT NOT NULL"),
    Self.change("client_writes", "PRIMARY KEY(client, number)", to: "PRIMARY KEY(number, client)"),
    Self.change("meta", "value INTEGER", to: "value BLOB"),
    Self.change("grdb_migrations", "identifier", to: "identifies"),
    // Invalid definitions.
    Self.change("commits", "INTEGER", to: "INTEGES"),
    Self.change("leaves", "WITHOUT ROWID", to: "WITHOUT ROWIE"),
    "UPDATE sqlite_schema SET sql = NULL WHERE name = 'tokens'",
    // Other names.
    "UPDATE sqlite_schema SET name = 'tokenr' WHERE name = 'tokens'",
    "UPDATE sqlite_schema SET type = 'tabme' WHERE name = 'commits'",
    "UPDATE sqlite_schema SET tbl_name = 'tokenr' WHERE name = 'sum_tokens_insert'",
    "UPDATE sqlite_schema SET name = 'sqlite_autoindex_accounts_3' WHERE name = 'sqlite_autoindex_accounts_2'",
    "UPDATE sqlite_schema SET name = 'x', sql = upper(sql) WHERE name = 'account_codes'",
    // Missing and other ones.
    "DELETE FROM sqlite_schema WHERE name = 'accounts_pending'",
    "DELETE FROM sqlite_schema WHERE name = 'sum_tokens_delete'",
    "CREATE TABLE more(a)",
    "CREATE TRIGGER more AFTER DELETE ON tokens BEGIN DELETE FROM accounts; END",
  ])
  func `an altered definition is written again, and no row is lost`(change: String) async throws {
    let before = try folder.read { try AllTables.rows($0) }
    try alter(change)
    await #expect(throws: (any Error).self) {
      try await folder.withStore { _ = try await $0.load() }
    }
    let notes = try await folder.acceptLosses()
    #expect(notes == [])
    try await expectSound()
    let after = try folder.read { try AllTables.rows($0) }
    #expect(after == before)
  }

  @Test func `an altered definition whose checksum is right is written again, too`() async throws {
    try alter(Self.change("sum_tokens_insert", "(value +", to: "(value -"), isSealed: true)
    let notes = try await folder.acceptLosses()
    #expect(notes == [])
    try await expectSound()
  }

  @Test func `a trigger that was altered beside a row counts right after the repair`() async throws
  {
    try alter(Self.change("sum_tokens_update", "+ (new", to: "- (new"))
    try alter("DELETE FROM leaves WHERE path = (SELECT min(path) FROM leaves)")
    let notes = try await folder.acceptLosses()
    #expect(notes.contains { $0.contains("rows of the checkpoint") }, "\(notes)")
    try await folder.withStore { store async throws in
      let account = Account(
        uid: "new", email: "new", emailNormalized: "new", username: "new", passwordHash: "h",
        createdAt: 1, isDisabled: false, isPending: false)
      let token = TokenRecord(
        digest: TokenDigest(bytes: Array(repeating: 1, count: 32)), uid: "new",
        expiresAt: 100_000_000, customClaims: "{}")
      #expect(try await store.insert(account, token: token, loginTime: nil))
    }
    try await folder.withStore { store async throws in
      _ = try await store.load()
      #expect(try await store.problems().isEmpty)
    }
  }

  @Test func `a table whose definition is missing is lost alone, and reported`() async throws {
    let before = try folder.read { try AllTables.rows($0) }
    try alter("DELETE FROM sqlite_schema WHERE tbl_name = 'account_codes'")
    let notes = try await folder.acceptLosses()
    #expect(
      notes.contains("the rows of the table account_codes, whose definition is missing"),
      "\(notes)")
    try await expectSound()
    let after = try folder.read { try AllTables.rows($0) }
    for table in ["accounts", "deleted_accounts", "client_writes", "disconnect_writes"] {
      #expect(after[table] == before[table], "\(table)")
    }
    #expect(after["account_codes"] == [])
  }

  @Test func `an invalid definition is named as damage that can be accepted`() async throws {
    try alter(Self.change("commits", "INTEGER", to: "INTEGES"))
    for open in [
      { _ = try SQLiteStore.reading(folder.path) }, { _ = try SQLiteStore(folder: folder.path) },
    ] as [() throws -> Void] {
      let error = #expect(throws: StoreError.self) { try open() }
      expectAdvice(error, mentions: "the definitions of the tables", "commits", "--accept-loss")
    }
  }

  @Test func `after losses are accepted, the folder is opened with the checks of any start`()
    async throws
  {
    try alter(Self.change("sum_tokens_insert", "(value +", to: "(value -"))
    try alter("DELETE FROM leaves WHERE path = (SELECT min(path) FROM leaves)")
    var configuration = SQLiteStore.Configuration()
    configuration.acceptsLoss = true
    let accepting = try SQLiteStore(folder: folder.path, configuration: configuration)
    let (losses, store) = try await accepting.acceptLossesAndReopen(at: 5_000_000)
    #expect(!losses.notes.isEmpty)
    #expect(!store.configuration.acceptsLoss)
    let problems = try await store.problems()
    #expect(problems.isEmpty)
    try store.close()
  }

  @Test func `a changed bit in the definitions does not end in a folder that is refused`()
    async throws
  {
    var random = SeededGenerator(printingSeedFor: "DefinitionRepairTests.bits")
    let pages = try DatabasePages(folder)
    let leaves = pages.pages.filter {
      $0.kind == .leaf && $0.tree.hasSameBytes(as: "sqlite_schema")
    }
    var whole = 0
    for _ in 0..<15 {
      let places = pages.places(in: random.pick(leaves))
      let offset = try #require(places.randomElement(using: &random))
      let mask = UInt8(1) << UInt8.random(in: 0..<8, using: &random)
      let copy = try folder.crashed()
      try copy.flip(mask, at: offset)
      let what: Comment = "byte \(offset), mask \(mask)"
      do {
        let notes = try await copy.acceptLosses()
        let root = try await copy.withStore { store in
          let problems = try await store.problems()
          #expect(problems.isEmpty, what)
          return try await store.tree().root
        }
        guard notes.isEmpty else { continue }
        whole += 1
        #expect(root == tables.root, what)
      } catch let error as StoreError {
        // The number of the first page of a table was altered.
        #expect(error.sentence.contains("backup"), what)
        #expect(!error.sentence.contains("run canopy serve --accept-loss"), what)
      }
    }
    print("changed bits in definitions: \(whole) of 15 without a loss")
    // One of a hundred bytes is of the number of the first page of a table.
    #expect(whole > 11)
  }

  // MARK: Versions

  /// Returns a database in memory with the definitions of a version.
  private func database(of version: String) throws -> DatabaseQueue {
    var settings = GRDB.Configuration()
    settings.prepareDatabase { $0.add(function: SealedTable.function) }
    let queue = try DatabaseQueue(configuration: settings)
    try Schema.migrator.migrate(queue, upTo: version)
    return queue
  }

  @Test func `the definitions of a file are compared with those of its own version`() throws {
    let versions = try Schema.versions()
    for (version, name) in zip(versions, Schema.migrator.migrations) {
      try database(of: name).write { db throws in
        #expect(try DefinitionRepair(db) == nil, "\(name)")
        try db.execute(sql: "PRAGMA writable_schema = ON")
        try db.execute(sql: Self.change("accounts", "CREATE TABLE", to: "cREATE TABLE"))
        #expect(try DefinitionRepair(db)?.expected == version.definitions, "\(name)")
        // A newer version has migrations that are not known.
        for name in Schema.migrator.migrations + ["new"] {
          try db.execute(
            sql: "INSERT OR IGNORE INTO grdb_migrations VALUES (?)", arguments: [name])
        }
        #expect(try DefinitionRepair(db) == nil, "\(name)")
      }
    }
  }
}
