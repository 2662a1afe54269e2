import CanopyEngine
import CanopyTesting
import CanopyTree
import GRDB
import Testing

@testable import CanopySQLite

/// On-disconnect writes, as they are kept.
@Suite(.timeLimit(.minutes(20))) struct DisconnectWriteTests {
  let folder: Folder

  init() throws {
    folder = try Folder()
  }

  private func add(_ store: SQLiteStore, _ request: String) async throws -> DisconnectWriteID {
    try #require(
      try await store.changeDisconnectWrites(
        adding: ("administrator", request), exceptions: [:], removing: []))
  }

  private func requests(_ store: SQLiteStore) async throws -> [String] {
    try await store.disconnectWrites().map(\.request)
  }

  /// A commit that carries out a write.
  private func completing(_ sequence: Int64, _ id: DisconnectWriteID) throws -> Commit {
    var commit = try commit(sequence, "n", Node(sequence))
    commit.completedDisconnectWrites = [id]
    return commit
  }

  @Test func `stored writes are read unchanged and in order, also after a restart or a crash`()
    async throws
  {
    let texts = ["SET /a 1", "UPDATE /é {\"x\":\"\\u0000 '\\\"🌳\"}", "REMOVE /b c", ""]
    let exceptions = ["a/b", "é 🌳/\"q\"/.priority", "", "a,b c"]
    let folder = folder
    let crashed = try await folder.withStore { store in
      for (i, text) in texts.enumerated() { #expect(try await add(store, text) == Int64(i + 1)) }
      let none = try await store.changeDisconnectWrites(
        adding: nil, exceptions: [2: exceptions, 3: []], removing: [])
      #expect(none == nil)
      return try folder.crashed()
    }
    for folder in [folder, crashed] {
      try await folder.withStore { store async throws in
        let kept = try await store.disconnectWrites()
        #expect(kept.map(\.id) == [1, 2, 3, 4])
        #expect(kept.map(\.request) == texts)
        #expect(kept.map { $0.exceptions.sorted() } == [[], exceptions.sorted(), [], []])
        #expect(kept.allSatisfy { $0.identity == "administrator" })
        #expect(try await store.problems().isEmpty)
      }
    }
  }

  @Test func `new identities replace those of the writes that exist, also after a crash`()
    async throws
  {
    let folder = folder
    let crashed = try await folder.withStore { store in
      for text in ["SET /a 1", "SET /b 2", "SET /c 3"] { _ = try await add(store, text) }
      try await store.changeDisconnectWrites(adding: nil, exceptions: [:], removing: [2])
      try await store.setDisconnectIdentities([1: "é", 2: "gone", 9: "unknown"])
      try await store.setDisconnectIdentities([:])
      return try folder.crashed()
    }
    for folder in [folder, crashed] {
      try await folder.withStore { store async throws in
        let kept = try await store.disconnectWrites()
        #expect(kept.map(\.id) == [1, 3])
        #expect(kept.map(\.identity) == ["é", "administrator"])
        #expect(kept.map(\.request) == ["SET /a 1", "SET /c 3"])
        #expect(try await store.problems().isEmpty)
      }
    }
  }

  @Test func `each exception is a row, so a large request is not written again`() async throws {
    try await folder.withStore { store in
      let large = "UPDATE /a " + String(repeating: "x", count: 400_000)
      #expect(try await add(store, large) == 1)
      let before = store.logCopier?.frames ?? 0
      let paths = (0..<50).map { "a/k\($0 + 10)" }
      for path in paths {
        _ = try await store.changeDisconnectWrites(
          adding: nil, exceptions: [1: [path]], removing: [])
      }
      let frames = (store.logCopier?.frames ?? 0) - before
      #expect(frames >= 50 && frames <= 50 * 4, "\(frames) pages for 50 exceptions")
      let kept = try #require(try await store.disconnectWrites().first)
      #expect(kept.exceptions == paths && kept.request == large)
      try store.append([completing(1, 1)], after: 0)
      #expect(try await store.number("SELECT count(*) FROM disconnect_exceptions") == 0)
      #expect(try await store.problems().isEmpty)
    }
  }

  @Test func `exceptions of an earlier version are read with the new ones`() async throws {
    let queue = try DatabaseQueue(path: folder.database)
    try Schema.migrator.migrate(queue, upTo: "rules-record")
    try await queue.write { db in
      try db.execute(
        sql: """
          INSERT INTO disconnect_writes(identity, request, exceptions)
          VALUES ('administrator', 'UPDATE /a {}', '["a/x"]')
          """)
    }
    try queue.close()
    for _ in 0..<2 {
      try await folder.withStore { store in
        _ = try await store.changeDisconnectWrites(
          adding: nil, exceptions: [1: ["a/y"]], removing: [])
        #expect(try await store.disconnectWrites().map(\.exceptions) == [["a/x", "a/y"]])
        #expect(try await store.problems().isEmpty)
      }
    }
  }

  @Test(arguments: [
    "DELETE FROM disconnect_exceptions",
    "UPDATE disconnect_exceptions SET path = 'a/z'",
  ])
  func `without its exceptions, a write that was cancelled is not made`(sql: String) async throws {
    try await folder.withStore { store in
      for text in ["a", "b"] { _ = try await add(store, text) }
      _ = try await store.changeDisconnectWrites(
        adding: nil, exceptions: [1: ["a/y"]], removing: [])
      // Without the trigger, as damage would do it.
      let name = SealedTable.disconnectExceptions.sumName ?? ""
      let sum = try await store.number("SELECT value FROM meta WHERE name = '\(name)'")
      try await store.damage(sql, isSealed: false)
      try await store.damage(
        "UPDATE meta SET value = ? WHERE name = ?", [sum, name], isSealed: false)
      let error = await #expect(throws: StoreError.self) { try await store.load() }
      expectAdvice(error, mentions: "exception", "--accept-loss")
    }
    var accepting = SQLiteStore.Configuration()
    accepting.acceptsLoss = true
    try await folder.withStore(accepting) { store in
      try await store.acceptLosses()
      #expect(try await requests(store).isEmpty)
    }
    try await folder.withStore { store async throws in
      #expect(try await store.problems().isEmpty)
    }
  }

  @Test func `a change of which a part fails is not made at all`() async throws {
    try await folder.withStore { store in
      for text in ["a", "b"] { _ = try await add(store, text) }
      let before = try await store.disconnectWrites()
      try await store.damage(
        """
        CREATE TRIGGER no BEFORE INSERT ON disconnect_writes BEGIN SELECT RAISE(ABORT, 'no'); END
        """)
      await #expect(throws: (any Error).self) {
        try await store.changeDisconnectWrites(
          adding: ("administrator", "c"), exceptions: [2: ["x"]], removing: [1])
      }
      #expect(try await store.disconnectWrites() == before)
    }
  }

  @Test func `the commit that makes a write removes it, in one transaction`() async throws {
    let folder = folder
    let crashed = try await folder.withStore { store in
      for text in ["a", "b", "c"] { _ = try await add(store, text) }
      let transactions = Steps()
      try await store.pool.writeWithoutTransaction { db in
        db.trace { if "\($0)".hasPrefix("COMMIT") { _ = transactions.next() } }
      }
      try store.append([commit(1, "m", 1), completing(2, 2), completing(3, 99)], after: 0)
      #expect(transactions.next() == 2, "one transaction, and this call")
      #expect(try await requests(store) == ["a", "c"])
      #expect(
        try await store.wholeHistory(through: 3).map(\.completedDisconnectWrites) == [
          [], [], [],
        ])
      return try folder.crashed()
    }
    try await crashed.withStore { store async throws in
      #expect(try await requests(store) == ["a", "c"])
      #expect(try await store.tree().sequence == 3)
    }
  }

  @Test func `checkpoints and imports leave them alone`() async throws {
    try await folder.withStore { store in
      for text in ["a", "b"] { _ = try await add(store, text) }
      try store.append([completing(1, 1)], after: 0)
      try await store.checkpoint(json(#"{"n":1}"#), through: 1)
      try await store.replace(.root, with: json(#"{"m":1}"#)) { _ in }
      #expect(try await requests(store) == ["b"])
    }
  }

  @Test(arguments: ["", "{", "{}", "\"a\"", "[1]", "[\"a\",null]", "[\"a\""])
  func `exceptions that cannot be read are an error that says what to do`(text: String)
    async throws
  {
    try await folder.withStore { store in
      for text in ["a", "b"] { _ = try await add(store, text) }
      try await store.damage("UPDATE disconnect_writes SET exceptions = ? WHERE id = 2", [text])
      let error = await #expect(throws: StoreError.self) { try await store.disconnectWrites() }
      expectAdvice(error, mentions: "on-disconnect write 2", "backup")
    }
  }
}
