import CanopyEngine
import CanopyTesting
import CanopyTree
import Foundation
import GRDB
import Testing

@testable import CanopySQLite

struct VerificationTests {
  let folder: Folder

  init() throws {
    folder = try Folder()
  }

  init(folder: Folder) {
    self.folder = folder
  }

  /// Returns the problems of a damaged store with 8 commits and a checkpoint at the fourth.
  private func problems(
    after sql: String..., isSealed: Bool = true
  ) async throws -> [String] {
    let folder = folder
    var configuration = SQLiteStore.Configuration()
    configuration.retainedCommits = 2
    return try await folder.withStore(configuration) { store in
      for sequence in 1...8 as ClosedRange<Int64> {
        try store.append(
          [commit(sequence, "n/\(sequence)", Node(sequence))], after: sequence - 1)
        if sequence == 4 {
          try await store.checkpoint(try await store.tree().root, through: 4)
        }
      }
      #expect(try await store.problems().isEmpty)
      for statement in sql { try await store.damage(statement, isSealed: isSealed) }
      return try await store.problems()
    }
  }

  @Test func `a missing commit is found`() async throws {
    #expect(
      try await problems(after: "DELETE FROM commits WHERE sequence = 6") == [
        "the journal has gaps"
      ])
  }

  @Test(arguments: [Int64.min, -1, 0, SequenceRange.max + 1, .max])
  func `a commit with a number that no commit can have is found`(_ number: Int64) async throws {
    let problems = try await problems(
      after: "UPDATE commits SET sequence = \(number) WHERE sequence = 6", isSealed: false)
    #expect(problems.count == 1)
    #expect(problems.first?.contains("has the number \(number)") == true)
  }

  @Test func `the greatest valid sequence number is only a gap`() async throws {
    let problems = try await problems(
      after: "UPDATE commits SET sequence = \(SequenceRange.max) WHERE sequence = 8")
    #expect(problems.contains("the journal has gaps"))
  }

  @Test func `missing commits after the checkpoint are found`() async throws {
    let problems = try await problems(after: "DELETE FROM commits WHERE sequence < 6")
    #expect(problems.count == 1)
    #expect(problems.first?.contains("between the checkpoint and the journal") == true)
  }

  @Test func `a journal that ends before the checkpoint is found`() async throws {
    let problems = try await problems(after: "DELETE FROM commits WHERE sequence > 3")
    #expect(problems == ["the journal ends before the checkpoint"])
  }

  @Test func `a checkpoint without a number is found`() async throws {
    let problems = try await problems(after: "DELETE FROM meta", isSealed: false)
    #expect(problems.count == 1)
    #expect(problems.first?.contains("number and the sums of the checkpoint") == true)
  }

  @Test func `an unreadable commit is found before and after the checkpoint`() async throws {
    let problems = try await problems(
      after: "UPDATE commits SET body = '[' WHERE sequence IN (3, 7)")
    #expect(problems.count == 2)
    #expect(problems.first?.contains("commit 3") == true)
    #expect(problems.last?.contains("commit 7") == true)
  }

  @Test(
    arguments: [
      ("UPDATE commits SET time = time + 1 WHERE sequence = 3", "commit 3"),
      ("UPDATE commits SET body = '[[[\"n/7\"],8]]' WHERE sequence = 7", "commit 7"),
      ("UPDATE commits SET before = '[null]' WHERE sequence = 4", "commit 4"),
      ("UPDATE commits SET checksum = checksum + 1 WHERE sequence = 8", "commit 8"),
      ("UPDATE leaves SET value = '5' WHERE path = 'n/2'", "the row /n/2"),
      ("UPDATE leaves SET path = 'm' WHERE path = 'n/1'", "the row /m"),
      ("DELETE FROM leaves", "has 0 rows"),
      (
        "UPDATE meta SET value = value + 1 WHERE name = 'checkpoint'",
        "number and the sums of the checkpoint"
      ),
      (
        "UPDATE meta SET value = value + 1 WHERE name = 'leaf_sum'",
        "number and the sums of the checkpoint"
      ),
      ("INSERT INTO accounts VALUES ('u', 'e', 'e', 'n', 'h', 1, 0, 0, 5)", "an account"),
      ("INSERT INTO tokens VALUES (x'00', 'u', 1, 5)", "a session token"),
      (
        "INSERT INTO disconnect_writes VALUES (1, 'administrator', 'SET /a 1', '[]', 5)",
        "an on-disconnect write"
      ),
      (
        "INSERT INTO client_writes VALUES ('c', 1, 8, 1, 0, 5)",
        "a write that a client may send again"
      ),
    ])
  func `a valid row that differs from the stored one is found`(
    sql: String, name: String
  ) async throws {
    let problems = try await problems(after: sql, isSealed: false)
    #expect(!problems.isEmpty)
    #expect(problems.first?.contains(name) == true, "\(problems)")
    // The checkpoint contains the first four commits.
    let isContained = ["commit 3", "commit 4"].contains(name)
    for advice in isContained ? ["no value is lost"] : ["backup", "--accept-loss"] {
      #expect(problems.first?.contains(advice) == true, "\(problems)")
    }
  }

  @Test(
    arguments: [
      "CREATE TABLE extra(a)", "DROP INDEX tokens_by_uid", "DROP TRIGGER tokens_delete_claims",
      "CREATE INDEX other ON leaves(value)",
    ])
  func `a definition that differs from the stored one is found, as at a start`(
    sql: String
  ) async throws {
    let problems = try await problems(after: sql, isSealed: false)
    #expect(problems.count == 1, "\(problems)")
    let error = #expect(throws: StoreError.self) { try SQLiteStore(folder: folder.path) }
    #expect(problems.first == error?.sentence)
    expectAdvice(error, mentions: "definition of a table", "backup")
  }

  @Test func `an unreadable before-image is found`() async throws {
    for image in ["", "[", "[1,2]", "{\"of\":[]", "[{\".sv\":\"timestamp\"}]"] {
      let problems = try await Self(folder: Folder()).problems(
        after: "UPDATE commits SET before = '\(image)' WHERE sequence IN (4, 7)")
      #expect(problems.count == 2, "\(problems)")
      #expect(problems.first?.contains("before-image of commit 4") == true)
      #expect(problems.last?.contains("before-image of commit 7") == true)
    }
  }

  @Test func `commits without a before-image are no problem`() async throws {
    #expect(try await problems(after: "UPDATE commits SET before = NULL").isEmpty)
    let images = Self(folder: try Folder())
    #expect(try await images.problems(after: "UPDATE commits SET before = '[null]'").isEmpty)
  }

  @Test func `unreadable on-disconnect writes are found`() async throws {
    let problems = try await problems(
      after: """
        INSERT INTO disconnect_writes(identity, request, exceptions) VALUES
          ('administrator', 'SET /a 1', '[]'), ('administrator', 'SET /a 1', '{}'),
          ('administrator', 'SET /a 1', '["a/b"]'), ('administrator', 'SET /a 1', '["a.b"]'),
          ('administrator', 'SET /a 1', '[1]')
        """)
    #expect(problems.count == 3, "\(problems)")
    for (problem, id) in zip(problems, [2, 4, 5]) {
      #expect(problem.hasPrefix("on-disconnect write \(id) cannot be read"), "\(problem)")
    }
  }

  @Test(
    arguments: [
      "INSERT INTO leaves(path, value) VALUES('n/1/x', '1')",
      "INSERT INTO leaves(path, value) VALUES('', '{\"a\":1}')",
      "INSERT INTO leaves(path, value) VALUES('n/1/.priority', '1')",
      "INSERT INTO leaves(path, value) VALUES('n', '1')",
      "INSERT INTO leaves(path, value) VALUES('n', '1'), ('n!', '1'), ('n-x', '1')",
    ])
  func `a row at or below another row is found`(sql: String) async throws {
    let problems = try await problems(
      after: "DELETE FROM leaves",
      "INSERT INTO leaves(path, value) VALUES('n/1', '1'), ('n/1!', '1'), ('n/10', '1')", sql)
    #expect(problems.first?.contains("is at or below") == true, "\(problems)")
  }

  @Test(
    arguments: [
      "INSERT INTO leaves(path, value) VALUES('x', '{')",
      "INSERT INTO leaves(path, value) VALUES('x', '')",
      "INSERT INTO leaves(path, value) VALUES('x', 'null')",
      "INSERT INTO leaves(path, value) VALUES('a#b', '1')",
      "INSERT INTO leaves(path, value) VALUES('a//b', '1')",
      "INSERT INTO leaves(path, value) VALUES('/a', '1')",
      "INSERT INTO leaves(path, value) VALUES('x', '{\".sv\":\"timestamp\"}')",
      "INSERT INTO leaves(path, value) VALUES('x/.priority', '{\"a\":1}')",
      "INSERT INTO leaves(path, value) VALUES('x/.priority', 'true')",
    ])
  func `invalid rows are found`(sql: String) async throws {
    let problems = try await problems(after: sql)
    #expect(problems.count == 1, "\(problems)")
    #expect(problems.first?.contains("row") == true)
  }

  @Test func `damaged pages are found`() async throws {
    let folder = folder
    try await folder.withStore { store in
      for sequence in 1...100 as ClosedRange<Int64> {
        try store.append(
          [commit(sequence, "n/\(sequence)", Node(String(repeating: "x", count: 500)))],
          after: sequence - 1)
      }
      try store.emptyLog()
    }
    let file = try FileHandle(forUpdating: URL(filePath: folder.database))
    try file.seek(toOffset: try file.seekToEnd() - 4_096)
    try file.write(contentsOf: Data(repeating: 0xFF, count: 2_000))
    try file.close()
    let found = await #expect(throws: StoreError.self) {
      let store = try SQLiteStore.reading(folder.path)
      let problem = try await store.problems().first
      try store.close()
      if let problem { throw StoreError.damaged(problem) }
    }
    expectAdvice(found, mentions: "malformed")
    let error = await #expect(throws: StoreError.self) { try await folder.withStore { _ in } }
    expectAdvice(error, mentions: "the pages of", "are damaged")
  }

  // A control character takes one byte in the tree, and six bytes in the JSON of its row.
  @Test func `a string of control characters in the checkpoint is no problem`() async throws {
    let text = String(repeating: "\u{8}", count: Limits().writeBytesMax / 6 + 1)
    let copy = try Folder()
    try await folder.withStore { store in
      try store.append([commit(1, "n", Node(text))], after: 0)
      try await store.checkpoint(try await store.tree().root, through: 1)
      #expect(try await store.problems() == [])
    }
    let copied = try SQLiteStore.copyDatabase(of: folder.path, isServed: false, to: copy.file("c"))
    #expect(copied.sequence == 1)
  }

  @Test(arguments: [Int64.min, -5, SequenceRange.max + 1, .max])
  func `a number of changes that cannot be is found, and a repair corrects it`(
    _ number: Int64
  ) async throws {
    try await folder.withStore { store in
      try store.append([commit(1, "n", 1)], after: 0)
      try await store.pool.write { db in
        var meta = try Meta.readUnchecked(db)
        meta[.revision] = number
        try meta.write(db)
      }
    }
    let error = #expect(throws: StoreError.self) { try SQLiteStore(folder: folder.path) }
    expectAdvice(error, mentions: "the table meta", "is damaged")
    _ = try await folder.acceptLosses()
    try await folder.withStore { store in
      #expect(try await store.problems().isEmpty)
      #expect(try await store.tree().root.child("n") == 1)
      // This change counts one more.
      _ = try await store.changeDisconnectWrites(
        adding: ("administrator", "SET /a 1"), exceptions: [:], removing: [])
    }
    let problems = try await folder.withStore { try await $0.problems() }
    #expect(problems.isEmpty)
  }
}
