import CanopyEngine
import CanopyTesting
import CanopyTree
import GRDB
import Testing

@testable import CanopySQLite

/// Generated keys ascend across restarts, even if the clock is set back.
@Suite(.timeLimit(.minutes(20))) struct KeyTimeTests {
  let folder: Folder

  init() throws {
    folder = try Folder()
  }

  /// Opens the folder at a given time, and makes a commit with or without a generated key.
  private func key(
    at milliseconds: Int64, isUsed: Bool = true, checkpoint: Bool = false
  ) async throws -> Key {
    var configuration = SQLiteStore.Configuration()
    configuration.retainedCommits = 1
    configuration.retainedMilliseconds = 0
    return try await folder.withStore(configuration) { store in
      try await withEngine(store, clock: ManualClock(milliseconds)) { engine in
        let key = try await engine.transact { proposal in
          let key = isUsed ? proposal.nextKey() : Key("none")
          return Decision(try .set(Location("list/" + key.text), WriteValue(1)), key)
        }.result
        if checkpoint {
          let snapshot = engine.snapshot
          let (root, sequence) = (snapshot.root, snapshot.sequence)
          try await store.checkpoint(root, through: sequence)
        }
        return key
      }
    }
  }

  @Test(arguments: [false, true])
  func `keys ascend across restarts with a clock that was set back`(checkpoint: Bool) async throws {
    var keys = [try await key(at: 900_000, checkpoint: checkpoint)]
    for time in [1_000, 2_000, 1_000, 1_000] as [Int64] {
      // The last commit was made after the clock was set back.
      _ = try await key(at: time, isUsed: false, checkpoint: checkpoint)
      keys.append(try await key(at: time, checkpoint: checkpoint))
    }
    keys.append(try await key(at: 950_000))
    #expect(keys == keys.sorted())
    #expect(Set(keys).count == keys.count)
  }

  @Test func `the time of a commit without a key counts, even after the commit is removed`()
    async throws
  {
    _ = try await key(at: 900_000, isUsed: false, checkpoint: true)
    _ = try await key(at: 1_000, isUsed: false, checkpoint: true)
    _ = try await key(at: 1_000, isUsed: false, checkpoint: true)
    #expect(try await folder.withStore { try await $0.load().lastTime } == 900_000)
  }

  @Test func `keys sort after those generated before an import`() async throws {
    let first = try await key(at: 900_000)
    try await folder.withStore { try await $0.replace(.root, with: 1) { _ in } }
    #expect(try await key(at: 1_000) > first)
  }

  @Test func `the verification reports a time that the next start refuses`() async throws {
    let last = PushIDGenerator.timeMax
    for (time, isWrong) in [(last - 1, false), (last, true)] {
      let folder = try Folder()
      try await folder.withStore { store in
        let commit = Commit(
          sequence: 1, time: 5, assignments: [Assignment(try Path("a"), 1)], keyTime: time)
        try store.append([commit], after: 0)
      }
      let problems = try await folder.withStore { try await $0.problems() }
      #expect(problems.contains { $0.contains("the year 10889") } == isWrong)
      #expect(problems.count == (isWrong ? 1 : 0))
      var configuration = SQLiteStore.Configuration()
      configuration.currentTime = 5
      if isWrong {
        #expect(throws: StoreError.self) {
          try SQLiteStore(folder: folder.path, configuration: configuration)
        }
      } else {
        try await folder.withStore(configuration) { _ in }
      }
    }
  }

  @Test func `a file of the third schema keeps the greatest time of its commits`() async throws {
    let queue = try DatabaseQueue(path: folder.database)
    try Schema.migrator.migrate(queue, upTo: "3")
    try await queue.write { db in
      for (sequence, time) in [(1, 900_000), (2, 1_000)] {
        try db.execute(
          sql: "INSERT INTO commits VALUES (?, ?, '[[[\"a\"],1]]', NULL)",
          arguments: [sequence, time])
      }
      try db.execute(sql: "INSERT INTO leaves VALUES ('a', '1')")
      try db.execute(sql: "UPDATE meta SET value = 2 WHERE name = 'checkpoint'")
    }
    try queue.close()
    #expect(try await folder.withStore { try await $0.load().lastTime } == 900_000)
  }
}
