import CanopyEngine
import CanopyTesting
import CanopyTree
import Foundation
import GRDB
import Synchronization
import Testing

@testable import CanopySQLite

/// A node from its JSON; text that is none is a string that says so.
func json(_ text: String) -> Node {
  (try? Node(json: text)) ?? Node("not JSON: \(text)")
}

/// A commit that sets one place.
func commit(_ sequence: Int64, _ location: String, _ value: Node) throws -> Commit {
  Commit(
    sequence: sequence, time: 1_000 + sequence,
    assignments: [Assignment(try Location(location), value)])
}

/// Copies of a folder as crashes would leave it, one after each step of its checkpoints.
final class Crashes: Sendable {
  private let copies = Mutex<[Folder]>([])

  /// The copies until now.
  var folders: [Folder] { copies.withLock { $0 } }

  /// A configuration in which a step is a row, and after each a copy is taken.
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

  /// Changes the file behind the store's back.
  ///
  /// - Parameter isSealed: whether all checksums are made anew, as if the rows had always been such.
  func damage(
    _ sql: String, _ arguments: StatementArguments = [], isSealed: Bool = true
  ) async throws {
    try await pool.write { try $0.execute(sql: sql, arguments: arguments) }
    if isSealed { try Sealing.run(pool) }
  }

  /// The checkpoint alone, without the commits since.
  func checkpointRoot() async throws -> Node {
    try await pool.read { try SQLiteStore.readLeaves($0) }
  }
}

/// Checks that the sentence of an error tells its reader what to do.
func expectAdvice(_ error: StoreError?, mentions words: String...) {
  guard let error else { return }
  for word in words {
    #expect(error.sentence.contains(word), "\(error.sentence)")
  }
}
