import CanopyEngine
import CanopyTesting
import CanopyTree
import Foundation
import GRDB

@testable import CanopySQLite

/// A folder with rows in every table, most of which take several pages.
struct AllTables {
  static let rows = 240
  static let commits: Int64 = 240
  static let checkpoint: Int64 = 160
  /// The values that each location has had, without the last one if it is the present one.
  private(set) var history: [String: [Node]] = [:]
  private(set) var root = Node.absent

  /// Fills a folder.
  init(_ folder: Folder, _ random: inout SeededGenerator) async throws {
    var history: [String: [Node]] = [:]
    var generator = random
    root = try await folder.withStore { store in
      for number in 1...Self.commits {
        let text = String(
          repeating: "t\(generator.next()) ", count: Int.random(in: 1...9, using: &generator))
        let place = "n/k\(number % 150)x"
        var commit = try commit(number, place, Node(text))
        commit.beforeImage = [
          Assignment(commit.assignments[0].location, history[place]?.last ?? .absent)
        ]
        commit.origin = try WriteOrigin(client: "c\(number % 3)", number: number, seen: 0)
        history[place, default: []].append(Node(text))
        try store.append([commit], after: number - 1)
        guard number == Self.checkpoint else { continue }
        try await store.checkpoint(try await store.tree().root, through: number)
      }
      try await store.setRulesRecord(RulesRecord(.initial, checksum: "x", sequence: 0))
      try await store.pool.write { try Self.insert($0) }
      return try await store.tree().root
    }
    random = generator
    self.history = history
  }

  private static func insert(_ db: Database) throws {
    try db.execute(
      sql: """
        CREATE TEMP TABLE numbers AS
          WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < \(rows))
          SELECT n, printf('u%04d', n) AS u, printf('user%d@example.org', n) AS e,
            CAST(printf('%032d', n * 7919) AS BLOB) AS h FROM c;
        INSERT INTO accounts(uid, email, email_normalized, username, password_hash, created_at,
            is_disabled, is_pending)
          SELECT u, e, e, 'name' || n, '$argon2id$' || n * 7919, n, n % 5 = 0, n % 7 = 0 FROM numbers;
        INSERT INTO tokens(hash, uid, expires_at) SELECT h, u, 1000000 + n FROM numbers;
        INSERT INTO account_details SELECT
          u, 'Name ' || n, NULL, '{"a":' || n || '}', n % 2, 0, 0, 5000 + n, NULL, 0 FROM numbers;
        INSERT INTO custom_sessions SELECT h, '{"s":' || n || '}', 0 FROM numbers;
        INSERT INTO account_codes SELECT h, u, 'reset', e, 1000000 + n, 0 FROM numbers;
        INSERT INTO deleted_accounts SELECT printf('d%04d', n), 1000000, 1000000 + n, 0 FROM numbers;
        INSERT INTO disconnect_writes(identity, request, exceptions)
          SELECT 'administrator', 'SET /gone/' || n || ' 1', '[]' FROM numbers;
        INSERT INTO disconnect_exceptions SELECT n, 'gone/' || n || '/except', 0 FROM numbers;
        INSERT INTO disconnect_groups SELECT 2 * n, 2 * n - 1, 0 FROM numbers WHERE n <= \(rows / 2);
        DROP TABLE numbers;
        """)
    for table in SealedTable.allCases where ![.clientWrites, .rulesRecord].contains(table) {
      try table.seal(db, where: "true", [])
    }
  }

  /// Returns all rows of each table: the types and the bytes of their values. SQLite makes the texts, because the
  /// descriptions of rows take many times as long.
  static func rows(_ db: Database) throws -> [String: Set<String>] {
    let names = try String.fetchAll(db, sql: "SELECT name FROM sqlite_schema WHERE type = 'table'")
    return try names.reduce(into: [:]) { rows, name in
      let columns = try String.fetchAll(
        db, sql: "SELECT name FROM pragma_table_info(?)", arguments: [name])
      let texts = columns.map { "typeof(\($0)) || ' ' || hex(\($0))" }
      rows[name] = try String.fetchSet(
        db, sql: "SELECT \(texts.joined(separator: " || ', ' || ")) FROM \(name)")
    }
  }
}

extension Folder {
  /// Changes a bit of the database file.
  func flip(_ mask: UInt8, at offset: Int) throws {
    let file = try FileHandle(forUpdating: URL(filePath: database))
    try file.seek(toOffset: UInt64(offset))
    let byte = try file.read(upToCount: 1)?.first ?? 0
    try file.seek(toOffset: UInt64(offset))
    try file.write(contentsOf: Data([byte ^ mask]))
    try file.close()
  }

  /// Returns the offset of a text in the leaf pages of a tree; nil if it is not there.
  func offset(of text: String, in tree: String) throws -> Int? {
    let data = try Data(contentsOf: URL(filePath: database))
    for page in try DatabasePages(self).pages
    where page.kind == .leaf && page.tree.hasSameBytes(as: tree) {
      let start = (page.number - 1) * DatabasePages.bytes
      if let found = data[start..<start + DatabasePages.bytes].firstRange(of: Data(text.utf8)) {
        return found.lowerBound
      }
    }
    return nil
  }

  /// Accepts the losses, and returns the notes. The time is 5,000 seconds after 1970.
  func acceptLosses() async throws -> [String] {
    var configuration = SQLiteStore.Configuration()
    configuration.acceptsLoss = true
    configuration.keepsFormerFiles = false
    return try await withStore(configuration) { try await $0.acceptLosses(at: 5_000_000).notes }
  }
}
