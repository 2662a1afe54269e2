import CanopyEngine
import CanopyTesting
import CanopyTree
import Foundation
import GRDB
import Testing

@testable import CanopySQLite

/// Finding out whether a failed append was stored.
struct ResolveAppendTests {
  private func commit(_ sequence: Int64, by client: String? = nil) throws -> Commit {
    Commit(
      sequence: sequence, time: 5, assignments: [Assignment(try Path("n"), Node(sequence))],
      origin: try client.map { try WriteOrigin(client: $0, number: 9, seen: 3) })
  }

  /// Makes a statement of the writing connection fail with an error of SQLite, until `body` returns.
  private func failing(
    _ store: SQLiteStore, _ event: String, _ code: ResultCode, _ body: () throws -> Void
  ) async throws {
    try await store.pool.writeWithoutTransaction { db in
      db.add(
        function: DatabaseFunction("planned_failure", argumentCount: 0) { _ in
          throw DatabaseError(resultCode: code)
        })
      try db.execute(
        sql: """
          CREATE TEMP TRIGGER planned BEFORE \(event) BEGIN SELECT planned_failure(); END
          """)
    }
    let result = Result { try body() }
    try await store.pool.writeWithoutTransaction { try $0.execute(sql: "DROP TRIGGER planned") }
    try result.get()
  }

  /// With a full disk, the transaction that decides the outcome fails too.
  @Test(arguments: [ResultCode.SQLITE_FULL, .SQLITE_IOERR])
  func `a full disk proves that an append was not made only if the append found it full`(
    code: ResultCode
  ) async throws {
    let folder = try Folder()
    try await folder.withStore { store in
      try store.append([commit(1)], after: 0)
      try await failing(store, "INSERT ON commits", code) {
        let error = #expect(throws: DatabaseError.self) { try store.append([commit(2)], after: 1) }
        #expect(error?.resultCode == code)
      }
      try await failing(store, "INSERT ON meta", .SQLITE_FULL) { () throws in
        guard code == .SQLITE_FULL else {
          for _ in 0..<2 {
            #expect(throws: DatabaseError.self) { try store.resolveAppend(after: 1) }
          }
          return
        }
        #expect(try store.resolveAppend(after: 1).isEmpty)
      }
      #expect(try store.resolveAppend(after: 1).isEmpty)
      // The next append forgets the full disk.
      try store.append([commit(2)], after: 1)
      try await failing(store, "INSERT ON meta", .SQLITE_FULL) {
        #expect(throws: DatabaseError.self) { try store.resolveAppend(after: 1) }
      }
    }
  }

  /// A failed synchronization can leave a complete commit in the write-ahead log, after the end that the
  /// process knows.
  @Test(arguments: [false, true])
  func `a commit that was missing when its append was resolved stays missing after a crash`(
    isResolved: Bool
  ) async throws {
    let folder = try Folder()
    let log = folder.database + "-wal"
    let before = try Folder()
    var tail = Data()
    try await folder.withStore { store async throws in
      try store.append([commit(1)], after: 0)
      for file in [folder.database, log] {
        try FileManager.default.copyItem(
          atPath: file, toPath: file.replacing(folder.path, with: before.path))
      }
      let length = try Data(contentsOf: URL(filePath: log)).count
      try store.append([commit(2)], after: 1)
      tail = try Data(contentsOf: URL(filePath: log)).dropFirst(length)
    }
    #expect(!tail.isEmpty)
    let crashed = try Folder()
    try await before.withStore { store async throws in
      let file = try FileHandle(forWritingTo: URL(filePath: before.database + "-wal"))
      try file.seekToEnd()
      try file.write(contentsOf: tail)
      try file.close()
      if isResolved { #expect(try store.resolveAppend(after: 1).isEmpty) }
      for file in [before.database, before.database + "-wal"] {
        try FileManager.default.copyItem(
          atPath: file, toPath: file.replacing(before.path, with: crashed.path))
      }
    }
    try await crashed.withStore { store async throws in
      #expect(try await store.load().sequence == (isResolved ? 1 : 2))
      #expect(try await store.problems().isEmpty)
    }
  }
}
