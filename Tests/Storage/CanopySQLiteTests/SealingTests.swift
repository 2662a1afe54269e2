import CanopyAccounts
import CanopyEngine
import CanopyRows
import CanopyTesting
import CanopyTree
import Foundation
import GRDB
import Logging
import Synchronization
import Testing

@testable import CanopySQLite

/// Folders of an older version, and folders that cannot be written.
@Suite(.timeLimit(.minutes(20))) struct SealingTests {
  let folder: Folder

  init() throws {
    folder = try Folder()
  }

  /// Creates a file of the third version.
  private func writeThirdVersion(leaves: Int = 5_000) async throws {
    let queue = try DatabaseQueue(path: folder.database)
    try Schema.migrator.migrate(queue, upTo: "3")
    try await queue.write { db in
      for number in 0..<leaves {
        try db.execute(
          sql: "INSERT INTO leaves VALUES (?, ?)", arguments: ["list/\(number)", "\(number)"])
      }
      for sequence in 3...6 {
        try db.execute(
          sql: "INSERT INTO commits VALUES (?, ?, ?, NULL)",
          arguments: [sequence, 1_000 + sequence, "[[[\"a/n\(sequence % 3)\"],\(sequence)]]"])
      }
      try db.execute(sql: "UPDATE meta SET value = 4 WHERE name = 'checkpoint'")
      try db.execute(
        sql: "INSERT INTO accounts VALUES ('u', 'E@x', 'e@x', 'name', 'hash', 5, 0, 0)")
      try db.execute(sql: "INSERT INTO client_writes VALUES ('c', 1, 6, 5)")
      try db.execute(
        sql: """
          INSERT INTO disconnect_writes(identity, request, exceptions)
          VALUES ('administrator', 'SET /a 1', '[]')
          """)
    }
    try queue.close()
  }

  private func check(_ store: SQLiteStore, leaves: Int = 5_000) async throws {
    let state = try await store.load()
    #expect(state.sequence == 6)
    #expect(state.checkpoint == 4)
    #expect(state.tree.root.child("list").childCount == leaves)
    #expect(state.tree.root.child("a") == json(#"{"n0":6,"n2":5}"#))
    #expect(state.clientWrites.count == 1)
    #expect(try await store.account(uid: "u")?.email == "E@x")
    #expect(try await store.disconnectWrites().count == 1)
    #expect(try await store.wholeHistory(after: 2, through: 6).count == 4)
    #expect(try await store.problems().isEmpty)
  }

  @Test func `the first start computes the checksums of a file of the third version`() async throws
  {
    try await writeThirdVersion()
    for _ in 0..<2 { try await folder.withStore { store in try await check(store) } }
    try await folder.withStore { store in
      try store.append([commit(7, "m", 1)], after: 6)
      try await store.checkpoint(try await store.tree().root, through: 7)
      #expect(try await store.problems().isEmpty)
    }
  }

  /// The rows without a checksum when the process ends, as the change that removes the others.
  static let interruptions = [
    "UPDATE leaves SET checksum = 0; UPDATE commits SET checksum = 0",
    "UPDATE leaves SET checksum = 0 WHERE path > 'list/3'; UPDATE commits SET checksum = 0",
    "UPDATE commits SET checksum = 0 WHERE sequence > 4",
    "",
  ]

  /// Creates a file of which the first start has ended before all rows had checksums.
  private func writeInterrupted(_ change: String) async throws {
    try await writeThirdVersion()
    try await folder.withStore { _ in }
    let queue = try DatabaseQueue(path: folder.database)
    try await queue.write { db in
      // The last transaction writes these.
      for table in SealedTable.allCases {
        try db.execute(sql: "UPDATE \(table.rawValue) SET checksum = 0")
      }
      try db.execute(
        sql: """
          DELETE FROM meta WHERE name NOT LIKE 'sum%' AND name NOT IN ('checkpoint', 'key_time')
          """)
      try db.execute(sql: change)
    }
    try queue.close()
    // Written when all checksums are computed.
    try FileManager.default.removeItem(atPath: folder.path + "/canopy.tail")
  }

  @Test(arguments: interruptions)
  func `the next start completes the checksums after an interrupted one`(
    change: String
  ) async throws {
    try await writeInterrupted(change)
    try await folder.withStore { store in try await check(store) }
  }

  @Test func `after an interrupted start, an altered row does not get a new checksum`() async throws
  {
    try await writeInterrupted("UPDATE commits SET checksum = 0 WHERE sequence > 5")
    let queue = try DatabaseQueue(path: folder.database)
    try await queue.write { db in
      try db.execute(
        sql: """
          UPDATE leaves SET value = '9' WHERE path = 'list/4';
          UPDATE commits SET body = '[[["a/n0"],9]]' WHERE sequence = 3
          """)
    }
    try queue.close()
    for _ in 0..<2 {
      let error = await #expect(throws: StoreError.self) {
        try await folder.withStore { _ = try await $0.load() }
      }
      expectAdvice(error, mentions: "altered", "--accept-loss")
    }
    let notes = try await folder.acceptLosses()
    #expect(notes.contains { $0.contains("1 altered rows of the checkpoint") }, "\(notes)")
    try await folder.withStore { store in
      #expect(try await store.problems() == [])
      let list = try await store.tree().root.child("list")
      #expect(list.childCount == 4_999 && list.child("4").isAbsent)
    }
  }

  @Test func `the log reports the progress`() async throws {
    try await writeThirdVersion(leaves: 100_010)
    let lines = Mutex<[String]>([])
    var configuration = SQLiteStore.Configuration()
    configuration.logger = Logger(label: "test") { _ in
      LogLines { line in lines.withLock { $0.append(line) } }
    }
    let unsealed = try await folder.withStore(configuration) {
      try await $0.number("SELECT count(*) FROM leaves WHERE checksum = 0")
    }
    #expect(unsealed == 0)
    let progress = lines.withLock { $0.filter { $0.contains("checksum") } }
    #expect(progress == ["100000 rows of the data folder have received a checksum"])
  }

  @Test func `reading changes nothing, with a log and without one`() async throws {
    let crashed = try await folder.withStore { store in
      try store.append([commit(1, "n", 1), commit(2, "n", 2)], after: 0)
      return try folder.crashed()
    }
    for folder in [folder, crashed] {
      // Special characters in the path have no meaning in the URI of a file.
      let odd = try Folder()
      let path = odd.path + "/a ?#%41&b"
      try FileManager.default.moveItem(atPath: folder.path, toPath: path)
      func listing() throws -> [String: Data] {
        var files: [String: Data] = [:]
        // A second process reads the process id from it for its error.
        for name in try FileManager.default.contentsOfDirectory(atPath: path) where name != "lock" {
          files[name] = FileManager.default.contents(atPath: path + "/" + name)
        }
        return files
      }
      let before = try listing()
      let store = try SQLiteStore.reading(path)
      #expect(try await store.tree().root == json(#"{"n":2}"#))
      #expect(try await store.problems().isEmpty)
      #expect(throws: StoreError.self) { try SQLiteStore(folder: path) }
      try store.close()
      #expect(try listing() == before)
      try FileManager.default.moveItem(atPath: path, toPath: folder.path)
    }
  }

  @Test func `accounts of the version before identities keep their checksums`() async throws {
    let account = Account(
      uid: "u", email: "E@x", emailNormalized: "e@x", username: "name", passwordHash: "hash",
      createdAt: 5)
    try await folder.withStore { store async throws in
      #expect(try await store.insert(account))
    }
    let checksum = "SELECT checksum FROM accounts"
    let queue = try DatabaseQueue(path: folder.database)
    let former = try await queue.write { db in
      try db.execute(
        sql: """
          DROP TRIGGER tokens_delete_claims;
          DROP TABLE account_details; DROP TABLE custom_sessions; DROP TABLE account_codes;
          DELETE FROM meta WHERE name LIKE 'sum\\_account\\_%' ESCAPE '\\'
            OR name = 'sum_custom_sessions';
          DELETE FROM grdb_migrations WHERE identifier = 'identity';
          """)
      var meta = try Meta.read(db)
      meta[.schema] = try Schema.checksum(db).stored
      try meta.write(db)
      return try Int64.fetchOne(db, sql: checksum)
    }
    try queue.close()
    try await folder.withStore { store async throws in
      #expect(try await store.account(uid: "u") == account)
      #expect(try await store.number(checksum) == former)
      let change = try await store.change(uid: "u", revokingTokens: true) {
        $0.details.displayName = "Ada"
        return true
      }
      #expect(change != .missing)
      #expect(try await store.problems().isEmpty)
    }
    try await folder.withStore { store async throws in
      #expect(try await store.account(uid: "u")?.details.displayName == "Ada")
    }
  }

  @Test
  func `reading a folder of an older version changes nothing in it, and reads an updated copy`()
    async throws
  {
    try await writeThirdVersion()
    let before = try contents()
    let store = try SQLiteStore.reading(folder.path)
    try await check(store)
    #expect(store.folder.hasPrefix(SQLiteStore.temporaryFolder))
    try store.close()
    #expect(try contents() == before)
    #expect(!FileManager.default.fileExists(atPath: store.folder))
  }

  @Test
  func `a copy of the database of an older version is updated, and the folder stays as it is`()
    async throws
  {
    try await writeThirdVersion()
    let before = try contents()
    let copy = folder.file("copy")
    let made = try SQLiteStore.copyDatabase(of: folder.path, isServed: false, to: copy)
    let store = try SQLiteStore.reading(copy)
    #expect(store.folder == copy, "the copy is of this version")
    #expect(try await store.tree().sequence == made.sequence)
    try store.close()
    try FileManager.default.removeItem(atPath: copy)
    #expect(try contents() == before)
  }

  /// Returns the files of the folder.
  private func contents() throws -> [String: Data] {
    var contents: [String: Data] = [:]
    for name in try folder.files() {
      contents[name] = try Data(contentsOf: URL(filePath: folder.file(name)))
    }
    return contents
  }

  @Test func `an altered definition of a table is refused`() async throws {
    try await folder.withStore { store in
      try await store.damage("DROP INDEX tokens_by_expiry", isSealed: false)
    }
    let error = #expect(throws: StoreError.self) { try SQLiteStore(folder: folder.path) }
    expectAdvice(error, mentions: "definition of a table", "backup")
  }
}
