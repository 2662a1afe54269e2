import CanopyAccounts
import CanopyEngine
import CanopyTesting
import CanopyTree
import GRDB
import Testing

@testable import CanopySQLite

/// A pass over all rows in small steps, beside a server.
@Suite(.timeLimit(.minutes(20))) struct ScrubTests {
  let folder: Folder

  init() throws {
    folder = try Folder()
  }

  /// Appends ten commits, of which the checkpoint has six, and adds accounts.
  private func fill(_ store: SQLiteStore) async throws {
    for number in 1...10 as ClosedRange<Int64> {
      try store.append([commit(number, "n/\(number)", Node(number))], after: number - 1)
      if number == 6 { try await store.checkpoint(try await store.tree().root, through: 6) }
    }
    for name in ["u", "v", "w"] {
      _ = try await store.insert(
        Account(
          uid: name, email: name, emailNormalized: name, username: name, passwordHash: "h",
          createdAt: 1, isDisabled: false, isPending: false))
    }
  }

  @Test func `a lock, and the end of the task, are no damage`() {
    for code in [ResultCode.SQLITE_BUSY, .SQLITE_INTERRUPT] {
      #expect(!Scrub.isDamage(DatabaseError(resultCode: code)))
    }
    for code in [ResultCode.SQLITE_CORRUPT, .SQLITE_NOTADB, .SQLITE_IOERR] {
      #expect(Scrub.isDamage(DatabaseError(resultCode: code)))
    }
  }

  @Test func `a step that is cancelled while it reads finds no damage`() async throws {
    try await folder.withStore { try await fill($0) }
    for _ in 1...100 {
      let (started, start) = AsyncStream.makeStream(of: Void.self)
      let task = Task { [path = folder.path] in
        var scrub = try Scrub(folder: path)
        defer { scrub.close() }
        var problems: [String] = []
        start.yield()
        while !scrub.isDone, !Task.isCancelled { problems += try await scrub.step().problems }
        return problems
      }
      for await _ in started { break }
      task.cancel()
      // The end of the task is an error of the step, or comes after the last one.
      if case .success(let problems) = await task.result { #expect(problems.isEmpty) }
    }
  }

  /// Makes a pass. Returns its steps.
  private func pass(
    rowsMax: Int = 256, bytesMax: Int = 1 << 20, _ between: (Int) async throws -> Void = { _ in }
  ) async throws -> [Scrub.Step] {
    var scrub = try Scrub(folder: folder.path, rowsMax: rowsMax, bytesMax: bytesMax)
    defer { scrub.close() }
    var steps: [Scrub.Step] = []
    while !scrub.isDone {
      steps.append(try await scrub.step())
      try await between(steps.count)
    }
    return steps
  }

  @Test(arguments: [Int64.max, SequenceRange.max + 1])
  func `a commit with a number that no commit can have ends the table, and is a problem`(
    _ sequence: Int64
  ) async throws {
    try await folder.withStore { store in
      try await fill(store)
      try await store.pool.write {
        try $0.execute(
          sql: "UPDATE commits SET sequence = ? WHERE sequence = 9", arguments: [sequence])
      }
      let problems = try await pass().flatMap(\.problems)
      #expect(
        problems.contains { $0.contains("number \(sequence) after commit 10") }, "\(problems)")
    }
  }

  @Test(arguments: [1, 2, 3, 256])
  func `a pass checks every row once, a bounded number in a step, and finds nothing in sound rows`(
    _ rowsMax: Int
  ) async throws {
    try await folder.withStore { store in
      try await fill(store)
      let steps = try await pass(rowsMax: rowsMax)
      #expect(steps.allSatisfy { $0.rows <= rowsMax && $0.problems.isEmpty })
      // Six rows of the checkpoint or fewer, ten commits, three accounts, and the addresses of these in an index.
      let rows = try await store.pool.read { db in
        try Int.fetchOne(
          db,
          sql: """
            SELECT (SELECT count(*) FROM leaves) + (SELECT count(*) FROM commits)
              + 2 * (SELECT count(*) FROM accounts)
            """) ?? 0
      }
      #expect(rows >= 17)
      #expect(steps.reduce(0) { $0 + $1.rows } == rows)
    }
  }

  @Test func `a step ends when its rows have the bytes of the bound`() async throws {
    try await folder.withStore { store in
      let text = Node(String(repeating: "x", count: 1_000))
      for number in 1...6 as ClosedRange<Int64> {
        try store.append([commit(number, "n/\(number)", text)], after: number - 1)
      }
      let steps = try await pass(bytesMax: 2_500).filter { $0.rows > 0 }
      // Three rows have more than 2,500 bytes, and two have fewer.
      #expect(steps.map(\.rows) == [3, 3])
    }
  }

  @Test(arguments: [
    "UPDATE leaves SET value = value || ' '", "UPDATE commits SET body = '[]' WHERE sequence = 9",
    "UPDATE commits SET time = 1 WHERE sequence = 3", "DELETE FROM commits WHERE sequence = 8",
    "UPDATE accounts SET is_disabled = 1 WHERE uid = 'v'",
  ])
  func `a pass finds an altered or missing row, and checks the others`(_ sql: String) async throws {
    try await folder.withStore { store in
      try await fill(store)
      let sound = try await pass(rowsMax: 2).reduce(0) { $0 + $1.rows }
      try await store.damage(sql, isSealed: false)
      let steps = try await pass(rowsMax: 2)
      #expect(steps.contains { !$0.problems.isEmpty })
      #expect(steps.reduce(0) { $0 + $1.rows } >= sound - 1)
    }
  }

  // The checkpoint has the first six.
  @Test(arguments: [(6, "no value is lost"), (7, "restore the data folder")])
  func `the problem of an altered commit says whether its values are lost`(
    _ sequence: Int64, _ advice: String
  ) async throws {
    try await folder.withStore { store in
      try await fill(store)
      try await store.damage(
        "UPDATE commits SET body = '[]' WHERE sequence = \(sequence)", isSealed: false)
      for problems in [try await pass().flatMap(\.problems), try await store.problems()] {
        #expect(problems.count == 1, "\(problems)")
        let problem = try #require(problems.first)
        #expect(problem.contains("commit \(sequence)") && problem.contains(advice), "\(problem)")
        #expect(problem.contains("canopy repair"), "\(problem)")
        #expect(!StoreError.ofServer(problem).contains("canopy serve"), "\(problem)")
      }
    }
  }

  @Test(arguments: [
    "UPDATE grdb_migrations SET identifier = 'x' WHERE identifier = '2'",
    "DELETE FROM grdb_migrations WHERE identifier = '2'", "DROP TABLE grdb_migrations",
    "INSERT INTO grdb_migrations VALUES ('a newer one')",
  ])
  func `a pass finds an altered record of the version, once`(_ sql: String) async throws {
    try await folder.withStore { store in
      try await fill(store)
      try await store.damage(sql, isSealed: false)
      let steps = try await pass()
      #expect(steps.flatMap(\.problems).count == 1, "\(steps)")
      #expect(steps.allSatisfy { !$0.isOlder })
    }
  }

  @Test func `a pass says that it cannot read a file of an older version`() async throws {
    let queue = try DatabaseQueue(path: folder.path + "/canopy.sqlite")
    try Schema.migrator.migrate(queue, upTo: "1")
    try await queue.write { try $0.execute(sql: "PRAGMA application_id = \(Schema.applicationID)") }
    try queue.close()
    let steps = try await pass()
    #expect(steps == [Scrub.Step(isOlder: true)])
    try await folder.withStore { _ in }
    #expect(try await pass().allSatisfy { !$0.isOlder && $0.problems.isEmpty })
  }

  @Test func `commits, checkpoints and removals between the steps are no damage`() async throws {
    try await folder.withStore { store in
      try await fill(store)
      let steps = try await pass(rowsMax: 1) { count in
        let number = Int64(10 + count)
        guard count <= 40 else { return }
        try store.append([commit(number, "n/\(number % 7)", Node(number))], after: number - 1)
        if count % 5 == 0 {
          try await store.checkpoint(try await store.tree().root, through: number)
        }
      }
      #expect(steps.flatMap(\.problems).isEmpty)
      #expect(steps.count > 40)
    }
  }

  @Test func `a pass keeps no transaction open between its steps`() async throws {
    try await folder.withStore { store in
      try await fill(store)
      var scrub = try Scrub(folder: folder.path, rowsMax: 1)
      defer { scrub.close() }
      _ = try await scrub.step()
      // A reader would keep the log from being copied as a whole.
      let isWhole = try await store.pool.writeWithoutTransaction { db in
        let row = try Row.fetchOne(db, sql: "PRAGMA wal_checkpoint(TRUNCATE)")
        return row?[0] == 0
      }
      #expect(isWhole)
    }
  }

  @Test func `the indexes of a pass are those of the file`() async throws {
    try await folder.withStore { store in
      let names = try await store.pool.read { db in
        try SealedTable.allCases.flatMap { table in
          try db.indexes(on: table.rawValue).map(\.name).filter { name in
            // The key of a table is the table itself.
            !name.hasSameBytes(as: "sqlite_autoindex_\(table.rawValue)_1")
          }
        }
      }
      #expect(names.sorted() == StoredIndex.all.map(\.name).sorted())
    }
  }

  @Test(arguments: StoredIndex.all.map(\.name))
  func `a pass finds each changed bit that changes an entry of an index`(_ name: String)
    async throws
  {
    var random = SeededGenerator(printingSeedFor: "ScrubTests, \(name)")
    _ = try await AllTables(folder, &random)
    let index = try #require(StoredIndex.all.first { $0.name.hasSameBytes(as: name) })
    let whole = try entries(index, folder)
    let sound = try await problems(folder)
    try #require(!whole.isEmpty && sound.isEmpty)
    let pages = try DatabasePages(folder)
    let group = pages.pages.filter {
      [.leaf, .interior].contains($0.kind) && $0.tree.hasSameBytes(as: name)
    }
    var changed = 0
    for _ in 0..<40 where changed < 6 {
      let page = random.pick(group)
      let offset = try #require(pages.places(in: page).randomElement(using: &random))
      let mask = UInt8(1) << UInt8.random(in: 0..<8, using: &random)
      let copy = try folder.crashed()
      try copy.flip(mask, at: offset)
      guard (try? entries(index, copy)) != whole else { continue }
      changed += 1
      let problems = try await problems(copy)
      #expect(!problems.isEmpty, "page \(page.number), byte \(offset % 4_096), mask \(mask)")
    }
    #expect(changed > 0)
  }

  private func entries(_ index: StoredIndex, _ folder: Folder) throws -> [String] {
    try folder.read { db in
      try Row.fetchAll(db, sql: try index.entries(db, isFirst: true)).map(\.description)
    }
  }

  /// Returns the problems that a pass over a folder finds.
  private func problems(_ folder: Folder) async throws -> [String] {
    var scrub = try Scrub(folder: folder.path)
    defer { scrub.close() }
    var problems: [String] = []
    while !scrub.isDone { problems += try await scrub.step().problems }
    return problems
  }
}
