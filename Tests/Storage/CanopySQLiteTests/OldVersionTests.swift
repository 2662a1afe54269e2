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

/// The first start with a file of each version, which the migrations of this program make. `OldFolderTests` has folders that
/// the programs of the versions have written.
@Suite(.timeLimit(.minutes(20))) struct OldVersionTests {
  let folder: Folder
  private var copy: String { folder.file(Opening.oldVersionName) }

  init() throws {
    folder = try Folder()
  }

  /// Creates the file of a version that had no checksums, as its program has left it.
  private func writeFile(of version: String) throws {
    var settings = GRDB.Configuration()
    settings.prepareDatabase { $0.add(function: SealedTable.function) }
    let queue = try DatabaseQueue(path: folder.database, configuration: settings)
    try Schema.migrator.migrate(queue, upTo: version)
    try queue.write { db in
      for number in 0..<100 {
        try db.execute(
          sql: "INSERT INTO leaves(path, value) VALUES (?, ?)",
          arguments: ["list/\(number)", "\(number)"])
      }
      for sequence in 3...6 {
        try db.execute(
          sql: "INSERT INTO commits(sequence, time, body) VALUES (?, ?, ?)",
          arguments: [sequence, 1_000 + sequence, "[[[\"a/n\(sequence % 3)\"],\(sequence)]]"])
      }
      try db.execute(sql: "UPDATE meta SET value = 4 WHERE name = 'checkpoint'")
      let columns = try db.columns(in: "accounts").map(\.name).filter { $0 != "checksum" }
      try db.execute(
        sql: """
          INSERT INTO accounts(\(columns.joined(separator: ", ")))
          VALUES ('u', 'E@x', 'e@x', 'name', 'hash', 5, 0, 0)
          """)
    }
    try queue.close()
  }

  /// Makes a file of this version that of an earlier one that had checksums.
  private func goBack(to version: String) throws {
    var settings = GRDB.Configuration()
    settings.prepareDatabase { $0.add(function: SealedTable.function) }
    let queue = try DatabaseQueue(path: folder.database, configuration: settings)
    let names = Schema.migrator.migrations
    let later = names.drop { $0 != version }.dropFirst()
    try queue.write { db in
      for name in later {
        try db.execute(sql: "DELETE FROM grdb_migrations WHERE identifier = ?", arguments: [name])
        for table in Self.tables(of: name) {
          if table == .customSessions { try db.execute(sql: "DROP TRIGGER tokens_delete_claims") }
          try db.execute(sql: "DROP TABLE \(table.rawValue)")
          try db.execute(sql: "DELETE FROM meta WHERE name = ?", arguments: [table.sumName])
        }
      }
      var meta = try Meta.read(db)
      meta[.schema] = try Schema.checksum(db).stored
      try meta.write(db)
    }
    try queue.close()
  }

  /// Returns the tables that a migration has created.
  private static func tables(of migration: String) -> [SealedTable] {
    switch migration {
    case "identity": [.accountDetails, .customSessions, .accountCodes]
    case "disconnect-exceptions": [.disconnectExceptions]
    case "disconnect-groups": [.disconnectGroups]
    case "deleted-accounts": [.deletedAccounts]
    default: []
    }
  }

  private func check(_ store: SQLiteStore) async throws {
    let state = try await store.load()
    #expect(state.sequence == 6 && state.checkpoint == 4)
    #expect(state.tree.root.child("list").childCount == 100)
    #expect(state.tree.root.child("a") == json(#"{"n0":6,"n2":5}"#))
    #expect(try await store.account(uid: "u")?.email == "E@x")
    #expect(try await store.problems().isEmpty)
  }

  @Test(arguments: Schema.migrator.migrations)
  func `a folder of each version is updated with its data, and a copy of it is kept`(
    _ version: String
  ) async throws {
    let names = Schema.migrator.migrations
    let sealed = names.drop { $0 != "sealed-sums" }
    try writeFile(of: sealed.contains(version) ? "3" : version)
    if sealed.contains(version) {
      try await folder.withStore { try await check($0) }
      try? FileManager.default.removeItem(atPath: copy)
      try goBack(to: version)
    }
    for _ in 0..<2 { try await folder.withStore { try await check($0) } }
    let isCurrent = version == names.last
    #expect(FileManager.default.fileExists(atPath: copy) == !isCurrent)
    #expect(!FileManager.default.fileExists(atPath: folder.file(".old-version")))
    guard !isCurrent else { return }
    let queue = try DatabaseQueue(path: copy)
    try await queue.read { db in
      #expect(try String.fetchAll(db, sql: "PRAGMA integrity_check") == ["ok"])
      let kept = try String.fetchSet(db, sql: "SELECT identifier FROM grdb_migrations")
      #expect(kept == Set(names.prefix { $0 != version } + [version]))
      #expect(try Int.fetchOne(db, sql: "SELECT count(*) FROM leaves") == 100)
    }
    try queue.close()
  }

  @Test func `if no copy can be kept, nothing is changed`() async throws {
    try writeFile(of: "rules-record")
    // SQLite opens no file whose path has more than 512 bytes. That of the copy has, and that of the database has not.
    var long = folder.path
    while long.utf8.count < 488 {
      long += "/" + String(repeating: "x", count: min(200, 490 - long.utf8.count - 1))
    }
    try FileManager.default.createDirectory(atPath: long, withIntermediateDirectories: true)
    try FileManager.default.moveItem(atPath: folder.database, toPath: long + "/canopy.sqlite")
    let error = #expect(throws: StoreError.self) { try SQLiteStore(folder: long) }
    expectAdvice(error, mentions: "older version", "cannot be written")
    let queue = try DatabaseQueue(path: long + "/canopy.sqlite")
    let names = try await queue.read { db in
      try String.fetchSet(db, sql: "SELECT identifier FROM grdb_migrations")
    }
    #expect(names.count == 5)
    try queue.close()
    try FileManager.default.moveItem(atPath: long + "/canopy.sqlite", toPath: folder.database)
    try await folder.withStore { try await check($0) }
  }

  private var secondCopy: String { copy.replacing(".sqlite", with: "-2.sqlite") }

  private func exists(_ path: String) -> Bool { FileManager.default.fileExists(atPath: path) }

  /// Puts the kept copy in place of the database, as the article on the format says.
  private func putBack(from other: String? = nil) throws {
    for name in ["canopy.sqlite", "canopy.sqlite-wal", "canopy.tail"] {
      try? FileManager.default.removeItem(atPath: folder.file(name))
    }
    try FileManager.default.copyItem(atPath: other ?? copy, toPath: folder.database)
  }

  /// Changes the database as a program of its version does.
  private func change(_ sql: String) throws {
    let queue = try DatabaseQueue(path: folder.database)
    try queue.write { db in
      db.add(function: SealedTable.function)
      try db.execute(sql: sql)
    }
    try queue.close()
  }

  @Test(arguments: ["garbage", ""])
  func `a file with the name of the copy is no copy unless it is one`(text: String) async throws {
    try writeFile(of: "3")
    try Data(text.utf8).write(to: URL(filePath: copy))
    let lines = Mutex<[String]>([])
    var configuration = SQLiteStore.Configuration()
    configuration.logger = Logger(label: "test") { _ in
      LogLines { line in lines.withLock { $0.append(line) } }
    }
    try await folder.withStore(configuration) { try await check($0) }
    #expect(lines.withLock { $0.contains { $0.contains("a copy is kept before the update") } })
    #expect(try Data(contentsOf: URL(filePath: copy)) == Data(text.utf8))
    let count = try await DatabaseQueue(path: secondCopy).read { db in
      try Int.fetchOne(db, sql: "SELECT count(*) FROM leaves")
    }
    #expect(count == 100)
  }

  @Test func `a link with the name of the copy is no copy`() async throws {
    try writeFile(of: "3")
    try FileManager.default.createSymbolicLink(
      atPath: copy, withDestinationPath: folder.file("missing/file"))
    try await folder.withStore { try await check($0) }
    #expect(exists(secondCopy))
  }

  @Test(arguments: [
    "INSERT INTO leaves(path, value) VALUES ('more', '1')",
    "UPDATE accounts SET username = 'other'", "UPDATE commits SET time = 9 WHERE sequence = 6",
    "UPDATE meta SET value = 5",
  ])
  func `an outdated copy of a version without checksums does not take the place of a new one`(
    change sql: String
  ) async throws {
    try writeFile(of: "3")
    try await folder.withStore { _ in }
    #expect(exists(copy))
    try putBack()
    try change(sql)
    let changed = try folder.read { try AllTables.rows($0) }
    try await folder.withStore { _ in }
    try putBack(from: secondCopy)
    let kept = try folder.read { try AllTables.rows($0) }
    #expect(kept == changed)
  }

  @Test func `an outdated copy of a version with checksums does not take the place of a new one`()
    async throws
  {
    try writeFile(of: "3")
    try await folder.withStore { _ in }
    try FileManager.default.removeItem(atPath: copy)
    try goBack(to: "identity")
    try await folder.withStore { _ in }
    try putBack()
    try await folder.withStore { _ in }
    #expect(exists(copy) && !exists(secondCopy), "the copy has the same contents")
    try putBack()
    try change(
      """
      UPDATE accounts SET username = 'other';
      UPDATE accounts SET checksum = \(SealedTable.accounts.expression)
      """)
    try await folder.withStore { _ in }
    #expect(exists(secondCopy))
  }

  @Test func `an update that goes on keeps the copy from before its first part`() async throws {
    try writeFile(of: "3")
    try FileManager.default.copyItem(atPath: folder.database, toPath: copy)
    var settings = GRDB.Configuration()
    settings.prepareDatabase { $0.add(function: SealedTable.function) }
    let queue = try DatabaseQueue(path: folder.database, configuration: settings)
    try Schema.migrator.migrate(queue, upTo: "identity")
    try queue.close()
    let before = try Data(contentsOf: URL(filePath: copy))
    try await folder.withStore { try await check($0) }
    #expect(try Data(contentsOf: URL(filePath: copy)) == before)
    #expect(!exists(secondCopy))
  }

  @Test(arguments: [
    "DELETE FROM meta", "DELETE FROM meta WHERE name IN ('sealed', 'checksum')",
    "UPDATE meta SET value = value + 1 WHERE name = 'leaf_sum'",
  ])
  func `a version with checksums whose numbers are damaged is updated if losses are accepted`(
    sql: String
  ) async throws {
    try writeFile(of: "3")
    try await folder.withStore { _ in }
    try goBack(to: "identity")
    try change(sql + "; UPDATE leaves SET value = '9' WHERE path = 'list/4'")
    #expect(throws: StoreError.self) { try SQLiteStore(folder: folder.path) }
    _ = try await folder.acceptLosses()
    try await folder.withStore { store in
      let root = try await store.tree().root
      #expect(root.child("list").childCount == 99)
      #expect(try await store.problems() == [])
    }
  }

  @Test func `a copy is not kept in a new folder of a command`() async throws {
    try writeFile(of: "2")
    var configuration = SQLiteStore.Configuration()
    configuration.keepsFormerFiles = false
    try await folder.withStore(configuration) { _ in }
    #expect(!FileManager.default.fileExists(atPath: copy))
  }
}
