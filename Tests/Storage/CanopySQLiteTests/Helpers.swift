import CanopyEngine
import CanopyTesting
import CanopyTree
import Foundation
import GRDB
import Synchronization
import Testing

@testable import CanopySQLite

/// Returns the node of a JSON text. Invalid JSON gives a string that says so.
func json(_ text: String) -> Node {
  (try? Node(json: text)) ?? Node("not JSON: \(text)")
}

/// Returns a commit that sets one location.
func commit(_ sequence: Int64, _ location: String, _ value: Node) throws -> Commit {
  Commit(
    sequence: sequence, time: 1_000 + sequence,
    assignments: [Assignment(try Location(location), value)])
}

/// Copies of a folder after each step of its checkpoints, as crashes would leave it.
final class Crashes: Sendable {
  private let copies = Mutex<[Folder]>([])

  /// The copies so far.
  var folders: [Folder] { copies.withLock { $0 } }

  /// Returns a configuration with steps of one row, after each of which the folder is copied.
  func configuration(of folder: Folder) -> SQLiteStore.Configuration {
    var configuration = SQLiteStore.Configuration()
    configuration.checkpointStepRows = 1
    configuration.afterStep = { [self] in
      let crashed = try folder.crashed()
      copies.withLock { $0.append(crashed) }
    }
    return configuration
  }
}

extension Folder {
  /// Changes a table, and puts the former rows back without their sum, as a disk does that loses the write of a page.
  func lose(_ change: String, of table: SealedTable) async throws {
    try await withStore { store in
      try await store.pool.write { db in
        let name = table.sumName ?? ""
        try db.execute(sql: "CREATE TEMP TABLE kept AS SELECT * FROM \(table.rawValue)")
        try db.execute(sql: change)
        try table.seal(db, where: "true", [])
        let sum = try Meta.readUnchecked(db).number(name)
        try db.execute(
          sql: """
            DELETE FROM \(table.rawValue); INSERT INTO \(table.rawValue) SELECT * FROM temp.kept;
            DROP TABLE temp.kept
            """)
        try db.execute(sql: "UPDATE meta SET value = ? WHERE name = ?", arguments: [sum, name])
      }
      #expect(try await store.problems().count == 1)
    }
  }

  /// Returns the number of rows of a table.
  func count(_ table: SealedTable) async throws -> Int64 {
    try await withStore { try await $0.number("SELECT count(*) FROM \(table.rawValue)") }
  }
}

extension SQLiteStore {
  /// The rows of the checkpoint, by location.
  func leaves() async throws -> [String: String] {
    try await pool.read { db in
      try Row.fetchAll(db, sql: "SELECT path, value FROM leaves")
        .reduce(into: [:]) { $0[$1[0]] = $1[1] }
    }
  }

  func number(_ sql: String) async throws -> Int64 {
    try await pool.read { try Int64.fetchOne($0, sql: sql) ?? -1 }
  }

  /// Changes the database without the knowledge of the store.
  ///
  /// - Parameter isSealed: whether to compute all checksums again, so that the change is not found as damage.
  func damage(
    _ sql: String, _ arguments: StatementArguments = [], isSealed: Bool = true
  ) async throws {
    try await pool.write { try $0.execute(sql: sql, arguments: arguments) }
    guard isSealed else { return }
    // Rows keep the checksums that they have.
    try await pool.write { db in
      try db.execute(sql: "UPDATE leaves SET checksum = 0; UPDATE commits SET checksum = 0")
    }
    try Sealing.run(pool)
  }

  /// Returns the tree of the checkpoint, without the later commits.
  func checkpointRoot() async throws -> Node {
    try await pool.read { try SQLiteStore.readLeaves($0) }
  }
}

/// Checks that the sentence of an error contains the given words.
func expectAdvice(_ error: StoreError?, mentions words: String...) {
  guard let error else { return }
  for word in words {
    #expect(error.sentence.contains(word), "\(error.sentence)")
  }
}
