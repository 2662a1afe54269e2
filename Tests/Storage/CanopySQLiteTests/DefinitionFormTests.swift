import CanopyAccounts
import CanopyEngine
import CanopyTesting
import CanopyTree
import Foundation
import GRDB
import Testing

@testable import CanopySQLite

/// Databases of which SQLite cannot read the definitions, because the form of a row or of a page was altered.
@Suite(.timeLimit(.minutes(20))) struct DefinitionFormTests {
  let folder: Folder
  let tables: AllTables
  private var random: SeededGenerator

  init() async throws {
    folder = try Folder()
    random = SeededGenerator(printingSeedFor: "DefinitionFormTests")
    tables = try await AllTables(folder, &random)
  }

  /// The bytes of the pages with definitions that belong to no text.
  private struct Forms {
    /// The offsets of the heads of pages, with the places of their rows.
    var heads: [Int] = []
    /// The offsets of the beginnings of rows: their size and number, and the types of their columns.
    var rows: [Int] = []

    init(_ folder: Folder) throws {
      let data = [UInt8](try Data(contentsOf: URL(filePath: folder.database)))
      func word(_ offset: Int) -> Int { Int(data[offset]) << 8 | Int(data[offset + 1]) }
      for page in try DatabasePages(folder).pages
      where page.kind == .leaf && page.tree.hasSameBytes(as: "sqlite_schema") {
        let start = (page.number - 1) * DatabasePages.bytes
        let count = word(start + 3)
        heads += start..<start + 8 + 2 * count
        for index in 0..<count {
          let row = start + word(start + 8 + 2 * index)
          var types = row
          // The size and the number are before the size of the types.
          for _ in 0..<2 { types = (types...).first { data[$0] < 0x80 }.map { $0 + 1 } ?? types }
          rows += row..<types + Int(data[types])
        }
      }
    }
  }

  /// Accepts the loss of a copy with a changed bit, and expects that nothing is lost.
  private func expectWhole(
    _ mask: UInt8, at offset: Int, _ before: [String: Set<String>]
  ) async throws {
    let what: Comment = "byte \(offset), mask \(mask)"
    let copy = try folder.crashed()
    try copy.flip(mask, at: offset)
    do {
      let notes = try await copy.acceptLosses()
      #expect(notes == [], what)
      try await copy.withStore { store in
        let problems = try await store.problems()
        #expect(problems.isEmpty, what)
      }
      let after = try copy.read { db in
        #expect(try Schema.hasDefinitionsOfThisVersion(db), what)
        return try AllTables.rows(db)
      }
      #expect(after == before, what)
    } catch { Issue.record("\(what): \(error)") }
  }

  @Test func `a changed bit in the form of a row or a page of definitions loses nothing`()
    async throws
  {
    var random = random
    let before = try folder.read { try AllTables.rows($0) }
    let forms = try Forms(folder)
    #expect(forms.rows.count > 300 && forms.heads.count > 100)
    for places in [forms.rows, forms.heads] {
      for _ in 0..<10 {
        let mask = UInt8(1) << UInt8.random(in: 0..<8, using: &random)
        try await expectWhole(mask, at: random.pick(places), before)
      }
    }
  }

  @Test func `an unreadable first definition loses nothing, also with commits in the log`()
    async throws
  {
    let (copy, root) = try await folder.withStore { store in
      try store.append([commit(AllTables.commits + 1, "m", 1)], after: AllTables.commits)
      return (try folder.crashed(), try await store.tree().root)
    }
    let first = try #require(try Forms(folder).rows.first)
    // The type of a text becomes that of a text that is longer than the row.
    try copy.flip(0x80, at: first + 3)
    let error = #expect(throws: StoreError.self) { try SQLiteStore(folder: copy.path) }
    expectAdvice(error, mentions: copy.database, "damaged")
    let notes = try await copy.acceptLosses()
    #expect(notes == [])
    try await copy.withStore { store async throws in
      #expect(try await store.problems().isEmpty)
      #expect(try await store.tree().root == root)
    }
  }

  @Test(arguments: ["1000000", "0", "NULL", "'x'", "-1"])
  func `the first page of an index need not be known`(page: String) async throws {
    let queue = try DatabaseQueue(path: folder.database)
    try await queue.writeWithoutTransaction { db in
      try db.execute(
        sql: """
          PRAGMA writable_schema = ON;
          UPDATE sqlite_schema SET rootpage = \(page) WHERE name = 'accounts_pending'
          """)
    }
    try queue.close()
    let notes = try await folder.acceptLosses()
    #expect(notes == [])
    try await folder.withStore { store async throws in
      #expect(try await store.problems().isEmpty)
      #expect(try await store.pendingAccounts(after: nil, limit: 1_000).count == 34)
    }
  }

  @Test func `without the definition of a table in pages that cannot be read, nothing is changed`()
    async throws
  {
    let sql = try #require(try folder.offset(of: "CREATE TABLE leaves", in: "sqlite_schema"))
    try folder.flip(0x20, at: sql)
    for place in try Forms(folder).rows.prefix(8) { try folder.flip(0xFF, at: place) }
    let before = try Data(contentsOf: URL(filePath: folder.database))
    let error = await #expect(throws: StoreError.self) { try await folder.acceptLosses() }
    expectAdvice(error, mentions: "the definitions of the tables", "backup")
    #expect(try Data(contentsOf: URL(filePath: folder.database)) == before)
  }
}
