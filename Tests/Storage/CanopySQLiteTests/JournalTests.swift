import CanopyEngine
import CanopyTesting
import CanopyTree
import Foundation
import GRDB
import Testing

@testable import CanopySQLite

struct JournalTests {
  let folder: Folder

  init() throws {
    folder = try Folder()
  }

  @Test func `a commit is one row`() async throws {
    try await folder.withStore { store in
      let post = json(#"{"title":"t","body":"b"}"#)
      let before = try await store.totalChanges()
      try store.append(
        [
          Commit(
            sequence: 1, time: 5,
            assignments: [
              Assignment(try Path("posts/p"), post), Assignment(try Path("user-posts/u/p"), post),
            ])
        ], after: 0)
      #expect(try await store.totalChanges() - before == 1)
      #expect(try await store.number("SELECT count(*) FROM commits") == 1)
      #expect(try await store.number("SELECT count(*) FROM leaves") == 0)
      let body = try await store.pool.read {
        try String.fetchOne($0, sql: "SELECT body FROM commits")
      }
      #expect(body?.components(separatedBy: "title").count == 2, "a shared value is stored once")
    }
  }

  @Test(arguments: SQLiteStore.Durability.allCases)
  func `an append waits for the disk or the operating system, as configured`(
    durability: SQLiteStore.Durability
  ) async throws {
    var configuration = SQLiteStore.Configuration()
    configuration.durability = durability
    let folder = folder
    let crashed = try await folder.withStore(configuration) { store in
      try store.append([commit(1, "n", 1)], after: 0)
      try await store.checkpoint(json(#"{"n":1}"#), through: 1)
      let synchronous = try await store.pool.writeWithoutTransaction {
        try Int.fetchOne($0, sql: "PRAGMA synchronous")
      }
      #expect(synchronous == (durability == .full ? 2 : 1))
      try store.append([commit(2, "n", 2)], after: 1)
      return try folder.crashed()
    }
    // In both cases it survives the end of the process.
    try await crashed.withStore { store async throws in
      #expect(try await store.tree().root == json(#"{"n":2}"#))
    }
  }

  @Test func `a journal with a gap is refused`() async throws {
    try await folder.withStore { store in
      try store.append(try (1...5).map { try commit($0, "n", Node($0)) }, after: 0)
      try await store.damage("DELETE FROM commits WHERE sequence = 3")
      let error = await #expect(throws: StoreError.self) { try await store.load() }
      expectAdvice(error, mentions: "commit 3", "backup")
      #expect(throws: StoreError.self) { try store.append([], after: 1) }
    }
  }

  @Test func `each commit is passed on before the next one is read`() async throws {
    try await folder.withStore { store in
      try store.append(try (1...9).map { try commit($0, "n", Node($0)) }, after: 0)
      // From the last to the first, so that all commits after the damaged one are damaged as well.
      for damaged in (1...9).reversed() as ReversedCollection<ClosedRange<Int64>> {
        try await store.damage("UPDATE commits SET body = '[' WHERE sequence = ?", [damaged])
        try await store.pool.read { db in
          var handedOn: [Int64] = []
          #expect(throws: StoreError.self) {
            try SQLiteStore.forEachCommit(db, after: 0) { handedOn.append($0.sequence) }
          }
          #expect(handedOn == Array(1..<damaged))
        }
      }
    }
  }

  @Test(
    arguments: [
      "", "[", "[[[\"n\"],1]", "[[[\"n\"],]]", "{}", "[[[\"n$\"],1]]", "[[[\"n\"],1]] x",
      "[[[\"n\"],{\".sv\":\"timestamp\"}]]", "[[[\"n\"],1e999]]",
    ])
  func `the error of an unreadable commit has its number`(body: String) async throws {
    try await folder.withStore { store in
      try store.append(try (1...3).map { try commit($0, "n", Node($0)) }, after: 0)
      try await store.damage("UPDATE commits SET body = ? WHERE sequence = 2", [body])
      let error = await #expect(throws: StoreError.self) { try await store.load() }
      expectAdvice(error, mentions: "commit 2", "backup")
      #expect(try await store.problems().count == 1)
    }
  }

  @Test(
    arguments: [
      ("n", ""), ("n", "{"), ("n", "1 2"), ("n", "NaN"), ("a$b", "1"), ("a//b", "1"),
      ("m/x", "1"),
    ])
  func `an invalid row of the checkpoint is refused`(
    path: String, value: String
  ) async throws {
    try await folder.withStore { store in
      try store.append([commit(1, "m", 1)], after: 0)
      try await store.checkpoint(json(#"{"m":1}"#), through: 1)
      try await store.damage("INSERT INTO leaves(path, value) VALUES(?, ?)", [path, value])
      #expect(try await !store.problems().isEmpty)
    }
  }
}

extension SQLiteStore {
  /// Returns the number of rows that the writer has changed since the store was opened.
  func totalChanges() async throws -> Int {
    try await pool.writeWithoutTransaction { $0.totalChangesCount }
  }
}
