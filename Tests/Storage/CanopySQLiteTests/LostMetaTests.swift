import CanopyEngine
import CanopyTesting
import CanopyTree
import Foundation
import GRDB
import Testing

@testable import CanopySQLite

/// Folders whose table `meta` is lost, in whole or in part. Their rows have checksums, so no row may get a new one.
@Suite(.timeLimit(.minutes(20))) struct LostMetaTests {
  /// A loss of numbers.
  enum Loss: String, CaseIterable {
    /// The page of the table has no rows, in a form that SQLite accepts.
    case page
    /// The number of rows in the page is 0.
    case count
    /// The numbers that say that all rows have checksums.
    case proof = "DELETE FROM meta WHERE name IN ('sealed', 'checksum')"
    /// All numbers that a file of the third version does not have.
    case newer = "DELETE FROM meta WHERE name NOT IN ('checkpoint', 'key_time')"
    case all = "DELETE FROM meta"
  }

  let folder: Folder

  init() async throws {
    folder = try Folder()
    var random = SeededGenerator(printingSeedFor: "LostMetaTests")
    _ = try await AllTables(folder, &random)
  }

  private func lose(_ loss: Loss) throws {
    let queue = try DatabaseQueue(path: folder.database)
    let root = try queue.write { db in
      try db.execute(
        sql: """
          UPDATE leaves SET value = '"altered"' WHERE path = 'n/k10x';
          UPDATE commits SET body = '[[["n/k11x"],"altered"]]' WHERE sequence = 11;
          UPDATE accounts SET username = 'altered' WHERE uid = 'u0012'
          """)
      if loss != .page, loss != .count { try db.execute(sql: loss.rawValue) }
      return try Int.fetchOne(db, sql: "SELECT rootpage FROM sqlite_schema WHERE name = 'meta'")
    }
    try queue.close()
    guard loss == .page || loss == .count, let root else { return }
    let file = try FileHandle(forUpdating: URL(filePath: folder.database))
    let start = UInt64((root - 1) * DatabasePages.bytes)
    if loss == .page {
      try file.seek(toOffset: start)
      try file.write(contentsOf: Data([10, 0, 0, 0, 0, 0x10, 0, 0]))
    } else {
      try file.seek(toOffset: start + 3)
      try file.write(contentsOf: Data([0, 0]))
    }
    try file.close()
  }

  private func contents() throws -> Data { try Data(contentsOf: URL(filePath: folder.database)) }

  @Test(arguments: Loss.allCases, [true, false])
  func `altered rows get no new checksums if the numbers in meta are lost`(
    loss: Loss, hasTail: Bool
  ) async throws {
    let before = try folder.read { try AllTables.rows($0) }
    try lose(loss)
    if !hasTail { try FileManager.default.removeItem(atPath: folder.file("canopy.tail")) }
    let damaged = try contents()
    let reading = try SQLiteStore.reading(folder.path)
    #expect(reading.losses.count == 1)
    #expect(try await !reading.problems().isEmpty)
    try reading.close()
    let error = #expect(throws: StoreError.self) { try SQLiteStore(folder: folder.path) }
    expectAdvice(error, mentions: "damaged", "--accept-loss")
    #expect(try contents() == damaged)
    let notes = try await folder.acceptLosses()
    #expect(notes.contains { $0.contains("1 altered rows of the checkpoint") }, "\(notes)")
    #expect(notes.contains { $0.contains("1 altered rows of the table accounts") }, "\(notes)")
    try await folder.withStore { store in
      #expect(try await store.problems() == [])
      let root = try await store.tree().root
      #expect(!root.json().contains("altered"))
    }
    let after = try folder.read { try AllTables.rows($0) }
    for table in ["account_codes", "custom_sessions", "tokens"] { #expect(after[table] == []) }
    let accounts = after["accounts"] ?? []
    #expect(accounts.count == 239 && accounts.isSubset(of: before["accounts"] ?? []))
  }
}
