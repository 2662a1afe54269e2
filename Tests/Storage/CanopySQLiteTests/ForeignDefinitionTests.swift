import CanopyEngine
import CanopyRows
import CanopyTesting
import CanopyTree
import Foundation
import GRDB
import Testing

@testable import CanopySQLite

/// Databases with tables, indexes, triggers or views that no version of this program has made. Their SQL must not run.
@Suite(.timeLimit(.minutes(20))) struct ForeignDefinitionTests {
  /// A query that never ends.
  private static let endless =
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"

  static let foreign = [
    "CREATE TRIGGER more AFTER UPDATE ON leaves BEGIN \(endless); END",
    "CREATE TRIGGER more AFTER UPDATE ON commits BEGIN \(endless); END",
    "CREATE TRIGGER more AFTER INSERT ON grdb_migrations BEGIN \(endless); END",
    "CREATE TRIGGER more AFTER INSERT ON tokens BEGIN UPDATE accounts SET is_disabled = 0; END",
    "CREATE VIEW more AS \(endless)",
    "CREATE INDEX more ON leaves(upper(value))",
    "CREATE TABLE more(a)",
    "DROP TABLE leaves; CREATE VIEW leaves(path, value) AS \(endless)",
    "DROP TABLE grdb_migrations; CREATE VIEW grdb_migrations(identifier) AS \(endless)",
    "DROP TABLE meta; CREATE VIEW meta(name, value) AS SELECT 'checkpoint', (\(endless))",
  ]

  static let versions = ["1", "3", "rules-record", "4", Schema.migrator.migrations.last ?? ""]

  let folder: Folder

  init() throws {
    folder = try Folder()
  }

  /// Creates a file of a version with rows, and changes its definitions.
  private func write(_ version: String, with foreign: String) async throws {
    var settings = GRDB.Configuration()
    settings.prepareDatabase { $0.add(function: SealedTable.function) }
    let isCurrent = version == Schema.migrator.migrations.last
    if isCurrent { try await folder.withStore { _ in } }
    let queue = try DatabaseQueue(path: folder.database, configuration: settings)
    try Schema.migrator.migrate(queue, upTo: version)
    try await queue.write { db in
      if !isCurrent {
        try db.execute(
          sql: """
            INSERT INTO leaves(path, value) VALUES ('list/a', '1');
            INSERT INTO commits(sequence, time, body) VALUES (1, 1001, '[[["b"],2]]')
            """)
      }
      try db.execute(sql: foreign)
      // An attacker can compute the checksum of the definitions, too.
      guard isCurrent, var meta = try? Meta.read(db) else { return }
      meta[.schema] = try Schema.checksum(db).stored
      try meta.write(db)
    }
    try queue.close()
  }

  @Test(arguments: versions, foreign)
  func `foreign definitions are refused, and nothing is written`(
    version: String, foreign: String
  ) async throws {
    if version == Self.versions.last, foreign.contains("VIEW meta") { return }
    try await write(version, with: foreign)
    let before = try Data(contentsOf: URL(filePath: folder.database))
    for open in [
      { _ = try SQLiteStore.reading(folder.path) }, { _ = try SQLiteStore(folder: folder.path) },
      {
        _ = try SQLiteStore.copyDatabase(
          of: folder.path, isServed: true, to: folder.file("copy"))
      },
    ] as [() throws -> Void] {
      let error = #expect(throws: StoreError.self) { try open() }
      if foreign.contains("VIEW grdb_migrations") {
        expectAdvice(error, mentions: "the record of the version", "backup")
      } else {
        expectAdvice(error, mentions: "definition of a table", "a view", "--accept-loss")
      }
    }
    #expect(try Data(contentsOf: URL(filePath: folder.database)) == before)
    #expect(!FileManager.default.fileExists(atPath: folder.file(Opening.oldVersionName)))
  }

  @Test(arguments: versions, foreign)
  func `a folder whose losses are accepted has no foreign definition`(
    version: String, foreign: String
  ) async throws {
    if version == Self.versions.last, foreign.contains("VIEW meta") { return }
    try await write(version, with: foreign)
    do { _ = try await folder.acceptLosses() } catch is StoreError { return }
    try await folder.withStore { store in
      #expect(try await store.problems() == [])
      let isRight = try await store.pool.read { try Schema.hasDefinitionsOfThisVersion($0) }
      #expect(isRight)
    }
  }

  @Test func `the definitions of each version on the way of an update are known`() throws {
    let names = Schema.migrator.migrations
    for (index, name) in names.enumerated() {
      let file = try DatabaseQueue(path: folder.file("\(index).sqlite"))
      try file.write { $0.add(function: SealedTable.function) }
      try Schema.migrator.migrate(file, upTo: name)
      let (isKnown, isOfFormer) = try file.read { db in
        (
          try Schema.hasDefinitions(of: Set(names[...index].map { ByteString($0) }), db),
          try Schema.hasDefinitions(of: Set(names[..<index].map { ByteString($0) }), db)
        )
      }
      #expect(isKnown && !isOfFormer, "\(name)")
      try file.close()
    }
  }

  @Test func `a folder of the first program, without the index of pending accounts, is updated`()
    async throws
  {
    try await write("1", with: "DROP INDEX accounts_pending")
    try await folder.withStore { store in
      let root = try await store.tree().root
      #expect(root == json(#"{"list":{"a":1},"b":2}"#))
    }
    try await folder.withStore { _ = try await $0.load() }
  }
}
