import CanopyAccounts
import CanopyEngine
import CanopyRows
import CanopyTesting
import CanopyTree
import Foundation
import GRDB
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
    // `access` does not find the target of the link, and the copy does not replace the link.
    try FileManager.default.createSymbolicLink(
      atPath: copy, withDestinationPath: folder.file("missing/file"))
    await #expect(throws: StoreError.self) { try await folder.withStore { _ in } }
    let queue = try DatabaseQueue(path: folder.database)
    let names = try await queue.read { db in
      try String.fetchSet(db, sql: "SELECT identifier FROM grdb_migrations")
    }
    #expect(names.count == 5)
    try queue.close()
    try FileManager.default.removeItem(atPath: copy)
    try await folder.withStore { try await check($0) }
  }
}
