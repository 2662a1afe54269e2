import CanopyEngine
import CanopyTesting
import CanopyTree
import GRDB
import Testing

@testable import CanopySQLite

/// The on-disconnect writes of a connection as a group in the store.
@Suite(.timeLimit(.minutes(20))) struct DisconnectConnectionTests {
  let folder: Folder

  init() throws {
    folder = try Folder()
  }

  @discardableResult
  private func add(
    _ store: SQLiteStore, _ request: String, to group: DisconnectWriteID? = nil
  ) async throws -> DisconnectWriteID {
    try #require(
      try await store.changeDisconnectWrites(
        adding: ("administrator", request), to: group, exceptions: [:], removing: []))
  }

  /// Adds three groups whose writes alternate, and removes the first write of the first group.
  private func addGroups(_ store: SQLiteStore) async throws {
    for group in [nil, nil, 1, 2, nil, 1] as [DisconnectWriteID?] {
      try await add(store, "SET /a 1", to: group)
    }
    _ = try await store.changeDisconnectWrites(adding: nil, exceptions: [:], removing: [1])
  }

  @Test func `the writes of a group follow each other, also after a crash`() async throws {
    let folder = folder
    let crashed = try await folder.withStore { store in
      try await addGroups(store)
      return try folder.crashed()
    }
    for folder in [folder, crashed] {
      try await folder.withStore { store async throws in
        let kept = try await store.disconnectWrites()
        #expect(kept.map(\.id) == [3, 6, 2, 4, 5])
        #expect(kept.map(\.group) == [1, 1, 2, 2, 5])
        #expect(try await store.disconnectWriteIDs() == [2, 3, 4, 5, 6])
        #expect(try await store.problems().isEmpty)
      }
    }
  }

  @Test(arguments: [
    (0, 1, [3, 6]), (0, 2, [3, 6]), (0, 3, [3, 6, 2, 4]), (1, 1, [2, 4]), (1, 3, [2, 4, 5]),
    (4, 1, [5]), (5, 1, []),
  ])
  func `a page has whole groups`(
    after group: DisconnectWriteID, countMax: Int, ids: [DisconnectWriteID]
  ) async throws {
    try await folder.withStore { store in
      try await addGroups(store)
      let journal = InMemoryJournal()
      let byCount = try await store.disconnectWrites(
        after: group, countMax: countMax, bytesMax: .max)
      #expect(byCount.map(\.id) == ids)
      let byBytes = try await store.disconnectWrites(
        after: group, countMax: .max, bytesMax: 8 * countMax)
      #expect(byBytes.map(\.id) == ids)
      // The journal of the tests has the same pages.
      for next in [nil, nil, 1, 2, nil, 1] as [DisconnectWriteID?] {
        _ = try await journal.changeDisconnectWrites(
          adding: ("administrator", "SET /a 1"), to: next, exceptions: [:], removing: [1])
      }
      let page = try await journal.disconnectWrites(
        after: group, countMax: countMax, bytesMax: .max)
      #expect(page.map(\.id) == ids)
    }
  }

  @Test func `a commit removes all writes of a group in one transaction`() async throws {
    let folder = folder
    let crashed = try await folder.withStore { store in
      try await addGroups(store)
      var commit = try commit(1, "n", 1)
      commit.completedDisconnectWrites = [3, 6]
      #expect(throws: (any Error).self) { try store.append([commit, commit], after: 0) }
      #expect(try await store.disconnectWrites().count == 5)
      try store.append([commit], after: 0)
      #expect(try await store.number("SELECT count(*) FROM disconnect_groups") == 1)
      return try folder.crashed()
    }
    try await crashed.withStore { store async throws in
      #expect(try await store.disconnectWrites().map(\.id) == [2, 4, 5])
      #expect(try await store.problems().isEmpty)
    }
  }

  @Test func `each write of an earlier version is a group of its own`() async throws {
    let old = try DatabaseQueue(path: folder.database)
    try Schema.migrator.migrate(old, upTo: "rules-record")
    try await old.write { db in
      for request in ["SET /a 1", "SET /b 1"] {
        try db.execute(
          sql: """
            INSERT INTO disconnect_writes(identity, request, exceptions)
            VALUES ('administrator', ?, '[]')
            """, arguments: [request])
      }
    }
    try old.close()
    try await folder.withStore { store in
      try await add(store, "SET /c 1")
      try await add(store, "SET /d 1", to: 3)
      let kept = try await store.disconnectWrites()
      #expect(kept.map(\.group) == [1, 2, 3, 3] && kept.map(\.id) == [1, 2, 3, 4])
      #expect(try await store.problems().isEmpty)
    }
  }

  @Test func `a file of this version is a newer one for the version before it`() async throws {
    let names = Schema.migrator.migrations
    #expect(names.last == "deleted-accounts")
    try await folder.withStore { store in
      // A version that does not know the last migration finds a name that it does not know.
      let stored = try await store.pool.read { db in
        try String.fetchSet(db, sql: "SELECT identifier FROM grdb_migrations")
      }
      #expect(stored.isStrictSuperset(of: names.dropLast()))
      #expect(try await store.pool.read { try Schema.version($0) } == .current)
    }
  }

  @Test func `after the loss of their groups is accepted, no write is made without the others`()
    async throws
  {
    try await folder.withStore { store in
      try await addGroups(store)
      let name = SealedTable.disconnectGroups.sumName ?? ""
      let sum = try await store.number("SELECT value FROM meta WHERE name = '\(name)'")
      try await store.damage("DELETE FROM disconnect_groups", isSealed: false)
      try await store.damage(
        "UPDATE meta SET value = ? WHERE name = ?", [sum, name], isSealed: false)
      let error = await #expect(throws: StoreError.self) { try await store.load() }
      expectAdvice(error, mentions: "group", "--accept-loss")
    }
    var accepting = SQLiteStore.Configuration()
    accepting.acceptsLoss = true
    try await folder.withStore(accepting) { store in
      try await store.acceptLosses()
      #expect(try await store.disconnectWrites().isEmpty)
    }
    try await folder.withStore { store async throws in
      #expect(try await store.problems().isEmpty)
    }
  }
}
